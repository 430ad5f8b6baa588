"""The parameters of the tasks for standardised features: listed, and as a map."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Parameters", "coefficients", "map_of", "parameters_of"]


@dataclass(frozen=True, eq=False)
class Parameters:
    """Parameters per standard deviation of a feature, with intercepts at the features' means."""

    coef: NDArray[np.float64]
    intercept: NDArray[np.float64]


def parameters_of(model: Any, axes: NDArray[np.float64] | None = None) -> Parameters:
    """Parameters of a fitted estimator; `axes` turn its features into those of the table."""
    n_tasks, n_features = len(model.tasks_), model.n_features_in_
    coef = np.concatenate([model.coef_, model.center_coef_[np.newaxis]])
    coef = coef.reshape(n_tasks + 1, -1, n_features)
    own = np.reshape(model.center_intercept_, (1, -1))
    intercept = np.concatenate([model.intercept_.reshape(n_tasks, -1), own])
    own = coef * model.feature_scale_ if axes is None else coef @ axes.T
    return Parameters(own, intercept + coef @ model.feature_mean_)


def coefficients(
    model: Any, parameters: Parameters, names: list[str], some: NDArray[np.intp]
) -> dict[str, Any]:
    """List the parameters of some tasks by feature; of more than two classes, for each class."""
    shown = np.append(some, len(parameters.coef) - 1)
    parameters = Parameters(parameters.coef[shown], parameters.intercept[shown])
    scores = [_score(parameters, k) for k in range(parameters.coef.shape[1])]
    if not hasattr(model, "classes_"):
        return {"features": names, **scores[0]}
    if len(scores) == 1:
        return {"features": names, "class": model.classes_[1], **scores[0]}
    classes = [
        {"class": label, **score} for label, score in zip(model.classes_, scores, strict=True)
    ]
    return {"features": names, "classes": classes}


def _score(parameters: Parameters, k: int) -> dict[str, Any]:
    coef, intercept = parameters.coef[:, k], parameters.intercept[:, k]
    return {
        "center": coef[-1],
        "tasks": coef[:-1],
        "intercept": {"center": intercept[-1], "tasks": intercept[:-1]},
    }


def map_of(parameters: Parameters, radius: float, some: NDArray[np.intp]) -> dict[str, Any]:
    """Project some tasks on the plane through the centre that shows most of their distances."""
    count = len(parameters.intercept)
    everyone = np.hstack([parameters.coef.reshape(count, -1), parameters.intercept])
    offsets = everyone[:-1] - everyone[-1]
    left, sizes, _ = np.linalg.svd(offsets, full_matrices=False)
    total = float(np.sum(sizes**2))
    return {
        "tasks": left[some, :2] * sizes[:2],
        "center": [0.0, 0.0],
        "radius": radius if np.isfinite(radius) else None,
        "explained": float(np.sum(sizes[:2] ** 2)) / total if total > 0 else 1.0,
    }
