"""The parameters of the tasks for standardised features: listed, and as a map."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crosslearning.tables._basis import Rotation

_MOST_LINES = 1_000_000  # of coefficients that are worth a file


@dataclass(frozen=True, eq=False)
class Parameters:
    """Parameters per standard deviation of a feature, with intercepts at the features' means."""

    coef: NDArray[np.float64]
    intercept: NDArray[np.float64]


def parameters_of(model: Any, axes: NDArray[np.float64] | None = None) -> Parameters:
    """Parameters of a fitted estimator; `axes` turn its features into those of the table."""
    coef, intercept = _with_center(model, "coef_"), _with_center(model, "intercept_")[..., 0]
    own = coef * model.feature_scale_ if axes is None else coef @ axes.T
    return Parameters(own, intercept + coef @ model.feature_mean_)


def _with_center(model: Any, name: str) -> NDArray[np.float64]:
    """Stack tasks and centre: (tasks + 1, scores, features), of an intercept one."""
    tasks, center = getattr(model, name), getattr(model, f"center_{name}")
    width = 1 if name == "intercept_" else model.n_features_in_
    both = [np.reshape(tasks, (len(tasks), -1, width)), np.reshape(center, (1, -1, width))]
    return np.concatenate(both)


def coefficient_table(
    model: Any, names: list[str], rotation: Rotation | None = None
) -> pd.DataFrame | None:
    """List all coefficients in the units of the table, the centre's last; None if too many."""
    coef, intercept = _with_center(model, "coef_"), _with_center(model, "intercept_")
    if coef[..., 0].size * (len(names) + 1) > _MOST_LINES:
        return None
    if rotation is None:
        deviation = _with_center(model, "coef_sd_")
    else:
        coef = coef @ rotation.axes.T / rotation.scale
        intercept = intercept - (coef @ rotation.mean)[..., np.newaxis]
        deviation = np.full_like(coef, np.nan)
    values = np.concatenate([coef, intercept], axis=2)
    deviations = np.concatenate([deviation, np.full_like(intercept, np.nan)], axis=2)
    n, k, p = values.shape
    columns = {"task": np.repeat(np.array([*model.tasks_, "(centre)"], dtype=object), k * p)}
    if hasattr(model, "classes_"):
        columns["class"] = np.tile(np.repeat(model.classes_[-k:], p), n)
    columns["feature"] = np.tile(np.array([*names, "(intercept)"], dtype=object), n * k)
    columns |= {"coefficient": values.ravel(), "standard_deviation": deviations.ravel()}
    return pd.DataFrame(columns)


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
