"""Results of candidates on held-out rows, and the choice among them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning.evaluation.choice import nested
from crosslearning.evaluation.scores import Scores
from crosslearning.tables.candidates import Candidate

Array = NDArray[np.float64]
_ROUNDING = 1e-9  # relative to the best score; smaller differences are ties


@dataclass(frozen=True, eq=False)
class Trials:
    """Results of candidates, simplest first, on held-out rows.

    `scores` are by the metric of the choice, `plain` squared errors or shares that are correct;
    `said` and `spreads` hold predictions of all rows and standard deviations of some, by name, NaN
    where there is none; `weights` those of a blend, perhaps of one; `skipped` and `failed` are
    labels of models that are not among them; `kept` is a choice made elsewhere.
    """

    candidates: Sequence[Candidate]
    scores: Scores
    plain: Scores
    said: dict[str, Array] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    spreads: dict[str, Array] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    kept: Candidate | None = None

    @property
    def names(self) -> list[str]:
        """Names of the candidates."""
        return [candidate.name for candidate in self.candidates]

    @property
    def means(self) -> Array:
        """Mean score over the tasks; minus infinity for what could not be fitted."""
        return over_tasks(self.scores)

    @property
    def chosen(self) -> Candidate:
        """The blend, or the model that has all its weight, unless another is clearly better.

        That is, by a standard error: choosing one by a noisy score costs more than averaging.
        """
        best = self.kept or self.best
        if self.kept or not self.weights:
            return best
        usual = self.names.index("blend" if len(self.weights) > 1 else next(iter(self.weights)))
        scores = self.scores.by_task
        ahead, error = paired(scores[self.names.index(best.name)], scores[usual])
        return best if ahead >= error else self.candidates[usual]

    @property
    def best(self) -> Candidate:
        """The model with the best mean, chosen or not."""
        return self.best_of("pooled", "baseline", "cross", "separate")

    @property
    def parts(self) -> dict[str, float]:
        """Weights of the models that make up the chosen one."""
        chosen = self.chosen.name
        return self.weights if chosen == "blend" else {chosen: 1.0}

    @property
    def listed_parts(self) -> list[dict[str, Any]]:
        """Names, labels and weights of these models, the heaviest first."""
        labels = {c.name: c.label for c in self.candidates}
        parts = sorted(self.parts.items(), key=lambda part: -part[1])
        return [{"name": n, "label": labels[n], "weight": weight} for n, weight in parts]

    @property
    def described(self) -> Candidate:
        """The chosen model if it is linear in the columns, else the best that is and shares."""
        return self.chosen if self.chosen.base == "linear" else self.best_of("cross", base="linear")

    @property
    def spreading(self) -> Candidate:
        """The described model; if its tasks share nothing, the best linear one whose tasks do."""
        described = self.described
        if described.sharing != "separate":
            return described
        return self.best_of("cross", "baseline", base="linear")

    @property
    def nested_score(self) -> float:
        """Score of the choice itself, made for every split on the others."""
        everyone = {"chosen": range(len(self.candidates))}
        return float(over_tasks(nested(self.scores, everyone))[0])

    def best_of(self, *sharing: str, base: str | None = None) -> Candidate:
        """Return the best candidate of some kinds, the simplest of equal ones."""
        own = [
            (mean, c)
            for mean, c in zip(self.means, self.candidates, strict=True)
            if c.sharing in sharing and base in (None, c.base)
        ]
        top = max(mean for mean, _ in own)
        if top == -np.inf:
            raise ValueError(
                "No model could be scored: every training part lacks something, such as a class. "
                "Hold out other parts, or fewer of them."
            )
        return next(c for mean, c in own if mean >= top - _ROUNDING * abs(top))


def over_tasks(scores: Scores) -> Array:
    """Mean over the tasks that all settings have a score of; minus infinity if one has none."""
    values = scores.by_task
    usable = np.isfinite(values).any(axis=1)
    common = np.isfinite(values[usable]).all(axis=0)
    means = values[:, common].mean(axis=1) if common.any() else np.full(len(values), -np.inf)
    return np.where(usable, means, -np.inf)


def paired(a: Array, b: Array) -> tuple[float, float]:
    """Mean difference over the tasks that have both scores, and its standard error."""
    ahead = (a - b)[np.isfinite(a) & np.isfinite(b)]
    if len(ahead) < 2:
        return float(ahead.sum()), 0.0
    return float(ahead.mean()), float(ahead.std(ddof=1) / len(ahead) ** 0.5)
