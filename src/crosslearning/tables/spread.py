"""How much tasks differ, in their level and in each coefficient."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri

from crosslearning.tables.model_findings import Deviation, FeatureSpread, Noise, Spread, SpreadRow

Array = NDArray[np.float64]
_UNIT = "per standard deviation of the column"
_LOGARITHMIC = ("poisson", "gamma", "tweedie")  # families whose models are of logarithms
_FEWEST = 2.0  # degrees of freedom of an interval


def spread(
    model: Any, names: list[str], axes: Array | None, target: str, constant: list[str]
) -> Spread:
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
    center = np.reshape(model.center_coef_ * model.feature_scale_, (-1, model.n_features_in_))
    center = center[-1] if axes is None else axes @ center[-1]
    features = [
        FeatureSpread(
            feature=name,
            **vars(_deviation(sds[j], freedom[alike[j]].sum() if j in alike else 0.0)),
            center=center[j],
            unit=_UNIT,
        )
        for j, name in enumerate(names)
    ]
    level = _deviation(sds[-1], freedom[-1])
    shown = [SpreadRow(what="level", columns=(), **vars(level))] if sds[-1] > 0 else []
    for group in sorted(groups.values(), key=lambda group: -sds[group[0]]):
        columns, every = [names[j] for j in group], len(group) == len(alike)
        shown.append(
            SpreadRow(
                what=_words(columns, every), columns=tuple(columns), **vars(features[group[0]])
            )
        )
    logarithmic = getattr(model, "family", "gaussian") in _LOGARITHMIC
    scale = f"the logarithm of {target}" if logarithmic else target
    return Spread(
        level=level,
        noise=_noise(model),
        features=tuple(features),
        shown=tuple(shown),
        unit="log-odds" if hasattr(model, "classes_") else scale,
        factor=np.exp(sds[-1]) if logarithmic else None,
        epsilon=model.epsilon_ if np.isfinite(model.epsilon_) else None,
    )


def _noise(model: Any) -> Noise:
    """Return the standard deviation within tasks, which numbers with a constant one have."""
    family = getattr(model, "family", "gaussian")
    varies = family in (*_LOGARITHMIC, "quantile")
    return Noise(sd=None if varies or hasattr(model, "classes_") else model.noise_sd_)


def _variances(model: Any, axes: Array | None) -> tuple[Array, Array]:
    """Return standard deviations of columns and of the level, and their degrees of freedom."""
    p, covariance = model.n_features_in_, model.covariance_
    q = len(covariance) // (p + 1)
    variances = _by_column(covariance[np.newaxis], p, q, axes)
    posterior = _by_column(model.task_covariances_, p, q, axes)
    ratio = np.divide(posterior, variances, out=np.ones_like(posterior), where=variances > 0)
    freedom = np.maximum(np.clip(1.0 - ratio, 0.0, 1.0).sum(axis=0) - 1.0, 0.0)
    return getattr(model, "target_scale_", 1.0) * np.sqrt(variances[0]), freedom


def _deviation(sd: float, freedom: float) -> Deviation:
    if freedom < _FEWEST:
        return Deviation(sd=sd, low=None, high=None)
    low, high = (sd * np.sqrt(freedom / chdtri(freedom, tail)) for tail in (0.025, 0.975))
    return Deviation(sd=sd, low=low, high=high)


def _words(columns: list[str], every: bool) -> str:
    if len(columns) == 1:
        return columns[0]
    return f"the effect of {'every column' if every else f'each of {len(columns)} columns'}"


def _by_column(covariances: Array, p: int, q: int, axes: Array | None) -> Array:
    """Variances of coefficients of standardised columns and of the level, averaged over scores."""
    blocks = covariances.reshape(len(covariances), p + 1, q, p + 1, q)
    matrix = np.einsum("njqkq->njk", blocks) / q
    variances = np.einsum("njj->nj", matrix)
    if axes is not None:
        coef = np.einsum("fj,njk,fk->nf", axes, matrix[:, :p, :p], axes, optimize=True)
        variances = np.column_stack([coef, variances[:, p:]])
    return np.asarray(np.maximum(variances, 0.0))
