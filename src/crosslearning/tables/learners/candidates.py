"""The models that are tried on a table, their results, and the choice.

A learner is a base of features and a family of targets. Its ends differ only in how much tasks
share, so that comparing them tells what sharing is worth.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from crosslearning.convex.families import REGISTRY
from crosslearning.evaluation.scores import Scores, first_best, nested, over_all
from crosslearning.linear import (
    CrossBayesianGLM,
    CrossBayesianLogisticRegression,
    CrossBayesianRidge,
)
from crosslearning.tables.learners import LEARNERS

Array = NDArray[np.float64]
End = Literal["pooled", "levels", "cross", "separate"]
_NO_SCORE = "No model could be scored: every training part lacks something. Hold out other parts."
_ALL: tuple[End, ...] = ("pooled", "levels", "cross", "separate")
_THREE: tuple[End, ...] = ("pooled", "cross", "separate")
_TWO: tuple[End, ...] = ("pooled", "cross")
_LABELS: dict[End, str] = {
    "pooled": "one pooled model",
    "levels": "common slopes, a level per task",
    "cross": "cross-learned",
    "separate": "separate models",
}
_NOUNS = _LABELS | {
    "levels": "the model with common slopes and a level per task",
    "cross": "cross-learning",
}
_WORDS = {
    "linear": "",
    "means": "with task means",
    "splines": "with curves",
    "splines-means": "with curves and task means",
}
# Separate models do not see task means, which are constant, and cannot learn overdispersion.
_SEPARATE = {"means": "linear", "splines-means": "splines", "negative-binomial": "poisson"}


@dataclass(frozen=True, eq=False)
class Candidate:
    """A learner at an end; `family` is empty for normal targets and classes without an order.

    Learners with fits of their own have no estimator. What is not `kept`, since it obeys no bound,
    is only compared with. A `nested` model knows groups of tasks.
    """

    name: str
    label: str
    end: End
    estimator: Any
    base: str = "linear"
    family: str = ""
    kept: bool = True
    nested: bool = False

    @property
    def noun(self) -> str:
        """Its name within a sentence."""
        if self.base not in _WORDS:
            return self.label
        nested = "nested" if self.nested else ""
        return _phrase(nested, _NOUNS[self.end], _WORDS[self.base], family=self.family)

    @property
    def learner(self) -> tuple[str, str]:
        """Base and family."""
        return self.base, self.family

    @property
    def separate_end(self) -> tuple[str, str]:
        """The learner whose separate models are those of this one."""
        return _SEPARATE.get(self.base, self.base), _SEPARATE.get(self.family, self.family)


def _phrase(*words: str, family: str) -> str:
    return " ".join(filter(None, (*words, family and f"({family})")))


def with_own_fits(learners: Iterable[str], epsilon: float) -> list[Candidate]:
    """Return models of other learners without the task, and with it, which obey no bound."""
    models = []
    for base in learners:
        pooled, cross = LEARNERS[base].pooled, LEARNERS[base].cross
        models.append(Candidate(f"pooled-{base}", pooled, "pooled", None, base))
        if epsilon > 0:
            kept = epsilon == inf
            models.append(Candidate(f"cross-{base}", cross, "cross", None, base, kept=kept))
    return models


def with_nested(models: Sequence[Candidate]) -> list[Candidate]:
    """Add to each cross-learned linear model one that knows the groups that tasks lie in."""
    both = []
    for model in models:
        both.append(model)
        # Robust models of groups within groups have no bounds.
        if model.end == "cross" and (model.family != "robust" or model.estimator.epsilon == inf):
            name, label = model.name.replace("cross", "nested", 1), f"nested {model.label}"
            both.append(replace(model, name=name, label=label, nested=True))
    return both


def candidates(
    kind: str,
    family: str,
    *,
    only: bool,
    also: Sequence[str] = (),
    epsilon: float,
    rotated: bool = False,
) -> list[Candidate]:
    """Return the linear models to try for a target, cheapest first.

    Unless a family is the `only` one, normal models and those of families that are `also` given
    are tried too. Between principal axes, tasks differ by one variance.
    """
    shared: dict[str, Any] = {"epsilon": epsilon, "standardize": not rotated}
    ends = {"student": _THREE, "gamma": _THREE, "negative-binomial": _TWO}
    between = "block" if rotated else "auto"
    models = _models(kind, family if only else "gaussian", _ALL, shared, between=between)
    for name in also if only or family == "gaussian" else (family, *also):
        models += _models(kind, name, ends.get(name, _ALL), shared, between=between)
    return models


def based(
    kind: str, family: str, blocks: Mapping[str, NDArray[Any]], epsilon: float
) -> list[Candidate]:
    """Return models on other bases; `blocks` are those of the columns by base."""
    models = []
    for base, block in blocks.items():
        shared = {"epsilon": epsilon, "standardize": False, "blocks": block}
        ends = _TWO if base in _SEPARATE else _THREE
        models += _models(kind, family, ends, shared, base)
    return models


def _models(
    kind: str,
    family: str,
    ends: Sequence[End],
    shared: dict[str, Any],
    base: str = "linear",
    between: str = "auto",
) -> list[Candidate]:
    """Models of one learner."""
    plain = family == "gaussian"
    model = partial[Any](CrossBayesianGLM, family)
    if kind == "classification":
        model = partial(CrossBayesianLogisticRegression, ordered=family == "ordinal")
    elif plain:
        model = partial(CrossBayesianRidge)
    other = "" if plain else getattr(REGISTRY.get(family), "label", "") or family
    models = []
    for end in ends:
        if end == "cross" and shared["epsilon"] == 0:
            continue  # which is the pooled model
        settings = shared | {"covariance": between if end == "cross" else end}
        settings |= {} if end == "cross" else {"epsilon": inf}
        models.append(
            Candidate(
                name="-".join(filter(None, (end, other, base.removeprefix("linear")))),
                label=_phrase(_LABELS[end], _WORDS[base], family=other),
                end=end,
                estimator=model(**settings),
                base=base,
                family=other,
                # A bound is kept by cross-learned models, and by a pooled one, whatever it is.
                kept=shared["epsilon"] == inf or end in _TWO,
            )
        )
    return models


@dataclass(frozen=True, eq=False)
class Choice:
    """Weights by name from all splits; scores, and predictions, of choices made on other splits."""

    weights: dict[str, float]
    scores: Array
    predictions: Array | None = None

    @property
    def blends(self) -> bool:
        """Whether predictions differ from those of a single model."""
        return set(self.weights.values()) != {1.0}


def choices(
    candidates: Sequence[Candidate], choice: Callable[[Sequence[Candidate]], Choice]
) -> dict[str, Choice]:
    """Choose among all candidates, those at an end, and the learners that have separate models."""
    pooled, separate = ([c for c in candidates if c.end == end] for end in ("pooled", "separate"))
    made = {"all": choice([c for c in candidates if c.kept])}
    if pooled:
        made["pooled"] = choice(pooled)
    if separate:
        learners = {c.learner for c in separate}
        paired = [c for c in candidates if c.kept and c.separate_end in learners]
        others = made["all"].weights.keys() - {c.name for c in paired}
        made["separate"] = choice(separate)
        made["paired"] = choice(paired) if others else made["all"]
    linear = [c for c in candidates if c.base == "linear" and c.kept]
    if linear and any(c.base != "linear" for c in candidates):
        made["linear"] = choice(linear)
    return made


def best_choice(candidates: Sequence[Candidate], scores: Scores) -> Choice:
    """Choose the candidate with the best mean; for each split, the one that is best on others."""
    best = candidates[first_best(scores.over_tasks, _NO_SCORE)]
    return Choice({best.name: 1.0}, nested(scores, {"all": range(len(candidates))}).values[0])


@dataclass(frozen=True, eq=False)
class Trials:
    """Results of candidates, cheapest first, on held-out rows.

    `scores` are by the metric of the choice, `plain` squared errors or shares that are correct;
    `predictions` and their standard deviations `sds` are those of all rows by name, or NaN. The
    `baseline` scores the mean, quantile or class frequencies of training rows. `skipped` are labels
    of models there was no time for, `failed` reasons why some are missing, by label.
    """

    candidates: Sequence[Candidate]
    scores: Scores
    plain: Scores
    choices: Mapping[str, Choice]
    baseline: float
    predictions: dict[str, Array] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    sds: dict[str, Array] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """Names of the candidates."""
        return [candidate.name for candidate in self.candidates]

    @property
    def means(self) -> Array:
        """Mean score over the tasks; minus infinity for what could not be fitted."""
        return self.scores.over_tasks

    @property
    def plain_means(self) -> Array:
        """The same by `plain` scores."""
        return self.plain.over_tasks

    @property
    def chosen(self) -> Candidate:
        """The blend, or the model that has all its weight."""
        return self.named("blend" if self.choices["all"].blends else next(iter(self.parts)))

    @property
    def parts(self) -> dict[str, float]:
        """Weights of the models that make up the chosen one."""
        return self.choices["all"].weights

    @property
    def listed_parts(self) -> list[tuple[Candidate, float]]:
        """These models with their shares of all weight, the heaviest first."""
        total = sum(self.parts.values())
        parts = [(self.named(name), weight / total) for name, weight in self.parts.items()]
        return sorted(parts, key=lambda part: -part[1])

    @property
    def described(self) -> Candidate:
        """The chosen model if it is linear in the columns, else the best that is."""
        return self.chosen if self.chosen.base == "linear" else self._linear("cross")

    @property
    def spreading(self) -> Candidate:
        """The described model; if its tasks share nothing, the best linear one whose tasks do."""
        described, sharing = self.described, self._linear("cross", "levels")
        better = described.end == "separate" or (sharing.nested and not described.nested)
        return sharing if better else described

    def _linear(self, *ends: End) -> Candidate:
        """Best linear model that knows groups, else at one of the ends, else of all."""
        linear = [k for k, c in enumerate(self.candidates) if c.base == "linear" and c.kept]
        nested = [k for k in linear if self.candidates[k].nested]
        preferred = nested or [k for k in linear if self.candidates[k].end in ends] or linear
        return self.candidates[preferred[first_best(self.means[preferred], _NO_SCORE)]]

    @property
    def nested_score(self) -> float:
        """Score of the choice itself, made for every split on the others."""
        return over_all(self.choices["all"].scores, self.scores.weights)

    @property
    def notes(self) -> list[str]:
        """Say which models were not tried, or could not be compared, and why."""
        notes = []
        if self.skipped:
            notes.append(
                f"no time for {_listed(self.skipped)}, so that results may depend on the speed of "
                "the machine: a larger option time_budget tries them"
            )
        for reason in dict.fromkeys(self.failed.values()):
            labels = [label for label, why in self.failed.items() if why == reason]
            notes.append(f"left out, since {reason}: {_listed(labels)}")
        return notes

    def named(self, name: str) -> Candidate:
        """Return the candidate of this name."""
        return self.candidates[self.names.index(name)]


def _listed(labels: list[str]) -> str:
    return labels[0] if len(labels) == 1 else f"{labels[0]} (and {len(labels) - 1} more)"
