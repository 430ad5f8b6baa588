"""What a fitted model says about its table: spread of tasks, calibration."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri

from crosslearning.evaluation.calibration import reliability
from crosslearning.evaluation.numbers import percent
from crosslearning.tables.learners.trials import Trials
from crosslearning.tables.residuals import Residuals, calibrated
from crosslearning.tables.rows import Rows
from crosslearning.tables.splits import Splits

Array = NDArray[np.float64]
_UNIT = "per standard deviation of the column"
_MOST_SHOWN = 2_000
_FEWEST = 2.0  # degrees of freedom of an interval
_UNKNOWN: dict[str, float | None] = {"low": None, "high": None}


def spread(
    model: Any, names: list[str], axes: Array | None, target: str, constant: list[str]
) -> dict[str, Any]:
    """How much tasks differ in each coefficient, per standard deviation of its column.

    With 95 % intervals (chi-square), whose degrees of freedom are the effective number of tasks
    minus one: a task counts as far as its own rows, not the other tasks, determine its coefficient.
    Columns with a common variance add up theirs, and `shown`, the largest first and without
    `constant` columns, lists them once. There is no interval with too few degrees of freedom.
    """
    p = model.n_features_in_
    covariance, own = model.covariance_, model.task_covariances_
    q = len(covariance) // (p + 1)
    variances, known = _by_column(covariance[np.newaxis], p, q, axes), _by_column(own, p, q, axes)
    ratio = np.divide(known, variances, out=np.ones_like(known), where=variances > 0)
    effective = np.maximum(np.clip(1.0 - ratio, 0.0, 1.0).sum(axis=0) - 1.0, 0.0)
    sds = getattr(model, "target_scale_", 1.0) * np.sqrt(variances[0])
    center = np.reshape(model.center_coef_ * model.feature_scale_, (-1, p))
    center = center[-1] if axes is None else axes @ center[-1]
    kinds: dict[str, list[int]] = {}
    for j, name in enumerate(names):
        if name not in constant and sds[j] > 0:
            kinds.setdefault(f"{sds[j]:.9g}", []).append(j)
    groups = [*kinds.values(), [-1]]
    intervals = {j: _interval(sds[j], effective[group].sum()) for group in groups for j in group}
    features = [
        {"feature": name, "sd": sds[j], **intervals.get(j, _UNKNOWN), "center": center[j]}
        | {"unit": _UNIT}
        for j, name in enumerate(names)
    ]
    level: dict[str, Any] = {"sd": sds[-1], **intervals[-1]}
    shown = [{"what": "level", "columns": [], **level}] if sds[-1] > 0 else []
    for group in sorted(kinds.values(), key=lambda group: -sds[group[0]]):
        every = "every column" if len(group) == sum(map(len, kinds.values())) else "each of "
        every += f"{len(group)} columns" * (every != "every column")
        what = names[group[0]] if len(group) == 1 else f"the effect of {every}"
        shown.append({"what": what, "columns": [names[j] for j in group], **features[group[0]]})
    classes, logarithmic = hasattr(model, "classes_"), _logarithmic(model)
    silent = classes or logarithmic or _of_quantile(model)
    return {
        "level": level,
        "noise": {"sd": None if silent else model.noise_sd_},
        "features": features,
        "shown": shown,
        "unit": "log-odds" if classes else "the logarithm of " * logarithmic + target,
        "factor": np.exp(sds[-1]) if logarithmic else None,
        "epsilon": model.epsilon_ if np.isfinite(model.epsilon_) else None,
    }


def _interval(sd: float, freedom: float) -> dict[str, float | None]:
    if freedom < _FEWEST:
        return _UNKNOWN
    low, high = (sd * np.sqrt(freedom / chdtri(freedom, tail)) for tail in (0.025, 0.975))
    return {"low": low, "high": high}


def _logarithmic(model: Any) -> bool:
    return getattr(model, "family", "gaussian") in ("poisson", "gamma", "tweedie")


def _of_quantile(model: Any) -> bool:
    return getattr(model, "family", "gaussian") == "quantile"


def _by_column(covariances: Array, p: int, q: int, axes: Array | None) -> Array:
    """Variances of coefficients of standardised columns and of the level, averaged over scores."""
    blocks = covariances.reshape(len(covariances), p + 1, q, p + 1, q)
    matrix = np.einsum("njqkq->njk", blocks) / q
    own = np.einsum("njj->nj", matrix)
    if axes is not None:
        coef = np.einsum("fj,njk,fk->nf", axes, matrix[:, :p, :p], axes, optimize=True)
        own = np.column_stack([coef, own[:, p:]])
    return np.asarray(np.maximum(own, 0.0))


def left_out(
    trials: Trials, rows: Rows, splits: Splits, labels: Sequence[Any], seed: int
) -> tuple[Residuals | None, dict[str, Any]]:
    """Errors of held-out rows, which intervals follow from; and whether predictions hold there."""
    predictions = trials.predictions[trials.chosen.name]
    if rows.classes is not None:
        return None, {"reliability": _reliability(rows, predictions)}
    if _of_quantile(trials.chosen.estimator):
        known = np.isfinite(predictions)
        below = np.average(rows.y[known] <= predictions[known], weights=rows.given_weights[known])
        note = f"{percent(below)} of the held-out targets are at most their prediction"
        return None, {"notes": [note]}
    sds = trials.sds[trials.chosen.name]
    known = np.isfinite(predictions) & np.isfinite(sds) & (rows.given_weights > 0)
    tests = [test[known[test]] for _, test in splits.parts]
    parts = [(rows.take(test), predictions[test], sds[test]) for test in tests if len(test)]
    return summary(parts, labels, np.random.default_rng(seed))


def summary(
    parts: list[tuple[Rows, Array, Array]], labels: Sequence[Any], rng: np.random.Generator
) -> tuple[Residuals, dict[str, Any]]:
    """Errors, coverage of intervals and examples, of rows, means and deviations of each split."""
    y = np.concatenate([rows.y for rows, *_ in parts])
    means = np.concatenate([means for _, means, _ in parts])
    codes = np.concatenate([rows.codes for rows, *_ in parts])
    shown = [
        {"actual": y[k], "predicted": means[k], "task": labels[codes[k]]}
        for k in np.sort(rng.permutation(len(y))[:_MOST_SHOWN])
    ]
    numbers = [(rows.y, means, sds) for rows, means, sds in parts]
    residuals, coverage = calibrated(numbers, 0.0 if y.min() >= 0 else -np.inf)
    return residuals, {"calibration": coverage, "predicted": shown}


def _reliability(rows: Rows, shares: Array) -> dict[str, Any]:
    """Check probabilities of two classes for the second, of more for the predicted one.

    They are NaN for rows that were not held out.
    """
    classes, known = np.asarray(rows.classes), np.isfinite(shares).all(axis=1)
    shares, true = shares[known], np.searchsorted(classes, rows.y[known])
    two = len(classes) == 2
    guess = np.ones_like(true) if two else shares.argmax(axis=1)
    checked = reliability(shares[np.arange(len(true)), guess], true == guess)
    return {"class": classes[1] if two else None, **checked}
