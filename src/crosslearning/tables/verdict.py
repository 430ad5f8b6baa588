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
    """Compare the choice among all models with those among pooled and among separate models.

    With the latter only if they have the same learners.
    """
    made = trials.choices
    rivals = ("pooled", "separate") if made.get("paired") is made["all"] else ("pooled",)
    return _between(trials, [*(name for name in rivals if name in made), "all"], labels, rows)


def _between(
    trials: Trials, names: list[str], labels: NDArray[Any], rows: NDArray[Any]
) -> Comparison:
    """Compare choices: the last, under the name "cross", with the others."""
    values = np.stack([trials.choices[name].scores for name in names])
    scores = Scores([*names[:-1], "cross"], values, trials.scores.weights)
    return Comparison.of(scores, labels, rows, nested=len(trials.scores.weights) > 1)


def against_separate(trials: Trials, comparison: Comparison) -> Comparison | None:
    """Compare sharing with separate models, by learners that have both, if there are any.

    That is the comparison of the chosen model unless it has boosted trees.
    """
    if "separate" in comparison.methods or "separate" not in trials.choices:
        return comparison if "separate" in comparison.methods else None
    return _between(trials, ["separate", "paired"], comparison.labels, comparison.rows)


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
    choices = {method: "all" if method == "cross" else method for method in comparison.methods}
    return Verdict(
        effect=effect,
        against=against,
        gain=pairs.gain,
        standard_error=pairs.standard_error,
        helped=helped,
        hurt=hurt,
        n_tasks=comparison.n_tasks,
        labels={method: _model(trials, choice).label for method, choice in choices.items()},
    )


def _effect(comparison: Comparison, trials: Trials) -> Effect:
    if not any(c.kept for c in trials.sharing):
        return Effect.NOTHING
    pooled, end = _sign(comparison, "pooled"), trials.chosen.end
    if end == "pooled":
        return Effect.POOL
    if pooled > 0:
        alone = against_separate(trials, comparison)
        if end == "separate":
            return Effect.HURTS
        return Effect.HELPS if alone and _sign(alone, "separate") > 0 else Effect.DIFFER
    unsure = pooled == 0 and _gain(comparison, "pooled") > 0
    return Effect.UNDECIDED if unsure else Effect.POOL


def _sign(comparison: Comparison, rival: str) -> int:
    """Return 1 if the choice is significantly better than a rival, -1 if worse, else 0."""
    return comparison.verdict(rival) if _gain(comparison, rival) else 0


def _gain(comparison: Comparison, rival: str) -> float:
    """Return the gain over a rival, 0 if it is negligible."""
    gain = comparison.paired(rival).gain
    return 0.0 if abs(gain) <= _NEGLIGIBLE * abs(comparison.score(rival)) else gain


def sentence(
    verdict: Verdict, comparison: Comparison, trials: Trials, score: Measure, *, epsilon: float
) -> str:
    """Say whether sharing helps; a bound `epsilon` of 0 leaves pooled models alone."""
    effect = verdict.effect
    if effect is Effect.NOTHING and epsilon > 0:
        return "Nothing can be said about sharing: no model that shares was fitted."
    alone, subject = against_separate(trials, comparison), _subject(trials, "all")
    separate = "" if alone is None else f" {_than_separate(trials, alone, score)}"

    def is_than(rival: str, **how: bool) -> str:
        return than(comparison, rival, _model(trials, rival).noun, score, **how)

    if trials.chosen.end == "pooled":
        return (_ASKED if epsilon == 0 else _POOLED) + separate
    if effect is Effect.DIFFER:
        text = f"Tasks differ: {subject} {is_than('pooled', sure=True)}"
        if alone is not comparison:
            return f"{text}.{separate}"
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
    return text + separate if effect is Effect.HELPS and alone is not comparison else text


def _than_separate(trials: Trials, alone: Comparison, score: Measure) -> str:
    """Compare sharing with separate models; without trees, if the chosen model has some."""
    ahead = than(alone, "separate", _model(trials, "separate").noun, score)
    subject = _subject(trials, "paired")
    if trials.choices["paired"] is not trials.choices["all"]:
        subject = f"without boosted trees, {subject}"
    return f"{capital(subject)} {ahead}."


def _subject(trials: Trials, choice: str) -> str:
    """Name what was chosen, and the verb that follows."""
    model = _model(trials, choice)
    plural = model.end == "separate" or model.base == "trees"
    return f"{model.noun} {'are' if plural else 'is'}"


def _model(trials: Trials, choice: str) -> Candidate:
    """Return the model that has all the weight of a choice, or a blend."""
    weights = trials.choices[choice].weights
    if len(weights) == 1:
        return trials.named(*weights)
    kind = "models" if choice in ("all", "paired") else f"{choice} models"
    return Candidate("blend", f"the blend of {len(weights)} {kind}", "cross", None, "blend")


def beyond_linear(trials: Trials, comparison: Comparison, score: Measure) -> str | None:
    """Say what curves, task means and trees bring, if the chosen model has them."""
    bases = {trials.named(name).base for name in trials.parts} - {"linear"}
    blocks = {block for base in bases for block in BLOCKS[base]}
    words = [word for block, word in _FEATURES.items() if block in blocks]
    if not words:
        return None
    against = _between(trials, ["linear", "all"], comparison.labels, comparison.rows)
    ahead = than(against, "linear", "linear models chosen in the same way", score)
    return f"With {joined(words)}, the model is {ahead}."


def reason(trials: Trials, words: str) -> str:
    """Say why the chosen model was chosen."""
    chosen, means = trials.chosen, dict(zip(trials.names, trials.means, strict=True))
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
