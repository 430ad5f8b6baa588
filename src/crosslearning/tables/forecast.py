"""Predictions of a stored model with their uncertainty, without importing scikit-learn.

That import takes longer than most predictions.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning.convex import families
from crosslearning.convex.intervals import capped, predictive_interval
from crosslearning.convex.posterior import score_covariances
from crosslearning.convex.prediction import linear_scores
from crosslearning.convex.scaling import Scaling
from crosslearning.tables._basis import Basis

Array = NDArray[np.float64]
_AT_ONCE = 2**16  # rows


def blend(parts: list[tuple[float, Any, dict[str, Any]]], basis: Basis | None) -> dict[str, Any]:
    """State of several models: weight, columns and state of each.

    Columns are positions in the output of the basis, or None for the features themselves.
    """
    fitted = {name: parts[0][2]["fitted"].get(name) for name in ("tasks_", "classes_")}
    known = {name: value for name, value in fitted.items() if value is not None}
    return {"class": "Blend", "fitted": known, "parts": parts, "basis": basis}


def main_part(state: dict[str, Any]) -> dict[str, Any]:
    """State of the model with the largest weight."""
    if "parts" not in state:
        return state
    heaviest: dict[str, Any] = max(state["parts"], key=lambda part: part[0])[2]
    return heaviest


def _blended(
    state: dict[str, Any], X: Array, codes: NDArray[np.int64]
) -> list[tuple[float, dict[str, Any], Array]]:
    """Weight and state of each model, and its features."""
    if "parts" not in state:
        return [(1.0, state, X)]
    basis = state["basis"]
    Z = X if basis is None else basis.apply(X, codes)
    return [
        (weight, own, X if columns is None else Z[:, columns])
        for weight, columns, own in state["parts"]
    ]


def forecast(
    state: dict[str, Any], X: Array, codes: NDArray[np.int64], *, spread: bool = True
) -> tuple[Array, Array]:
    """Means and standard deviations (optional for normal targets); the code -1 is a new task."""
    mean, sd = np.zeros(len(X)), np.zeros(len(X))
    for weight, own, Z in _blended(state, X, codes):
        told = _forecast(own, Z, codes, spread=spread)
        mean, sd = mean + weight * told[0], sd + weight * told[1]
    return mean, sd


def _forecast(
    state: dict[str, Any], X: Array, codes: NDArray[np.int64], *, spread: bool
) -> tuple[Array, Array]:
    family = family_of(state)
    assert isinstance(family, families.OneScore)
    if isinstance(family, families.Gaussian) and not spread:
        return linear_scores(state["fitted"], X, codes)[:, 0], np.zeros(len(X))
    fitted = state["fitted"]
    dispersion = fitted["noise_sd_"] ** 2 if family.has_dispersion else 1.0
    unit = fitted.get("target_scale_", 1.0) ** 2  # of covariances
    parts = [
        family.predictive(scores[:, 0], unit * variance[:, 0, 0], dispersion)
        for scores, variance in _scored(state, X, codes)
    ]
    means, variances = (np.concatenate(part) for part in zip(*parts, strict=True))
    return capped(means, np.sqrt(variances), fitted.get("largest_mean_", np.inf))


def probabilities(state: dict[str, Any], X: Array, codes: NDArray[np.int64]) -> Array:
    """Probabilities of classes, averaged over the posterior of the parameters."""
    return np.asarray(
        sum(weight * _probabilities(own, Z, codes) for weight, own, Z in _blended(state, X, codes))
    )


def _probabilities(state: dict[str, Any], X: Array, codes: NDArray[np.int64]) -> Array:
    family = family_of(state)
    parts = []
    for scores, spread in _scored(state, X, codes):
        if isinstance(family, families.Multinomial):
            parts.append(family.predictive(scores @ family.basis, spread))
        else:
            assert isinstance(family, families.Bernoulli)
            score, variance = scores[:, 0], spread[:, 0, 0]
            sides = [family.predictive(sign * score, variance, 1.0)[0] for sign in (-1.0, 1.0)]
            parts.append(np.column_stack(sides))
    return np.concatenate(parts)


def intervals(
    state: dict[str, Any],
    mean: Array,
    sd: Array,
    seen: NDArray[np.bool_],
    errors: Array,
    coverage: float,
) -> tuple[Array, Array]:
    """Return lower and upper ends, from errors of held-out rows where the task was `seen`."""
    if not 0.0 < coverage < 1.0:
        raise ValueError(f"`coverage` must lie between 0 and 1; got {coverage}.")
    state = main_part(state)
    family = family_of(state)
    assert isinstance(family, families.OneScore)
    noise = state["fitted"]["noise_sd_"] ** 2
    lower, upper = predictive_interval(family, mean, sd, noise, coverage)
    if not isinstance(family, families.Gaussian) or not len(errors):
        return lower, upper
    rank = min(int(np.ceil(coverage * (len(errors) + 1))), len(errors))
    reach = errors[rank - 1] * sd
    reach = np.where(seen, reach, np.maximum(reach, upper - mean))
    return mean - reach, mean + reach


def _scored(state: dict[str, Any], X: Array, codes: NDArray[np.int64]) -> Any:
    """Scores and their covariances, a chunk of rows at a time."""
    fitted = state["fitted"]
    scaling = Scaling(fitted["feature_mean_"], fitted["feature_scale_"])
    unseen = fitted["center_covariance_"] + fitted["covariance_"]
    for start in range(0, len(X), _AT_ONCE):
        rows = slice(start, start + _AT_ONCE)
        columns = scaling.columns(X[rows], intercept=state["parameters"]["fit_intercept"])
        spread = score_covariances(columns, codes[rows], fitted["task_covariances_"], unseen)
        yield linear_scores(fitted, X[rows], codes[rows]), spread


def family_of(state: dict[str, Any]) -> Any:
    """Distribution of the targets of a stored model."""
    if "classes_" in state["fitted"]:
        count = len(state["fitted"]["classes_"])
        return families.Bernoulli() if count == 2 else families.Multinomial(count)
    parameters = state["parameters"]
    name = parameters.get("family", "gaussian")
    setting = {"student": "df", "tweedie": "power", "quantile": "quantile"}.get(name)
    family = getattr(families, name.capitalize())
    return family() if setting is None else family(parameters[setting])
