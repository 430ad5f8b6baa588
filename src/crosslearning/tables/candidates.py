"""The models that are tried on a table: a registry, one line each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, Literal

from crosslearning.linear import (
    CrossBayesianGLM,
    CrossBayesianLogisticRegression,
    CrossBayesianRidge,
)

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Candidate", "candidates"]

Sharing = Literal["cross", "baseline", "pooled", "separate"]
_WIDE = 60  # features; of more, tasks differ in all by one variance
_ROUGH = 1e-3  # gain in log evidence that is enough there
_ROBUST_ROWS = 50_000  # beyond which wild targets are few among many


@dataclass(frozen=True, eq=False)
class Candidate:
    """A model to try.

    Attributes
    ----------
    name, label : str
        Short, and for people.
    sharing : {"cross", "baseline", "pooled", "separate"}
        What tasks have in common.
    estimator : estimator
        Not fitted; takes tasks.
    """

    name: str
    label: str
    sharing: Sharing
    estimator: Any


def candidates(
    kind: str,
    family: str,
    *,
    only: bool,
    epsilon: float,
    rotated: bool,
    n_features: int,
    n_rows: int,
) -> list[Candidate]:
    """Return the models to try on a target of this kind and family, simplest first.

    Parameters
    ----------
    kind : {"regression", "classification"}
        What is predicted.
    family : str
        Distribution of a target that is a number.
    only : bool
        Whether to try no other family: a normal one may be as good for counts and amounts.
    epsilon : float
        Largest distance to the centre in standard deviations of the tasks; finite if it is given.
    rotated : bool
        Whether features are principal axes, which are not to be scaled again.
    n_features, n_rows : int
        Size of the table.
    """
    wide = n_features > _WIDE
    free = "block" if wide else "auto"
    shared: dict[str, Any] = {"epsilon": epsilon, "standardize": not rotated}
    if wide:
        shared["tol"] = _ROUGH
    if kind == "classification":
        return _four(CrossBayesianLogisticRegression, free, shared)
    normal = _four(CrossBayesianRidge, free, shared)
    if family == "gaussian":
        robust = CrossBayesianGLM("student", covariance=free, **shared)
        if n_rows <= _ROBUST_ROWS and not wide:
            normal.append(Candidate("robust", "cross-learned, robust", "cross", robust))
        return normal
    own = _four(partial(CrossBayesianGLM, family), free, shared, family)
    return own if only else normal + own


def _four(
    model: Callable[..., Any], free: str, shared: dict[str, Any], family: str = ""
) -> list[Candidate]:
    """Return a model and the ends to compare it with, simplest first."""
    ends: tuple[tuple[str, str, Sharing, str], ...] = (
        ("pooled", "one pooled model", "pooled", "pooled"),
        ("levels", "common slopes, a level per task", "baseline", "levels"),
        ("cross", "cross-learned", "cross", free),
        ("separate", "separate models", "separate", "separate"),
    )
    return [
        Candidate(
            f"{name}-{family}" if family else name,
            f"{label} ({family})" if family else label,
            sharing,
            model(covariance=covariance, **shared | ({} if name == "cross" else {"epsilon": inf})),
        )
        for name, label, sharing, covariance in ends
    ]
