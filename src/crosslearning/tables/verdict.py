"""What a comparison of models says about sharing, in words."""

from typing import Any

from numpy.typing import NDArray

from crosslearning.evaluation.comparison import Comparison
from crosslearning.evaluation.numbers import capital, count, number
from crosslearning.evaluation.scores import Scores
from crosslearning.evaluation.sentences import cannot_tell, chance, size
from crosslearning.tables.candidates import Candidate
from crosslearning.tables.trials import Trials

_SHARES = ("cross", "baseline")
_NEGLIGIBLE = 1e-4  # of the score: a gain that helps nobody, however certain it is
_ROUNDING = 1e-6


def methods(trials: Trials) -> dict[str, Candidate]:
    """Return the best pooled, the best separate, and the best model that shares, or the chosen."""
    chosen, kinds = trials.chosen, {"pooled": ("pooled",), "separate": ("separate",)}
    return {
        name: chosen if chosen.sharing in sharing else trials.best_of(*sharing)
        for name, sharing in (kinds | {"cross": _SHARES}).items()
    }


def compared(trials: Trials, labels: NDArray[Any], rows: NDArray[Any]) -> Comparison:
    """Compare the model that shares with one pooled model and with separate models."""
    found = methods(trials)
    at = [trials.names.index(candidate.name) for candidate in found.values()]
    scores = Scores(list(found), trials.scores.values[at], trials.scores.weights)
    return Comparison.of(scores, labels, rows, nested=len(trials.scores.weights) > 1)


def verdict(comparison: Comparison, trials: Trials, metric: str) -> str:
    """Say whether sharing helps; on a held-out table also whether the kept model does best."""
    text, kept, best = _on_sharing(comparison, trials, metric), trials.kept, trials.best
    if kept is None:
        return text
    text = f"On the held-out table, {text[0].lower()}{text[1:]}"
    at = [trials.names.index(candidate.name) for candidate in (best, kept)]
    scores = Scores(["best", "kept"], trials.scores.values[at], trials.scores.weights)
    against = Comparison.of(scores, comparison.labels, comparison.rows, nested=False)
    loses = against.verdict("best") < 0
    doubt = chance(against, "best")
    ahead = _than(against, "best", best.label, metric, doubt, again=not loses)
    if not ahead.startswith("worse"):
        return text
    if loses:
        name = _named(kept, trials)
        return f"On the held-out table, the model that is kept loses: {name} is {ahead}."
    if kept.sharing in _SHARES and f"worse than {best.label} by" in text:
        return text
    return f"{text} The model that is kept does not do best there: it is {ahead}."


def _on_sharing(comparison: Comparison, trials: Trials, metric: str) -> str:
    """Say whether sharing helps beyond one model, and beyond separate ones."""
    chosen, found = trials.chosen, methods(trials)
    label = _named(found["cross"], trials)
    pooled, separate = comparison.verdict("pooled"), comparison.verdict("separate")
    gains = comparison.summary["gain"]

    def than(rival: str, doubt: str = "", *, again: bool = False) -> str:
        return _than(comparison, rival, found[rival].label, metric, doubt, again=again)

    if chosen.sharing == "pooled" and gains["pooled"] <= 0:
        return (
            "One model for all is best here: sharing among these tasks does not help beyond it. "
            f"{capital(label)} is {than('pooled', chance(comparison, 'pooled'))}."
        )
    if chosen.sharing == "separate" and gains["separate"] <= 0:
        less = "" if separate < 0 else ", though perhaps by chance"
        return f"Separate models are best here{less}: {label} is {than('separate')}."
    little = 0 < gains["pooled"] <= _NEGLIGIBLE * abs(comparison.score("pooled"))
    if pooled == 0 and gains["pooled"] > 0 and not little:
        return f"{cannot_tell(comparison, 'pooled')} beyond one model: {label} is {than('pooled')}."
    if pooled <= 0 or little:
        doubt = ", which is too little to matter" if pooled > 0 else chance(comparison, "pooled")
        return (
            f"Sharing among these tasks does not help beyond one model, as far as "
            f"{count(comparison.n_tasks, 'task')} can tell: {label} is {than('pooled', doubt)}."
        )
    if separate <= 0:
        other = than("separate", chance(comparison, "separate"), again=True)
        link = "and" if other.startswith("better") else "but"
        return f"Tasks differ: {label} is {than('pooled')}, {link} {other}."
    return f"Sharing helps: {label} is {than(comparison.best_rival)}."


def _named(candidate: Candidate, trials: Trials) -> str:
    """Name a model within a sentence, and what it is a blend of."""
    if candidate.base == "blend":
        return f"the blend ({', '.join(_shares(trials))})"
    label = candidate.label.replace(", ", " and ").replace("cross-learned", "cross-learning")
    return f"the model with {label}" if candidate.sharing == "baseline" else label


def in_passing(trials: Trials) -> str:
    """Name the model that shares after a score."""
    label = "the " * (methods(trials)["cross"].base == "blend") + methods(trials)["cross"].label
    return label if label.startswith("cross-learned") else f"with {label}"


def _shares(trials: Trials) -> list[str]:
    """Return the parts of the blend, the heaviest first."""
    labels = {c.name: c.label.replace(", ", " and ") for c in trials.candidates}
    parts = sorted(trials.weights.items(), key=lambda part: -part[1])
    return [f"{weight:.0%} {labels[name]}" for name, weight in parts]


def _than(
    comparison: Comparison, rival: str, name: str, metric: str, doubt: str, *, again: bool
) -> str:
    """Write "better than" or "worse than" a rival, by how much, and what casts doubt on it."""
    gain = comparison.paired(rival).gain
    if abs(gain) <= _ROUNDING * abs(comparison.score(rival)):
        return f"as good as {name}"
    word = "better" if gain > 0 else "worse"
    return f"{word} than {name} by {size(comparison, rival, metric, again=again)}{doubt}"


def reason(trials: Trials, words: str) -> str:
    """Say why the chosen model was chosen."""
    chosen, best, n_models = trials.chosen, trials.best, len(trials.candidates)
    means = dict(zip(trials.names, trials.means, strict=True))
    others = [c for c in trials.candidates if c is not chosen]
    second = max(others, key=lambda c: means[c.name]) if chosen is best else best
    own, other = (number(abs(means[c.name])) for c in (chosen, second))
    if chosen is best:
        why = f"it has the best mean over tasks of {n_models} models: {own} against {other} for "
        why += f"{second.label}, the next best. Of equal models the simplest is chosen."
    else:
        why = f"its mean over tasks is {own}, and that of {second.label} {other}, which is better "
        why += "by less than a standard error."
        why += " It is kept since a blend would give it all the weight." * (chosen.base != "blend")
    if chosen.base == "blend":
        why += f" It consists of {', '.join(_shares(trials))}; the weights for a part of the rows "
        why += "come from the others."
    return f"{capital(words)} {why}"
