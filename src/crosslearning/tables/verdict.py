"""What a comparison of models says about sharing, in words."""

from typing import Any

from numpy.typing import NDArray

from crosslearning.evaluation.comparison import Comparison
from crosslearning.evaluation.numbers import capital, number
from crosslearning.evaluation.scores import Scores
from crosslearning.evaluation.sentences import NAMES, chance, size
from crosslearning.tables.candidates import Candidate
from crosslearning.tables.trials import Trials

_SHARES = ("cross", "baseline")
_NEGLIGIBLE = 1e-4  # of the score: a gain that helps nobody, however certain it is


def sharer(trials: Trials) -> Candidate:
    """Return the chosen model if it shares, else the best one that does."""
    return trials.chosen if trials.chosen.sharing in _SHARES else trials.best_of(*_SHARES)


def compared(trials: Trials, labels: NDArray[Any], rows: NDArray[Any]) -> Comparison:
    """Compare the best model that shares with one pooled model and with separate models."""
    subject = sharer(trials)
    rivals = [trials.best_of("pooled"), trials.best_of("separate")]
    at = [trials.names.index(candidate.name) for candidate in (*rivals, subject)]
    values = trials.scores.values[at]
    scores = Scores(["pooled", "separate", "cross"], values, trials.scores.weights)
    return Comparison.of(scores, labels, rows, nested=len(trials.scores.weights) > 1)


def verdict(comparison: Comparison, trials: Trials, metric: str) -> str:
    """Say whether sharing helps beyond one model, and beyond separate ones."""
    chosen, subject = trials.chosen, sharer(trials)
    label = "the blend" if subject.base == "blend" else "cross-learning"
    if subject.sharing == "baseline" and subject.base != "blend":
        label = f"the model with {subject.label.replace(', ', ' and ')}"
    pooled, separate = comparison.verdict("pooled"), comparison.verdict("separate")
    scores, doubt = comparison.summary["score"], chance(comparison, "pooled")
    if scores["cross"] - scores["pooled"] <= _NEGLIGIBLE * abs(scores["pooled"]):
        doubt = ", which is too little to matter" if pooled > 0 else doubt
        pooled = min(pooled, 0)
    if chosen.sharing == "pooled":
        return (
            "One model for all is best here: sharing among these tasks does not help beyond it. "
            f"{capital(label)} is worse by {size(comparison, 'pooled', metric)}."
        )
    if chosen.sharing == "separate":
        less = "" if separate < 0 else ", though perhaps by chance"
        return (
            f"Separate models are best here{less}: {label} is worse by "
            f"{size(comparison, 'separate', metric)}."
        )
    if pooled <= 0:
        return (
            f"Sharing among these tasks does not help beyond one model, as far as "
            f"{comparison.n_tasks:,} tasks can tell: {label} is better than one pooled model by "
            f"{size(comparison, 'pooled', metric)}{doubt}."
        )
    if separate <= 0:
        return (
            f"Tasks differ: {label} is better than one pooled model by "
            f"{size(comparison, 'pooled', metric)}, but better than separate models only by "
            f"{size(comparison, 'separate', metric)}{chance(comparison, 'separate')}."
        )
    rival = comparison.best_rival
    gain = size(comparison, rival, metric)
    return f"Sharing helps: {label} is better than {NAMES[rival]} by {gain}."


def reason(trials: Trials, words: str) -> str:
    """Say why the chosen model was chosen."""
    chosen = trials.chosen
    others = [c for c in trials.candidates if c is not chosen]
    means = dict(zip(trials.names, trials.means, strict=True))
    second = max(others, key=lambda c: means[c.name])
    own, other = (number(abs(means[c.name])) for c in (chosen, second))
    compared_with = f"{own} against {other} for {second.label}"
    if means[second.name] > means[chosen.name]:
        why = "no model is better by more than a standard error than a blend of all, weighted"
        why += f" without the rows that it is scored on: {compared_with}."
    else:
        why = f"it has the best mean over tasks of {len(trials.candidates)} models: {compared_with}"
        why += ", the next best. Of equal models the simplest would be chosen."
    parts = ", ".join(f"{part['label']} {part['weight']:.0%}" for part in trials.listed_parts)
    return f"{capital(words)} {why}" + f" It consists of {parts}." * (chosen.base == "blend")
