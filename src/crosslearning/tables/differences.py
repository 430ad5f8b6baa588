"""How tasks differ in a linear model: coefficients, their standard deviations, and a map."""

import warnings
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.linalg import block_diag

import crosslearning.tables.findings as records
from crosslearning.convex.evidence.posterior import VarianceLaw
from crosslearning.convex.families import OneScore, family_of
from crosslearning.convex.sums.columns import Rotation
from crosslearning.tables.model import TableModel

Array = NDArray[np.float64]
_MOST_LINES = 1_000_000  # of a file of coefficients
_FEWEST = 2.0  # degrees of freedom of an interval


def _with_center(model: Any, name: str) -> Array:
    """Tasks, then the centre: (tasks + 1, scores, features), or 1 feature for intercepts."""
    tasks, center = getattr(model, name), getattr(model, f"center_{name}")
    width = 1 if name == "intercept_" else model.n_features_in_
    both = np.append(np.reshape(tasks, (len(tasks), -1)), np.reshape(center, (1, -1)), axis=0)
    return both.reshape(len(both), -1, width)


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
    if _by_class(model):
        columns["class"] = np.tile(np.repeat(model.classes_[-k:], p), n)
    columns["feature"] = np.tile(np.array([*names, "(intercept)"], dtype=object), n * k)
    columns |= {"coefficient": values.ravel(), "standard_deviation": deviations.ravel()}
    table, thresholds = pd.DataFrame(columns), getattr(model, "thresholds_", ())
    if not len(thresholds):
        return table
    between = [f"(threshold {low} | {high})" for low, high in pairwise(model.classes_)]
    more = {"task": "(centre)", "feature": between, "coefficient": thresholds}
    return pd.concat([table, pd.DataFrame(more)], ignore_index=True)


def _by_class(model: Any) -> bool:
    """Whether coefficients belong to classes; ordered classes have them in common."""
    return hasattr(model, "classes_") and not getattr(model, "ordered", False)


def coefficients(estimator: Any, model: TableModel, some: NDArray[np.intp]) -> records.Coefficients:
    """List parameters of some tasks, for standardised features; of several classes by class."""
    both = np.append(some, len(estimator.tasks_))  # and the centre
    coef = _with_center(estimator, "coef_")[both]
    intercept = _with_center(estimator, "intercept_")[both, :, 0] + coef @ estimator.feature_mean_
    axes = np.diag(estimator.feature_scale_) if model.rotation is None else model.rotation.axes.T
    coef = coef @ axes
    classes = estimator.classes_[-coef.shape[1] :] if _by_class(estimator) else [None]
    columns = zip(classes, coef.swapaxes(0, 1).tolist(), intercept.T.tolist(), strict=True)
    predictors = (
        records.Predictor(
            class_=label,
            center=slopes[-1],
            tasks=slopes[:-1],
            center_intercept=levels[-1],
            intercepts=levels[:-1],
        )
        for label, slopes, levels in columns
    )
    features = tuple(model.encoder.feature_names)
    return records.Coefficients(features=features, predictors=tuple(predictors))


def task_differences(
    estimator: Any, model: TableModel, target: str, constant: list[str], *, weighted: bool = False
) -> records.TaskDifferences:
    """How much tasks, and groups of tasks, differ in each coefficient of standardised columns.

    Columns with one variance are listed once; `constant` ones and noise of `weighted` rows never.
    """
    axes = np.eye(estimator.n_features_in_) if model.rotation is None else model.rotation.axes
    center = axes @ np.atleast_2d(estimator.center_coef_ * estimator.feature_scale_)[-1]
    units = [*map(len, estimator.groups_), len(estimator.tasks_)]
    columns = model.task_columns[-len(units) :]  # an estimator may know no groups
    levels = tuple(
        _differences(name, n, deviations, model.encoder.feature_names, center, constant)
        for name, n, deviations in zip(columns, units, _deviations(estimator, axes), strict=True)
    )
    family = family_of(vars(estimator))
    logarithmic, noise = family.link == "log", None
    noisy = family.link == "identity" and family.has_dispersion and not weighted
    if noisy and isinstance(family, OneScore):  # Student's scale is less than a standard deviation
        noise = float(estimator.noise_sd_ * np.sqrt(family.variance(np.zeros(1))[0]))
    scale = f"the logarithm of {target}" if logarithmic else target
    return records.TaskDifferences(
        levels=levels,
        noise=noise,
        unit="log-odds" if family.link == "logit" else scale,
        factor=np.exp(levels[-1].level.sd) if logarithmic else None,
    )


def center_summary(estimator: Any, model: TableModel) -> tuple[records.CenterCoefficient, ...]:
    """Summarise the centre of an estimator of the columns of a table, if they are not rotated."""
    if model.rotation is not None:
        return ()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about intervals that are missing
        frame = estimator.summary().frame
    names = [*model.encoder.feature_names, "(intercept)"]
    classes = [key[0] for key in frame.index] if frame.index.nlevels > 1 else [None] * len(frame)
    return tuple(
        records.CenterCoefficient(
            feature=names[k % len(names)],
            class_=classes[k],
            estimate=row[0],
            std_error=row[1],
            low=row[2],
            high=row[3],
            between=tuple(tuple(row[j : j + 3]) for j in range(4, len(row), 3)),
        )
        for k, row in enumerate(frame.to_numpy().tolist())
    )


def _differences(
    name: str, units: int, deviations: Array, names: list[str], center: Array, constant: list[str]
) -> records.LevelDifferences:
    """Differences at one level; columns of `deviations` are standard deviations and intervals."""
    sds = deviations[:, 0]
    groups: dict[str, list[int]] = {}  # of columns with a common variance
    for j, column in enumerate(names):
        if column not in constant and sds[j] > 0:
            groups.setdefault(f"{sds[j]:.9g}", []).append(j)

    def difference(what: str, row: int, **about: Any) -> records.Difference:
        sd, low, high = deviations[row].tolist()
        ends = (low, high) if np.isfinite(high) and sd > 0 else (None, None)
        return records.Difference(what=what, sd=sd, low=ends[0], high=ends[1], **about)

    level, shared = difference("level", -1), []
    for group in sorted(groups.values(), key=lambda group: -sds[group[0]]):
        columns, first = tuple(names[j] for j in group), group[0]
        which = "every column" if len(groups) == 1 else f"each of {len(group)} columns"
        what = columns[0] if len(group) == 1 else f"the effect of {which}"
        shared.append(difference(what, first, columns=columns, center=center[first]))
    shown = (level, *shared) if level.sd > 0 else tuple(shared)
    return records.LevelDifferences(name=name, units=units, level=level, shown=shown)


def _deviations(model: Any, axes: Array) -> list[Array]:
    """Return standard deviations of columns and of the level with 95 % intervals, by level."""
    p, width = model.n_features_in_, model.center_covariance_.shape[0]
    q, columns = width // (p + 1), block_diag(axes, np.ones((1, 1)))
    first = np.asarray(np.kron(columns, np.eye(q)[:1]), dtype=np.float64)
    levels = model.covariance_.reshape(-1, width, width)
    laws = np.split(model.task_variance_law_, len(levels), axis=1)
    result = []
    for covariance, law in zip(levels, laws, strict=True):
        mean = np.einsum("jqkq->jk", covariance.reshape(p + 1, q, p + 1, q)) / q
        variances = np.maximum(np.sum(columns @ mean * columns, axis=1), 0.0)
        of_first = np.sum(first @ covariance * first, axis=1)
        share = np.divide(variances, of_first, out=np.ones_like(variances), where=of_first > 0)
        few = np.abs(first) @ (law[2] < _FEWEST) > 0
        ends = VarianceLaw(*law).interval_along(first, covariance, 0.95)
        # Averages over scores, whose intervals are those of the first.
        squares = [variances, *(np.where(few, np.nan, share * end) for end in ends)]
        result.append(getattr(model, "target_scale_", 1.0) * np.sqrt(squares).T)
    return result
