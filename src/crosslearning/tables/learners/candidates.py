"""The models that are tried on a table: learners at their ends.

A learner is a base of features and a family of targets. An end is how much tasks share: one pooled
model, a level per task, cross-learned, or separate models. Ends of a learner differ in nothing but
the covariance of the tasks, so that comparing them tells what sharing is worth.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Any, Literal

from numpy.typing import NDArray

from crosslearning.convex.families import REGISTRY
from crosslearning.linear import (
    CrossBayesianGLM,
    CrossBayesianLogisticRegression,
    CrossBayesianRidge,
)

End = Literal["pooled", "levels", "cross", "separate"]
_WIDE = 60  # coefficients; with more, tasks differ in those of a block by one variance
_SLOW = 8  # features; with more, gamma models are too slow to try unless asked for
_ROUGH = 1e-3  # tolerance of the log evidence there
_ROBUST_ROWS = 50_000  # beyond which outliers matter little
_LABELS: dict[End, str] = {
    "pooled": "one pooled model",
    "levels": "common slopes, a level per task",
    "cross": "cross-learned",
    "separate": "separate models",
}
_ALL: tuple[End, ...] = ("pooled", "levels", "cross", "separate")
_THREE: tuple[End, ...] = ("pooled", "cross", "separate")
_TWO: tuple[End, ...] = ("pooled", "cross")
_WORDS = {
    "linear": "",
    "means": "with task means",
    "splines": "with curves",
    "splines-means": "with curves and task means",
}
_NOUNS = _LABELS | {
    "levels": "the model with common slopes and a level per task",
    "cross": "cross-learning",
}
# Task means are constant in a task, so that separate models do not see them.
_SEPARATE_BASE = {"means": "linear", "splines-means": "splines"}
# A task alone has too few rows to learn the overdispersion of.
_SEPARATE_FAMILY = {"negative-binomial": "poisson"}


@dataclass(frozen=True, eq=False)
class Candidate:
    """A learner at an end; `family` is empty for normal targets and classes without an order.

    A model that is not `kept` is only compared with. A `nested` one knows groups of tasks.
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
        family = f"({self.family})" if self.family else ""
        nested = "nested" if self.nested else ""
        return " ".join(filter(None, (nested, _NOUNS[self.end], _WORDS[self.base], family)))

    @property
    def learner(self) -> tuple[str, str]:
        """Base and family."""
        return self.base, self.family

    @property
    def separate_end(self) -> tuple[str, str]:
        """The learner whose separate models are those of this one."""
        family = _SEPARATE_FAMILY.get(self.family, self.family)
        return _SEPARATE_BASE.get(self.base, self.base), family


def trees(epsilon: float) -> list[Candidate]:
    """Return boosted trees without the task, and with it; the latter keep no bound but infinity."""
    pooled = Candidate("pooled-trees", "pooled boosted trees", "pooled", None, "trees")
    label = "boosted trees that know the task"
    cross = Candidate("cross-trees", label, "cross", None, "trees", kept=epsilon == inf)
    return [pooled] if epsilon == 0 else [pooled, cross]


def with_nested(models: Sequence[Candidate]) -> list[Candidate]:
    """Add to each cross-learned linear model one that knows the groups that tasks lie in."""
    both = []
    for model in models:
        both.append(model)
        # Robust models of groups within groups have no bounds.
        bounded = model.family == "robust" and model.estimator.epsilon < inf
        if model.end == "cross" and not bounded:
            name, label = model.name.replace("cross", "nested", 1), f"nested {model.label}"
            both.append(replace(model, name=name, label=label, nested=True))
    return both


def candidates(
    kind: str,
    family: str,
    shape: tuple[int, ...],
    *,
    only: bool,
    also: Sequence[str] = (),
    epsilon: float,
    n_scores: int = 1,
    rotated: bool = False,
) -> list[Candidate]:
    """Return the linear models to try for a target and features of a shape, cheapest first.

    Unless a family is the `only` one, normal models are tried too, and families that are `also`
    tried. A model has `n_scores` coefficients for each feature.
    """
    n_rows, n_features = shape
    shared: dict[str, Any] = {"epsilon": epsilon, "standardize": not rotated}
    robust = n_rows <= _ROBUST_ROWS and n_features <= _WIDE
    ends: dict[str, tuple[End, ...]] = {
        "student": _THREE if robust else (),
        "gamma": _THREE if n_features <= _SLOW else (),
        "negative-binomial": _TWO,
    }
    models = _models(kind, family if only else "gaussian", _ALL, n_scores * n_features, shared)
    others = [*also] if only or family == "gaussian" else [family, *also]
    for name in others:
        rough = {"tol": _ROUGH} if name == "student" else {}
        models += _models(kind, name, ends.get(name, _ALL), n_features, shared | rough)
    return models


def based(
    kind: str,
    family: str,
    blocks: Mapping[str, NDArray[Any]],
    epsilon: float,
    n_scores: int = 1,
) -> list[Candidate]:
    """Return models on other bases; `blocks` are those of the columns by base."""
    models = []
    for base, block in blocks.items():
        shared = {"epsilon": epsilon, "standardize": False, "blocks": block}
        ends = _TWO if base in _SEPARATE_BASE else _THREE
        models += _models(kind, family, ends, n_scores * len(block), shared, base)
    return models


def _models(
    kind: str,
    family: str,
    ends: Sequence[End],
    width: int,
    shared: dict[str, Any],
    base: str = "linear",
) -> list[Candidate]:
    """Models of one learner."""
    wide = width > _WIDE
    plain, model = family == "gaussian", partial[Any](CrossBayesianGLM, family)
    if kind == "classification":
        model = partial(CrossBayesianLogisticRegression, ordered=family == "ordinal")
    elif plain:
        model = partial(CrossBayesianRidge)
    other = "" if plain else getattr(REGISTRY.get(family), "label", "") or family
    models = []
    for end in ends:
        if end == "cross" and shared["epsilon"] == 0:
            continue  # which is the pooled model
        covariance = end if end != "cross" else "block" if wide else "auto"
        settings = shared | {"covariance": covariance} | ({"tol": _ROUGH} if wide else {})
        settings |= {} if end == "cross" else {"epsilon": inf}
        name = "-".join(filter(None, (end, other, base if base != "linear" else "")))
        named = _LABELS[end], _WORDS[base], f"({other})" if other else ""
        label = " ".join(filter(None, named))
        # A bound is kept by cross-learned models, and by a pooled one, whatever it is.
        kept = shared["epsilon"] == inf or end in _TWO
        models.append(Candidate(name, label, end, model(**settings), base, other, kept))
    return models
