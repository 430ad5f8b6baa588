"""Whether sharing helps, which tasks, and by how much: as values, and in sentences."""

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import bdtr, stdtr, stdtrit

from crosslearning.evaluation.numbers import count, named, number
from crosslearning.evaluation.scores import Scores
from crosslearning.tasks.labels import as_objects
from crosslearning.tether import Array

if TYPE_CHECKING:
    from crosslearning.report.plots import Plot

_LEVEL = 0.05  # of a two-sided test
_ENDS = ("pooled", "separate")
_FEWEST = 3  # rows of a task whose gain is worth telling
_ROUNDING = 1e-6  # of a score; smaller gains are none
_NAMES = {"pooled": "one pooled model", "separate": "separate models", "cross": "cross-learned"}


class Effect(Enum):
    """What a comparison says about sharing; the best rival decides."""

    NOTHING = "nothing to compare"  # no task has a score of every method
    HELPS = "sharing helps"  # significantly better than the best rival
    DIFFER = "tasks differ"  # significantly better than one pooled model, not than separate ones
    POOL = "one model for all does as well"  # a tie, or significantly better than separate ones
    SAME = "sharing makes no difference"  # exactly as good as another method, or as all
    HURTS = "sharing does not help"  # significantly worse, or a tie with better separate models
    UNDECIDED = "cannot tell whether sharing helps"


class Paired(NamedTuple):
    """Mean difference of pairs, its standard error, and the number of pairs."""

    gain: float
    standard_error: float
    n: int

    @property
    def p_value(self) -> float:
        """Of the paired two-sided t test, or the sign test of equal differences; NaN for one."""
        if self.n < 2:
            return np.nan
        if self.standard_error == 0:
            return 1.0 if self.gain == 0 else 2.0 ** (1 - self.n)
        return float(2 * stdtr(self.n - 1, -abs(self.gain) / self.standard_error))

    @property
    def half_width(self) -> float:
        """Half the width of the 95 % interval, by Student's t; infinite for a single pair."""
        if self.n < 2:
            return np.inf
        return float(stdtrit(self.n - 1, 1 - _LEVEL / 2)) * self.standard_error

    @property
    def sure(self) -> int:
        """Sign of the difference if it is significant at the 5 % level, else 0."""
        return int(np.sign(self.gain)) if self.p_value < _LEVEL else 0


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Scores of methods on held-out rows, task by task; greater is better.

    Parameters
    ----------
    methods : tuple of str
        Names, such as ``("pooled", "separate", "cross")``; the last is compared with the others.
    labels, rows, shares : array of shape (n_tasks,)
        Tasks, their numbers of rows, and their weights in an average.
    scores : array of shape (n_methods, n_tasks)
        Mean score of each task, NaN if undefined. A task with a single row is scored as a new task.
    runs : array of shape (n_methods, n_runs), optional
        Scores of repeated runs, such as networks trained with several seeds, by which differences
        are paired; by default they are paired by task.
    nested : bool, default=True
        Whether the settings for each split were chosen on the other splits.
    stated, words : Effect, str, optional
        Verdict of a fit that knows more than these scores, and its sentence.
    """

    methods: tuple[str, ...]
    labels: NDArray[Any]
    rows: NDArray[np.int64]
    scores: Array
    shares: Array
    runs: Array | None = None
    nested: bool = True
    stated: Effect | None = None
    words: str | None = None

    @classmethod
    def of(
        cls, scores: Scores, labels: Any, rows: Any, *, by_run: bool = False, nested: bool = True
    ) -> Self:
        """Build the comparison of the last setting of a table of scores with the others."""
        by_task = scores.by_task
        shares = np.sum(scores.weights, axis=0, dtype=np.float64) if scores.by_rows else 1.0
        shares = np.where(np.isfinite(by_task).all(axis=0), shares, 0.0)
        runs = scores.by_split if by_run else None
        names = tuple(map(str, scores.settings))
        return cls(names, as_objects(labels), np.asarray(rows), by_task, shares, runs, nested)

    def some(self, tasks: NDArray[np.intp]) -> Self:
        """Return the comparison of some of the tasks."""
        parts = {name: getattr(self, name)[tasks] for name in ("labels", "rows", "shares")}
        return replace(self, scores=self.scores[:, tasks], **parts)

    def gains(self, rival: str) -> Array:
        """Return the gain of each task over a rival, 0 where it has no scores."""
        return self._of(self.subject) - self._of(rival)

    @property
    def tasks(self) -> pd.DataFrame:
        """One row per task: ``rows``, and the score of each method."""
        index = pd.Index(list(self.labels), name="task", tupleize_cols=False)
        columns = dict(zip(self.methods, self.scores, strict=True))
        return pd.DataFrame({"rows": self.rows, **columns}, index=index)

    @property
    def summary(self) -> pd.DataFrame:
        """One row per method.

        ``score`` is the average; ``gain`` is how much better the last method is, with its
        ``standard_error``, paired by task or by run; ``helped`` and ``hurt`` count the tasks for
        which the last method is better and worse.
        """
        rows = [(self.score(m), *self.paired(m)[:2], *self.served(m)) for m in self.methods]
        columns = ["score", "gain", "standard_error", "helped", "hurt"]
        return pd.DataFrame(rows, list(self.methods), columns)

    @property
    def unit(self) -> str:
        """What differences are paired by."""
        return "task" if self.runs is None else "run"

    @property
    def subject(self) -> str:
        """The method that is compared with the others."""
        return self.methods[-1]

    @property
    def best_rival(self) -> str:
        """The best of the other methods."""
        return max(self.methods[:-1], key=self.score)

    @property
    def best(self) -> str:
        """The best of all methods."""
        return max(self.methods, key=self.score)

    @property
    def n_tasks(self) -> int:
        """Number of tasks with a score of every method."""
        return int(np.count_nonzero(self.shares))

    def score(self, method: str) -> float:
        """Average score of a method."""
        if self.runs is not None:
            return float(self.runs[self.methods.index(method)].mean())
        return float(np.average(self._of(method), weights=self.shares)) if self.n_tasks else np.nan

    def paired(self, rival: str) -> Paired:
        """Gain over a rival with its standard error, paired by task or by run."""
        gains, shares = self.gains(rival), self.shares
        if self.runs is not None:
            gains = self.runs[-1] - self.runs[self.methods.index(rival)]
            shares = np.ones(len(gains))
        n = int(np.count_nonzero(shares))
        if not n:
            return Paired(np.nan, np.nan, 0)
        weight = shares / shares.sum()
        gain = float(weight @ gains)
        variance = float(np.sum(weight**2 * (gains - gain) ** 2))
        return Paired(gain, (variance * n / max(n - 1, 1)) ** 0.5, n)

    def served(self, rival: str) -> tuple[int, int]:
        """Return for how many tasks the method is better than a rival, and for how many worse."""
        gains = self.gains(rival)
        rounding = _ROUNDING * np.nanmax(np.abs(self._of(rival)), initial=0.0)
        return int(np.sum(gains > rounding)), int(np.sum(gains < -rounding))

    def ties(self, rival: str) -> bool:
        """Whether the method is exactly as good as a rival for every task, but for rounding."""
        return self.served(rival) == (0, 0)

    def verdict(self, rival: str) -> int:
        """Return 1 if the method is significantly better than a rival, -1 if worse, else 0.

        A paired t test at the 5 % level over tasks or runs is enough and so, since a few large
        errors can hide all others, is a sign test over tasks, unless the other or the mean opposes.
        """
        if self.ties(rival):
            return 0
        plain, (helped, hurt) = self.paired(rival), self.served(rival)
        agreed = 2 * bdtr(min(helped, hurt), helped + hurt, 0.5) < _LEVEL and self.runs is None
        sure = {plain.sure, int(np.sign(helped - hurt)) if agreed else 0} - {0}
        return sure.pop() if sure == {np.sign(plain.gain)} else 0

    @property
    def effect(self) -> Effect:
        """What the comparison with the best rival says about sharing."""
        if self.stated is not None:
            return self.stated
        rival = self.best_rival
        if not self.paired(rival).n:
            return Effect.NOTHING
        if self.ties(rival):
            others = [name for name in self.methods[:-1] if name in _ENDS and not self.ties(name)]
            if rival not in _ENDS or not others:
                return Effect.SAME
            sure = rival == "separate" and self._beats("pooled")
            return Effect.POOL if rival == "pooled" else Effect.HURTS if sure else Effect.UNDECIDED
        if sign := self.verdict(rival):
            return Effect.HELPS if sign > 0 else Effect.HURTS
        if rival == "pooled" and self._beats("separate"):
            return Effect.POOL
        differ = rival == "separate" and self._beats("pooled")
        return Effect.DIFFER if differ else Effect.UNDECIDED

    def _beats(self, rival: str) -> bool:
        return rival in self.methods and self.verdict(rival) > 0

    def sentence(self) -> str:
        """Say in words whether sharing helps, and how certain that is."""
        return self.words or verdict(self)

    def plot(self) -> "Plot":
        """Draw the score of every method; needs the extra ``app``."""
        from crosslearning.report import plots

        return plots.comparison(self)

    def _repr_html_(self) -> str:
        from crosslearning.report import plots

        return plots.html(self.sentence(), self.summary, self.plot)

    def __repr__(self) -> str:
        methods, n_tasks = ", ".join(self.methods), count(self.n_tasks, "task")
        return f"<Comparison of {methods} on {n_tasks}: {self.effect.value}>"

    def __str__(self) -> str:
        return f"{self.summary.to_string(float_format='{:.4g}'.format)}\n{self.sentence()}"

    def _of(self, method: str) -> Array:
        return np.where(self.shares > 0, self.scores[self.methods.index(method)], 0.0)


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
    """Say whether sharing helps compared with the best rival; `score` names the scores."""
    effect, rival = comparison.effect, comparison.best_rival
    if effect is Effect.NOTHING:
        return f"No {comparison.unit} has scores for all methods: there is nothing to compare."
    name, verb = _NAMES.get(rival, rival), "are" if rival == "separate" else "is"
    if effect is Effect.SAME:
        return f"Sharing makes no difference: {name}, the best alternative, {verb} as good."
    if comparison.ties(rival):
        return _of_tie(comparison, score)
    amount = size(comparison, rival, score)
    if effect is Effect.HELPS:
        return f"Sharing helps: cross-learning is better than {name} by {amount}."
    if effect is Effect.HURTS:
        start = "Sharing as done here does not help" if rival in _NAMES else "Sharing is not enough"
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
    text = f"{'better' if gain > 0 else 'worse'} than {name} by "
    text += size(comparison, rival, score, again=again)
    return text if sure else text + chance(comparison, rival)


def cannot_tell(comparison: Comparison, rival: str) -> str:
    """Say that so many tasks or runs do not decide whether sharing helps."""
    n, unit = comparison.paired(rival).n, comparison.unit
    who = f"One {unit}" if n == 1 else f"These {n:,} {unit}s"
    return f"{who} cannot tell whether sharing helps"


def chance(comparison: Comparison, rival: str) -> str:
    """Say that a difference may be chance, if it may."""
    sure = comparison.paired(rival).sure or comparison.verdict(rival)
    return "" if sure else ", which may be chance"


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
    gain += " points" if percent else ""
    mine, other = (_written(comparison.score(m), score) for m in (comparison.subject, rival))
    details = [f"{mine} against {other}"]
    if not again:
        gain += f" in {score.words}"
        if pairs.n > 1:
            details.append(f"standard error paired over {pairs.n:,} {comparison.unit}s")
    return f"{gain} ({'; '.join([*details, *filter(None, [caveat])])})"


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


def extreme(
    comparison: Comparison,
    sign: int,
    kind: str,
    score: Measure,
    row: str = "row",
    shared: str = "cross-learned",
) -> Remark | None:
    """Say which task gains most over its separate model or, if `sign` is -1, loses most.

    Tasks with very few rows, which do so by luck, are left out. `kind`, `row` and `shared` are what
    a task, a row and the method are called, such as a school and an image.
    """
    if "separate" not in comparison.methods[:-1]:
        return None
    scores = dict(zip(comparison.methods, comparison.scores, strict=True))
    alone, cross = scores["separate"], comparison.scores[-1]
    telling = ~np.isnan(cross - alone) & (comparison.rows >= _FEWEST)
    gains = np.where(telling, sign * (cross - alone), 0.0)
    k = int(gains.argmax())
    if gains[k] <= 0:
        return None
    text = f"{score.words} {_written(alone[k], score)} alone, {_written(cross[k], score)} {shared}"
    if "pooled" in scores and scores["pooled"][k] > cross[k]:  # to be had without cross-learning
        text += f", {_written(scores['pooled'][k], score)} pooled"
    rows = int(comparison.rows[k])
    verb = "gains most over" if sign > 0 else "loses most against"
    text += f" ({rows:,} {row if rows == 1 else f'{row}s'})."
    return Remark(f"{named(kind, comparison.labels[k])} {verb} a model of its own", text)
