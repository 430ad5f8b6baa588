"""What a comparison of models says about sharing, and about learners: values, then words."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning.evaluation.comparison import Comparison, Effect, Measure, cannot_tell, than
from crosslearning.evaluation.numbers import capital, count, joined, number
from crosslearning.evaluation.scores import Scores
from crosslearning.tables.findings import Verdict
from crosslearning.tables.forecast import BLOCKS
from crosslearning.tables.learners.candidates import Candidate, Trials

_NEGLIGIBLE = 1e-4  # of the score: a gain that helps nobody, however certain it is
_POOLED = "One model for all is best here; sharing among these tasks does not improve on it."
_ASKED = "Option epsilon=0 asks for one model for all: nothing is said about sharing."
_FEATURES = {"curved": "curves", "means": "task means", "trees": "boosted trees"}


def compared(trials: Trials, labels: NDArray[Any], rows: NDArray[Any]) -> Comparison:
    """Compare the choice among all models with those among pooled and among separate models."""
    return _between(trials, _methods(trials), labels, rows)


def _between(
    trials: Trials, methods: dict[str, str], labels: NDArray[Any], rows: NDArray[Any]
) -> Comparison:
    """Compare choices, the last with the others, under the names of methods."""
    values = np.stack([trials.choices[name].scores for name in methods])
    scores = Scores(list(methods.values()), values, trials.scores.weights)
    return Comparison.of(scores, labels, rows, nested=len(trials.scores.weights) > 1)


def _methods(trials: Trials) -> dict[str, str]:
    """Choices that are compared, separate ones if they have the same learners, and their names."""
    made = trials.choices
    alike = made.get("paired") is made["all"]
    names = {"pooled": "pooled", "separate": "separate", "all": "cross"}
    return {k: v for k, v in names.items() if k in made and (alike or k != "separate")}


def against_separate(trials: Trials, comparison: Comparison) -> Comparison | None:
    """Compare sharing with separate models, by learners that have both, if there are any.

    That is the comparison of the chosen model unless it has boosted trees.
    """
    if "separate" in comparison.methods:
        return comparison
    if "separate" not in trials.choices:
        return None
    methods = {"separate": "separate", "paired": "cross"}
    return _between(trials, methods, comparison.labels, comparison.rows)


def nested_scores(trials: Trials, comparison: Comparison) -> dict[str, float]:
    """Scores of the choices that sentences compare, by what is chosen among.

    A model that is named in a sentence may have been another one for some of the rows.
    """
    alone = against_separate(trials, comparison)
    scores = {"pooled models": comparison.score("pooled")} if "pooled" in trials.choices else {}
    if alone is not None:
        scores["separate models"] = alone.score("separate")
    if alone not in (None, comparison):
        scores["all but boosted trees"] = alone.score("cross")
    return scores


def verdict_of(comparison: Comparison, trials: Trials) -> Verdict:
    """Judge sharing, learner for learner: rivals have the same learners at another end."""
    effect = _effect(comparison, trials)
    against = comparison.best_rival if effect is Effect.HELPS else "pooled"
    pairs, (helped, hurt) = comparison.paired(against), comparison.served(against)
    return Verdict(
        effect=effect,
        against=against,
        gain=pairs.gain,
        standard_error=pairs.standard_error,
        helped=helped,
        hurt=hurt,
        n_tasks=comparison.n_tasks,
        labels={method: _label(trials, name) for name, method in _methods(trials).items()},
    )


def _effect(comparison: Comparison, trials: Trials) -> Effect:
    if not any(c.kept and c.end in ("cross", "levels") for c in trials.candidates):
        return Effect.NOTHING
    pooled, end = _sign(comparison, "pooled"), trials.chosen.end
    alone = against_separate(trials, comparison)
    separate = 0 if alone is None else _sign(alone, "separate")
    if end == "pooled":
        return Effect.POOL
    if pooled > 0:
        if end == "separate":
            return Effect.HURTS
        return Effect.HELPS if separate > 0 else Effect.DIFFER
    unsure = pooled == 0 and not _negligible(comparison, "pooled")
    better = comparison.paired("pooled").gain > 0
    return Effect.UNDECIDED if unsure and better else Effect.POOL


def _sign(comparison: Comparison, rival: str) -> int:
    """Return 1 if the choice is significantly better than a rival, -1 if worse, else 0."""
    return 0 if _negligible(comparison, rival) else comparison.verdict(rival)


def _negligible(comparison: Comparison, rival: str) -> bool:
    gain, score = comparison.paired(rival).gain, comparison.score(rival)
    return abs(gain) <= _NEGLIGIBLE * abs(score)


def sentence(
    verdict: Verdict, comparison: Comparison, trials: Trials, score: Measure, *, epsilon: float
) -> str:
    """Say whether sharing helps; a bound `epsilon` of 0 leaves pooled models alone."""
    effect = verdict.effect
    if effect is Effect.NOTHING and epsilon > 0:
        return "Nothing can be said about sharing: no model that shares was fitted."
    alone, subject = against_separate(trials, comparison), _subject(trials, "all")

    def is_than(rival: str, **how: bool) -> str:
        return than(comparison, rival, _noun(trials, rival), score, **how)

    if trials.chosen.end == "pooled":
        text = _ASKED if epsilon == 0 else _POOLED
        return text if alone is None else f"{text} {_than_separate(trials, alone, score)}."
    if effect is Effect.DIFFER:
        text = f"Tasks differ: {subject} {is_than('pooled', sure=True)}"
        if alone is None:
            return f"{text}. Separate models of this kind were not fitted."
        if alone is not comparison:
            return f"{text}. {_than_separate(trials, alone, score)}."
        link = "and" if comparison.paired("separate").gain > 0 else "but"
        return f"{text}, {link} {is_than('separate', again=True)}."
    start = {
        Effect.HELPS: "Sharing helps",
        Effect.HURTS: "Separate models are best here",
        Effect.UNDECIDED: f"{cannot_tell(comparison, 'pooled')} beyond one model",
        Effect.POOL: "Sharing among these tasks does not help beyond one model, as far as "
        f"{count(verdict.n_tasks, 'task')} can tell",
    }[effect]
    text = f"{start}: {subject} {is_than(verdict.against, sure=effect is not Effect.POOL)}."
    if effect is Effect.HELPS and alone is not None and alone is not comparison:
        text += f" {_than_separate(trials, alone, score)}."
    return text


def _than_separate(trials: Trials, alone: Comparison, score: Measure) -> str:
    """Compare sharing with separate models; without trees, if the chosen model has some."""
    ahead = than(alone, "separate", _noun(trials, "separate"), score)
    subject = _subject(trials, "paired")
    if trials.choices["paired"] is trials.choices["all"]:
        return f"{capital(subject)} {ahead}"
    return f"Without boosted trees, {subject} {ahead}"


def _subject(trials: Trials, choice: str) -> str:
    """Name what was chosen, and the verb that follows."""
    single = _single(trials, choice)
    plural = single is not None and (single.end == "separate" or single.base == "trees")
    return f"{_noun(trials, choice)} {'are' if plural else 'is'}"


def beyond_linear(trials: Trials, comparison: Comparison, score: Measure) -> str | None:
    """Say what curves, task means and trees bring, if the chosen model has them."""
    bases = {trials.named(name).base for name in trials.parts} - {"linear"}
    blocks = {block for base in bases for block in BLOCKS[base]}
    words = [word for block, word in _FEATURES.items() if block in blocks]
    if not words:
        return None
    methods = {"linear": "linear", "all": "all"}
    against = _between(trials, methods, comparison.labels, comparison.rows)
    ahead = than(against, "linear", "linear models chosen in the same way", score)
    return f"With {joined(words)}, the model is {ahead}."


def _single(trials: Trials, name: str) -> Candidate | None:
    """Return the model that has all the weight of a choice, if there is one."""
    weights = trials.choices[name].weights
    return trials.named(next(iter(weights))) if len(weights) == 1 else None


def _label(trials: Trials, name: str) -> str:
    if single := _single(trials, name):
        return single.label
    kind = "models" if name in ("all", "paired") else f"{name} models"
    return f"the blend of {len(trials.choices[name].weights)} {kind}"


def _noun(trials: Trials, name: str) -> str:
    """Name a choice within a sentence."""
    single = _single(trials, name)
    return single.noun if single else _label(trials, name)


def reason(trials: Trials, words: str) -> str:
    """Say why the chosen model was chosen."""
    chosen = trials.chosen
    means = dict(zip(trials.names, trials.means, strict=True))
    others = [c for c in trials.candidates if c is not chosen and c.kept]
    if not others:
        which = "that was tried" if len(trials.candidates) == 1 else "within the bound"
        return f"It is the only model {which}."
    best = max(others, key=lambda c: means[c.name])
    score, other = (number(abs(means[c.name])) for c in (chosen, best))
    why = f"{capital(words)} its mean over tasks is {score}, and that of {best.label}, the best "
    why += f"other model of {len(others)}, {other}."
    if chosen.base == "blend":
        parts = ", ".join(f"{weight:.0%} {c.label}" for c, weight in trials.listed_parts)
        why += f" It consists of {parts}; the weights for a part of the rows come from the others."
    return why
