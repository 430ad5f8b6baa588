"""How tasks differ in a linear model: coefficients, their standard deviations, and a map."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import chdtri

from crosslearning.convex.families import family_of
from crosslearning.tables.findings import Coefficients, Difference, Predictor, TaskDifferences
from crosslearning.tables.learners.features import Rotation

Array = NDArray[np.float64]
_MOST_LINES = 1_000_000  # of a file of coefficients
_FEWEST = 2.0  # degrees of freedom of an interval


def _with_center(model: Any, name: str) -> Array:
    """Tasks, then the centre: (tasks + 1, scores, features), or 1 feature for intercepts."""
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


def standardised(model: Any, axes: Array | None) -> tuple[Array, Array]:
    """Coefficients per standard deviation of a feature, and intercepts at the features' means.

    `axes` turn the features of the model into those of the table. The centre comes last.
    """
    coef, intercept = _with_center(model, "coef_"), _with_center(model, "intercept_")[..., 0]
    scaled = coef * model.feature_scale_ if axes is None else coef @ axes.T
    return scaled, intercept + coef @ model.feature_mean_


def coefficients(model: Any, coef: Array, intercept: Array, names: list[str]) -> Coefficients:
    """List standardised parameters by feature; for more than two classes, by class."""
    n_scores = coef.shape[1]
    classes = model.classes_[-n_scores:] if hasattr(model, "classes_") else [None]
    columns = zip(classes, coef.swapaxes(0, 1).tolist(), intercept.T.tolist(), strict=True)
    predictors = [
        Predictor(
            class_=label,
            center=slopes[-1],
            tasks=slopes[:-1],
            center_intercept=levels[-1],
            intercepts=levels[:-1],
        )
        for label, slopes, levels in columns
    ]
    return Coefficients(features=tuple(names), predictors=tuple(predictors))


def places(coef: Array, intercept: Array) -> tuple[Array, float]:
    """Project tasks onto the plane through the centre that shows most of their differences.

    Also return the share of the squared differences that it shows.
    """
    everyone = np.hstack([coef.reshape(len(coef), -1), intercept])
    left, sizes, _ = np.linalg.svd(everyone[:-1] - everyone[-1], full_matrices=False)
    total = float(np.sum(sizes**2))
    return left[:, :2] * sizes[:2], float(np.sum(sizes[:2] ** 2)) / total if total > 0 else 1.0


def task_differences(
    model: Any, names: list[str], axes: Array | None, target: str, constant: list[str]
) -> TaskDifferences:
    """How much tasks differ in each coefficient, per standard deviation of its column.

    With 95 % intervals (chi-square), whose degrees of freedom are the effective number of tasks
    minus one: a task counts as far as its own rows, not the other tasks, determine its coefficient.
    Columns with a common variance add up theirs, and `shown`, the largest first and without
    `constant` columns, lists them once. There is no interval with too few degrees of freedom.
    """
    sds, freedom = _variances(model, axes)
    groups: dict[str, list[int]] = {}  # of columns with a common variance
    for j, name in enumerate(names):
        if name not in constant and sds[j] > 0:
            groups.setdefault(f"{sds[j]:.9g}", []).append(j)
    alike = {j: group for group in groups.values() for j in group}
    center = np.reshape(model.center_coef_ * model.feature_scale_, (-1, model.n_features_in_))[-1]
    center = center if axes is None else axes @ center

    def difference(what: str, columns: list[int]) -> Difference:
        first = columns[0]
        low, high = _interval(sds[first], freedom[alike.get(first, [])].sum())
        listed = tuple(names[j] for j in columns)
        return Difference(
            what=what, columns=listed, sd=sds[first], low=low, high=high, center=center[first]
        )

    low, high = _interval(sds[-1], freedom[-1])
    level = Difference(what="level", sd=sds[-1], low=low, high=high)
    largest = sorted(groups.values(), key=lambda group: -sds[group[0]])
    shared = [difference(_words(group, names, len(alike)), group) for group in largest]
    family = family_of(vars(model))
    logarithmic, classes = family.link == "log", family.link == "logit"
    scale = f"the logarithm of {target}" if logarithmic else target
    return TaskDifferences(
        level=level,
        features=tuple(difference(name, [j]) for j, name in enumerate(names)),
        shown=(level, *shared) if level.sd > 0 else tuple(shared),
        noise=model.noise_sd_ if family.link == "identity" and family.has_dispersion else None,
        unit="log-odds" if classes else scale,
        factor=np.exp(sds[-1]) if logarithmic else None,
        epsilon=model.epsilon_ if np.isfinite(model.epsilon_) else None,
    )


def _variances(model: Any, axes: Array | None) -> tuple[Array, Array]:
    """Return standard deviations of columns and of the level, and their degrees of freedom."""
    p, covariance = model.n_features_in_, model.covariance_
    q = len(covariance) // (p + 1)
    variances = _by_column(covariance[np.newaxis], p, q, axes)
    posterior = _by_column(model.task_covariances_, p, q, axes)
    ratio = np.divide(posterior, variances, out=np.ones_like(posterior), where=variances > 0)
    freedom = np.maximum(np.clip(1.0 - ratio, 0.0, 1.0).sum(axis=0) - 1.0, 0.0)
    return getattr(model, "target_scale_", 1.0) * np.sqrt(variances[0]), freedom


def _by_column(covariances: Array, p: int, q: int, axes: Array | None) -> Array:
    """Variances of coefficients of standardised columns and of the level, averaged over scores."""
    blocks = covariances.reshape(len(covariances), p + 1, q, p + 1, q)
    matrix = np.einsum("njqkq->njk", blocks) / q
    variances = np.einsum("njj->nj", matrix)
    if axes is not None:
        coef = np.einsum("fj,njk,fk->nf", axes, matrix[:, :p, :p], axes, optimize=True)
        variances = np.column_stack([coef, variances[:, p:]])
    return np.asarray(np.maximum(variances, 0.0))


def _interval(sd: float, freedom: float) -> tuple[float | None, float | None]:
    if freedom < _FEWEST:
        return None, None
    low, high = (sd * np.sqrt(freedom / chdtri(freedom, tail)) for tail in (0.025, 0.975))
    return low, high


def _words(group: list[int], names: list[str], n_different: int) -> str:
    """Name columns with a common variance, of all columns that tasks differ in."""
    if len(group) == 1:
        return names[group[0]]
    every = len(group) == n_different
    return f"the effect of {'every column' if every else f'each of {len(group)} columns'}"
