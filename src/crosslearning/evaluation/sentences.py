"""What a comparison says about sharing, as a value and in sentences."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crosslearning.evaluation.numbers import named, number

if TYPE_CHECKING:
    from crosslearning.evaluation.comparison import Comparison

_FEWEST = 3  # rows of a task whose gain is worth telling
_ROUNDING = 1e-6  # of the score; smaller gains are none
NAMES = {"pooled": "one pooled model", "separate": "separate models", "cross": "cross-learned"}


class Effect(Enum):
    """What a comparison says about sharing; the best rival decides."""

    NOTHING = "nothing to compare"  # no task has a score of every method
    HELPS = "sharing helps"  # significantly better than the best rival
    DIFFER = "tasks differ"  # significantly better than one pooled model, not than separate ones
    POOL = "one model for all does as well"  # a tie, or significantly better than separate ones
    SAME = "sharing makes no difference"  # exactly as good as another method, or as all
    HURTS = "sharing does not help"  # significantly worse, or a tie with better separate models
    UNDECIDED = "cannot tell whether sharing helps"


@dataclass(frozen=True)
class Remark:
    """A sentence with a lead."""

    lead: str
    text: str


class Measure(NamedTuple):
    """What scores are called, and whether they are shares, which are written in per cent."""

    words: str
    percent: bool = False


def verdict(comparison: Comparison, score: Measure | None = None) -> str:
    """Say whether sharing helps compared with the best rival, and how certain that is.

    `score` names the scores; negative scores are errors, written without a sign.
    """
    effect, rival = comparison.effect, comparison.best_rival
    if effect is Effect.NOTHING:
        return f"No {_unit(comparison)} has scores for all methods: there is nothing to compare."
    name, verb = NAMES.get(rival, rival), "are" if rival == "separate" else "is"
    if effect is Effect.SAME:
        return f"Sharing makes no difference: {name}, the best alternative, {verb} as good."
    if comparison.ties(rival):
        return _of_tie(comparison, score)
    amount = size(comparison, rival, score)
    if effect is Effect.HELPS:
        return f"Sharing helps: cross-learning is better than {name} by {amount}."
    if effect is Effect.HURTS:
        start = "Sharing as done here does not help" if rival in NAMES else "Sharing is not enough"
        return f"{start}: {name} {verb} better by {amount}."
    word = "better" if comparison.paired(rival).gain > 0 else "worse"
    if effect is Effect.POOL:
        return (
            f"One model for all does as well: cross-learning is better than separate models, but "
            f"{word} than {name} only by {amount}{chance(comparison, rival)}."
        )
    if effect is Effect.DIFFER:
        return (
            "Tasks differ: cross-learning is better than one pooled model by "
            f"{size(comparison, 'pooled', score)}, but {word} than separate models only by "
            f"{size(comparison, rival, score, again=True)}{chance(comparison, rival)}."
        )
    return (
        f"{cannot_tell(comparison, rival)}: cross-learning is {word} "
        f"than {name}, the best alternative, by {amount}."
    )


def _of_tie(comparison: Comparison, score: Measure | None) -> str:
    """Compare pooled with separate models, since cross-learning is as good as the better."""
    if comparison.effect is Effect.POOL:
        return (
            "One model for all does as well: cross-learning is exactly as good, and better than "
            f"separate models by {size(comparison, 'separate', score)}"
            f"{chance(comparison, 'separate')}."
        )
    doubt = comparison.effect is Effect.UNDECIDED
    start = cannot_tell(comparison, "pooled") if doubt else "Sharing does not help"
    return (
        f"{start}: cross-learning is exactly as good as separate models, which are better than one "
        f"pooled model by {size(comparison, 'pooled', score)}."
    )


def than(
    comparison: Comparison,
    rival: str,
    name: str,
    score: Measure | None,
    *,
    sure: bool = False,
    again: bool = False,
) -> str:
    """Write "better than" or "worse than" a rival and by how much; unless `sure`, if by chance."""
    gain = comparison.paired(rival).gain
    if abs(gain) <= _ROUNDING * abs(comparison.score(rival)):
        return f"as good as {name}"
    doubt = "" if sure else chance(comparison, rival)
    word = "better" if gain > 0 else "worse"
    return f"{word} than {name} by {size(comparison, rival, score, again=again)}{doubt}"


def cannot_tell(comparison: Comparison, rival: str) -> str:
    """Say that so many tasks or runs do not decide whether sharing helps."""
    n, unit = comparison.paired(rival).n, _unit(comparison)
    who = f"One {unit}" if n == 1 else f"These {n:,} {unit}s"
    return f"{who} cannot tell whether sharing helps"


def chance(comparison: Comparison, rival: str) -> str:
    """Say that a difference may be chance, if it may."""
    sure = comparison.paired(rival).sure or comparison.verdict(rival)
    return "" if sure else ", which may be chance"


def _unit(comparison: Comparison) -> str:
    return "task" if comparison.runs is None else "run"


def size(comparison: Comparison, rival: str, score: Measure | None, *, again: bool = False) -> str:
    """Write a gain with its standard error and its unit; more briefly `again` in a sentence."""
    pairs, percent = comparison.paired(rival), score is not None and score.percent
    if percent:
        gain, error = f"{abs(100 * pairs.gain):.1f}", f"{100 * pairs.standard_error:.1f}"
    else:
        gain, error = number(abs(pairs.gain)), number(pairs.standard_error, 2)
    if pairs.n > 1:
        gain += f" ± {error}"
    caveat = _caveat(comparison, rival, 100.0 if percent else 1.0)
    if score is None:
        return f"{gain} in score ({caveat})" if caveat else f"{gain} in score"
    if percent:
        gain += " points"
    mine, other = (_written(comparison.score(m), score) for m in (comparison.subject, rival))
    details = [f"{mine} against {other}"]
    if not again:
        gain += f" in {score.words}"
        if pairs.n > 1:
            unit = _unit(comparison)
            details.append(f"standard error paired over {pairs.n:,} {unit}s")
    if caveat:
        details.append(caveat)
    return f"{gain} ({'; '.join(details)})"


def _caveat(comparison: Comparison, rival: str, unit: float) -> str:
    """Explain a verdict that differs from what the mean and its standard error suggest."""
    pairs, sure = comparison.paired(rival), comparison.verdict(rival)
    helped, hurt = comparison.served(rival)
    most = f"{max(helped, hurt):,} of {comparison.n_tasks:,} tasks are "
    most += "better off" if helped > hurt else "worse off"
    if sure and not pairs.sure:
        return f"uncertain in the mean, but {most}"
    if sure or pairs.n < 2 or abs(pairs.gain) <= 1.96 * pairs.standard_error:
        return ""
    if pairs.sure:
        return f"but {most}"
    ends = (unit * (abs(pairs.gain) + sign * pairs.half_width) for sign in (-1, 1))
    return f"95 % interval by Student's t: {' to '.join(number(end, 2) for end in ends)}"


def _written(value: float, score: Measure) -> str:
    return f"{100 * value:.1f} %" if score.percent else number(abs(value))


def extremes(
    comparison: Comparison, kind: str, score: Measure, shared: str = "cross-learned"
) -> tuple[Remark, ...]:
    """Say which task gains most over its separate model, and which loses most, if any."""
    both = (extreme(comparison, sign, kind, score, shared=shared) for sign in (1, -1))
    return tuple(remark for remark in both if remark is not None)


def extreme(
    comparison: Comparison,
    sign: int,
    kind: str,
    score: Measure,
    row: str = "row",
    shared: str = "cross-learned",
) -> Remark | None:
    """Say which task gains most over its separate model or, if `sign` is -1, loses most.

    Tasks with very few rows do so by luck and are not considered. `kind` says what a task is, such
    as a school, `row` what a row is, such as an image, and `shared` what the method is.
    """
    if "separate" not in comparison.methods or comparison.subject == "separate":
        return None
    scores = dict(zip(comparison.methods, comparison.scores, strict=True))
    alone, cross = scores["separate"], comparison.scores[-1]
    telling = ~np.isnan(cross - alone) & (comparison.rows >= _FEWEST)
    gains = np.where(telling, sign * (cross - alone), 0.0)
    k = int(gains.argmax())
    if gains[k] <= 0:
        return None
    before, after = _written(alone[k], score), _written(cross[k], score)
    text = f"{score.words} {before} alone, {after} {shared}"
    if "pooled" in scores and scores["pooled"][k] > cross[k]:  # to be had without cross-learning
        text += f", {_written(scores['pooled'][k], score)} pooled"
    rows, verb = int(comparison.rows[k]), "gains" if sign > 0 else "loses"
    return Remark(
        lead=f"{named(kind, comparison.labels[k])} {verb} most",
        text=f"{text} ({rows:,} {row if rows == 1 else f'{row}s'}).",
    )
