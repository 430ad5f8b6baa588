"""Results of candidates on held-out rows, and the choices among them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from crosslearning.evaluation.scores import Scores, nested
from crosslearning.tables.findings import Part
from crosslearning.tables.learners.candidates import Candidate, End

Array = NDArray[np.float64]
_ROUNDING = 1e-9  # relative to the best score; smaller differences are ties


@dataclass(frozen=True, eq=False)
class Choice:
    """A choice among some candidates: weights by name, and scores by split and task.

    The weights come from all splits. What is scored on a split is a choice made on the others,
    whose `predictions` are there if it blends.
    """

    weights: dict[str, float]
    scores: Array
    predictions: Array | None = None


@dataclass(frozen=True, eq=False)
class Trials:
    """Results of candidates, cheapest first, on held-out rows.

    `scores` are by the metric of the choice, `plain` squared errors or shares that are correct;
    `predictions` are of all rows and `sds`, standard deviations, of some, by name, NaN where there
    is none. `choices` are those among pooled models ("pooled"), among separate ones ("separate",
    unless a learner that is kept lacks them), among linear ones ("linear", if there are others) and
    among all ("all"). `skipped` are labels of models there was no time for, `failed` reasons why
    some are missing, by label; `kept` is a choice made elsewhere.
    """

    candidates: Sequence[Candidate]
    scores: Scores
    plain: Scores
    choices: Mapping[str, Choice]
    predictions: dict[str, Array] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    sds: dict[str, Array] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
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
        """The blend, or the model that has all its weight."""
        names = list(self.choices["all"].weights)
        return self.kept or self.named("blend" if len(names) > 1 else names[0])

    @property
    def best(self) -> Candidate:
        """The model with the best mean, chosen or not, of those that can be kept."""
        kept = [k for k, c in enumerate(self.candidates) if c.kept]
        return best_of([self.candidates[k] for k in kept], self.means[kept])

    @property
    def parts(self) -> dict[str, float]:
        """Weights of the models that make up the chosen one."""
        chosen = self.chosen.name
        return self.choices["all"].weights if chosen == "blend" else {chosen: 1.0}

    @property
    def listed_parts(self) -> tuple[Part, ...]:
        """These models with their weights, the heaviest first."""
        parts = sorted(self.parts.items(), key=lambda part: -part[1])
        return tuple(Part(name=n, label=self.named(n).label, weight=w) for n, w in parts)

    @property
    def described(self) -> Candidate:
        """The chosen model if it is linear in the columns, else the best that is.

        One that is cross-learned, if there was time for one; of tasks within groups one that knows
        the groups.
        """
        return self.chosen if self.chosen.base == "linear" else self._linear("cross")

    @property
    def spreading(self) -> Candidate:
        """The described model; if its tasks share nothing, the best linear one whose tasks do.

        Of tasks within groups, the best one that knows the groups.
        """
        described, sharing = self.described, self._linear("cross", "levels")
        better = described.end == "separate" or (sharing.nested and not described.nested)
        return sharing if better else described

    @property
    def nested_score(self) -> float:
        """Score of the choice itself, made for every split on the others."""
        values = self.choices["all"].scores[np.newaxis]
        return float(over_tasks(Scores(["all"], values, self.scores.weights))[0])

    @property
    def notes(self) -> list[str]:
        """Say which models were not tried, or could not be compared, and why."""
        notes = []
        if self.skipped:
            slow = "so that results may depend on the speed of the machine"
            more = "a larger option time_budget tries them"
            notes.append(f"no time for {_listed(self.skipped)}, {slow}: {more}")
        for reason in dict.fromkeys(self.failed.values()):
            labels = [label for label, why in self.failed.items() if why == reason]
            notes.append(f"left out, since {reason}: {_listed(labels)}")
        return notes

    def named(self, name: str) -> Candidate:
        """Return the candidate of this name."""
        return self.candidates[self.names.index(name)]

    def _linear(self, *ends: End) -> Candidate:
        linear = [k for k, c in enumerate(self.candidates) if c.base == "linear" and c.kept]
        nested = [k for k in linear if self.candidates[k].nested]
        preferred = nested or [k for k in linear if self.candidates[k].end in ends] or linear
        return best_of([self.candidates[k] for k in preferred], self.means[preferred])


def _listed(labels: list[str]) -> str:
    return labels[0] if len(labels) == 1 else f"{labels[0]} (and {len(labels) - 1} more)"


def best_of(candidates: Sequence[Candidate], means: Array) -> Candidate:
    """Return the candidate with the best mean, the cheapest of equal ones."""
    pairs = list(zip(means, candidates, strict=True))
    top = means.max()
    if top == -np.inf:
        raise ValueError(
            "No model could be scored: every training part lacks something, such as a class. "
            "Hold out other parts, or fewer of them."
        )
    return next(c for mean, c in pairs if mean >= top - _ROUNDING * abs(top))


def best_choice(candidates: Sequence[Candidate], scores: Scores) -> Choice:
    """Choose the candidate with the best mean; for each split, the one that is best on others."""
    best = best_of(candidates, over_tasks(scores))
    return Choice({best.name: 1.0}, nested(scores, {"all": range(len(candidates))}).values[0])


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
