"""The models that are tried on a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any, Literal

from numpy.typing import NDArray

from crosslearning.linear import (
    CrossBayesianGLM,
    CrossBayesianLogisticRegression,
    CrossBayesianRidge,
)

Sharing = Literal["cross", "baseline", "pooled", "separate"]
BASES = ("auto", "linear", "splines", "boosting", "none")
_WIDE = 60  # coefficients; with more, tasks differ in those of a block by one variance
_SLOW = 8  # features; with more, gamma models are too slow to try unless asked for
_ROUGH = 1e-3  # tolerance of the log evidence there
_ROBUST_ROWS = 50_000  # beyond which outliers matter little
_ENDS: dict[str, tuple[str, Sharing, str]] = {
    "pooled": ("one pooled model", "pooled", "pooled"),
    "levels": ("common slopes, a level per task", "baseline", "levels"),
    "cross": ("cross-learned", "cross", "auto"),
    "separate": ("separate models", "separate", "separate"),
}
_TRIED = {
    "means": ("with task means", ("cross",)),
    "splines": ("with curves", ("pooled", "cross", "separate")),
    "splines-means": ("with curves and task means", ("cross",)),
    "trees": ("on boosted trees alone", ("pooled", "cross")),
    "boosting": ("on boosted trees", ("cross",)),
    "both": ("on boosted trees, with curves", ("pooled", "cross")),
}


@dataclass(frozen=True, eq=False)
class Candidate:
    """A model to try: name and label, what tasks share, estimator, and base of its features."""

    name: str
    label: str
    sharing: Sharing
    estimator: Any
    base: str = "linear"


def candidates(
    kind: str,
    family: str,
    shape: tuple[int, ...],
    *,
    only: bool,
    epsilon: float,
    n_scores: int = 1,
    rotated: bool = False,
) -> list[Candidate]:
    """Return the linear models to try for a target and features of a shape, simplest first.

    A model has `n_scores` coefficients for each feature.
    """
    n_rows, n_features = shape
    width = n_scores * n_features
    shared: dict[str, Any] = {"epsilon": epsilon, "standardize": not rotated}
    if kind == "classification" or only:
        return _models(kind, family, list(_ENDS), width, shared)
    normal = _models(kind, "gaussian", list(_ENDS), n_features, shared)
    if family == "gaussian":
        if n_rows <= _ROBUST_ROWS and n_features <= _WIDE:
            robust = CrossBayesianGLM("student", tol=_ROUGH, **shared)
            normal.append(Candidate("robust", "cross-learned (robust)", "cross", robust))
        return normal
    if family == "poisson":
        return normal + _models(kind, family, list(_ENDS), n_features, shared)
    own = ["cross"] if n_features <= _SLOW else []  # others extrapolate badly
    return normal + _models(kind, family, own, n_features, shared)


def based(
    kind: str,
    family: str,
    blocks: Mapping[str, NDArray[Any]],
    epsilon: float,
    n_scores: int = 1,
) -> list[Candidate]:
    """Return models on other bases; `blocks` are those of the columns by base."""
    found = []
    for base, own in blocks.items():
        words, ends = _TRIED[base]
        width = n_scores * len(own)
        ends = ends if width <= _WIDE else ("cross",)
        shared = {"epsilon": epsilon, "standardize": False, "blocks": own}
        found += _models(kind, family, ends, width, shared, base, words)
    return found


def _models(
    kind: str,
    family: str,
    ends: Sequence[str],
    width: int,
    shared: dict[str, Any],
    base: str = "linear",
    words: str = "",
) -> list[Candidate]:
    """Models of one family on one base."""
    wide = width > _WIDE
    model: Any = CrossBayesianLogisticRegression
    if kind == "regression":
        plain = family == "gaussian"
        model = CrossBayesianRidge if plain else partial(CrossBayesianGLM, family)
    other = family if kind == "regression" and family != "gaussian" else ""
    found = []
    for end in ends:
        label, sharing, covariance = _ENDS[end]
        own = shared | {"covariance": "block" if wide and end == "cross" else covariance}
        own |= ({"tol": _ROUGH} if wide else {}) | ({} if end == "cross" else {"epsilon": inf})
        name = "-".join(filter(None, (end, other, base if base != "linear" else "")))
        label = " ".join(filter(None, (label, words, f"({other})" if other else "")))
        found.append(Candidate(name, label, sharing, model(**own), base))
    return found
