"""What a comparison of models says about sharing, and about learners: values, then words."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning.evaluation.comparison import Comparison, Effect, Measure, cannot_tell, than
from crosslearning.evaluation.numbers import capital, count, joined, number, percents
from crosslearning.evaluation.scores import Scores
from crosslearning.tables.findings import Verdict
from crosslearning.tables.forecast import BLOCKS
from crosslearning.tables.learners import LEARNERS
from crosslearning.tables.learners.candidates import Candidate, Trials

_NEGLIGIBLE = 1e-4  # of the score: a gain that helps nobody, however certain it is
_NOTHING = "Nothing can be said about sharing: no model that shares was fitted."
_POOLED = "One model for all is best here; sharing among these tasks does not improve on it."


def compared(trials: Trials, labels: NDArray[Any], rows: NDArray[Any]) -> Comparison:
    """Compare the choice among all models with pooled ones, and separate ones of its learners."""
    alike = trials.choices.get("paired") is trials.choices["all"]
    names = ["pooled", "separate", "all"] if alike else ["pooled", "all"]
    return _between(trials, names, labels, rows)


def _between(
    trials: Trials, names: list[str], labels: NDArray[Any], rows: NDArray[Any]
) -> Comparison:
    """Compare choices: the last, under the name "cross", with the others."""
    values = np.stack([trials.choices[name].scores for name in names])
    scores = Scores([*names[:-1], "cross"], values, trials.scores.weights)
    return Comparison.of(scores, labels, rows, nested=len(trials.scores.weights) > 1)


def against_separate(trials: Trials, comparison: Comparison) -> Comparison | None:
    """Compare sharing with separate models, by learners that have both, if there are any."""
    if "separate" in comparison.methods:
        return comparison  # of which all have
    if "separate" not in trials.choices:
        return None
    return _between(trials, ["separate", "paired"], comparison.labels, comparison.rows)


def nested_scores(trials: Trials, comparison: Comparison) -> dict[str, float]:
    """Scores of the choices that sentences compare, by what is chosen among."""
    alone = against_separate(trials, comparison)
    scores = {"pooled models": comparison.score("pooled")}
    if alone is not None:
        scores["separate models"] = alone.score("separate")
    if alone not in (None, comparison):
        scores["learners that have separate models"] = alone.score("cross")
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
    if not any(c.kept and c.end in ("cross", "levels") for c in trials.candidates):
        return Effect.NOTHING
    pooled, end = _sign(comparison, "pooled"), trials.chosen.end
    if end == "pooled":
        return Effect.POOL
    if pooled > 0 and end == "separate":
        return Effect.HURTS
    if pooled > 0:
        alone = against_separate(trials, comparison)
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


def sentence(verdict: Verdict, comparison: Comparison, trials: Trials, score: Measure) -> str:
    """Say whether sharing helps."""
    effect, rival = verdict.effect, verdict.against
    alone = against_separate(trials, comparison)
    separate = "" if alone is None else f" {_than_separate(trials, alone, score)}"
    if trials.chosen.end == "pooled":
        return (_NOTHING if effect is Effect.NOTHING else _POOLED) + separate
    if effect is Effect.NOTHING:
        return _NOTHING
    start = {
        Effect.HELPS: "Sharing helps",
        Effect.DIFFER: "Tasks differ",
        Effect.HURTS: "Separate models are best here",
        Effect.UNDECIDED: f"{cannot_tell(comparison, 'pooled')} beyond one model",
        Effect.POOL: "Sharing among these tasks does not help beyond one model, as far as "
        f"{count(verdict.n_tasks, 'task')} can tell",
    }[effect]
    sure = effect is not Effect.POOL
    ahead = than(comparison, rival, _model(trials, rival).noun, score, sure=sure)
    text = f"{start}: {_subject(trials, 'all')} {ahead}."
    better = effect is Effect.HELPS and alone is not comparison  # which has the best rival
    return text + separate if better or effect is Effect.DIFFER else text


def _than_separate(trials: Trials, alone: Comparison, score: Measure) -> str:
    """Compare sharing with separate models, by the learners that have both."""
    ahead = than(alone, "separate", _model(trials, "separate").noun, score)
    subject = _subject(trials, "paired")
    without = dict.fromkeys(c.base for c in trials.candidates if c.base in LEARNERS)
    if without and trials.choices["paired"] is not trials.choices["all"]:
        subject = f"without {joined([LEARNERS[base].words for base in without])}, {subject}"
    return f"{capital(subject)} {ahead}."


def _subject(trials: Trials, choice: str) -> str:
    """Name what was chosen, and the verb that follows."""
    model = _model(trials, choice)
    learner = LEARNERS.get(model.base)
    plural = model.end == "separate" if learner is None else learner.plural
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
    blocks = {block for base in bases for block in BLOCKS.get(base, (base,))}
    features = {"curved": "curves", "means": "task means"}
    features |= {name: learner.words for name, learner in LEARNERS.items()}
    words = [word for block, word in features.items() if block in blocks]
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
        return "No other model was tried within the bound."
    best = max(others, key=lambda c: means[c.name])
    score, other = (number(abs(means[c.name])) for c in (chosen, best))
    why = f"{capital(words)} its mean over tasks is {score}, and that of {best.label}, the best "
    why += f"other model of {len(others)}, {other}."
    if chosen.base == "blend" and len(trials.parts) == 1:
        why += f" Log probabilities over frequencies count {sum(trials.parts.values()):.2f} times."
    elif chosen.base == "blend":
        labels, weights = zip(*((c.label, w) for c, w in trials.listed_parts), strict=True)
        parts = ", ".join(map(" ".join, zip(percents(weights), labels, strict=True)))
        why += f" It consists of {parts}; the weights for a part of the rows come from the others."
    return why
