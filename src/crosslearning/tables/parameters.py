"""The parameters of the tasks: in the units of the table, standardised, and as a map."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crosslearning.tables.learners.features import Rotation
from crosslearning.tables.model_findings import Coefficients, Intercept, Map, Predictor

Array = NDArray[np.float64]
_MOST_LINES = 1_000_000  # of a file of coefficients


def _with_center(model: Any, name: str) -> Array:
    """Tasks, then the centre: (tasks + 1, scores, features), or 1 feature for intercepts."""
    tasks, center = getattr(model, name), getattr(model, f"center_{name}")
    width = 1 if name == "intercept_" else model.n_features_in_
    both = [np.reshape(tasks, (len(tasks), -1, width)), np.reshape(center, (1, -1, width))]
    return np.concatenate(both)


def standardised(model: Any, axes: Array | None) -> tuple[Array, Array]:
    """Coefficients per standard deviation of a feature, and intercepts at the features' means.

    `axes` turn the features of the model into those of the table. The centre comes last.
    """
    coef, intercept = _with_center(model, "coef_"), _with_center(model, "intercept_")[..., 0]
    scaled = coef * model.feature_scale_ if axes is None else coef @ axes.T
    return scaled, intercept + coef @ model.feature_mean_


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


def coefficients(model: Any, coef: Array, intercept: Array, names: list[str]) -> Coefficients:
    """List standardised parameters by feature; for more than two classes, by class."""
    n_scores = coef.shape[1]
    classes = model.classes_[-n_scores:] if hasattr(model, "classes_") else [None]
    predictors = [
        Predictor(
            class_=label,
            center=slopes[-1],
            tasks=slopes[:-1],
            intercept=Intercept(center=levels[-1], tasks=levels[:-1]),
        )
        for label, slopes, levels in zip(
            classes, coef.swapaxes(0, 1).tolist(), intercept.T.tolist(), strict=True
        )
    ]
    return Coefficients(features=tuple(names), predictors=tuple(predictors))


def map_of(coef: Array, intercept: Array, some: NDArray[np.intp]) -> Map:
    """Project some tasks onto the plane through the centre that shows most of their distances."""
    everyone = np.hstack([coef.reshape(len(coef), -1), intercept])
    left, sizes, _ = np.linalg.svd(everyone[:-1] - everyone[-1], full_matrices=False)
    total = float(np.sum(sizes**2))
    return Map(
        tasks=(left[some, :2] * sizes[:2]).tolist(),
        explained=float(np.sum(sizes[:2] ** 2)) / total if total > 0 else 1.0,
    )
