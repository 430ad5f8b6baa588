"""Predictions of a stored model with their uncertainty, without importing scikit-learn.

That import takes longer than most predictions.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crosslearning.convex import families
from crosslearning.convex.intervals import capped, limits
from crosslearning.convex.posterior import score_covariances
from crosslearning.convex.prediction import linear_scores
from crosslearning.convex.scaling import Scaling
from crosslearning.tables.learners.features import Basis
from crosslearning.tables.residuals import Residuals

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


class _Part(NamedTuple):
    """Weights and state of a model, its features, and the covariance of those of a new task."""

    weights: Array
    state: dict[str, Any]
    X: Array
    guessed: Array | None = None


def _blended(state: dict[str, Any], X: Array, codes: NDArray[np.int64]) -> list[_Part]:
    """Models of a blend, perhaps of one; separate ones do not count where others know new tasks."""
    if "parts" not in state:
        return [_Part(np.ones(len(X)), state, X)]
    basis, parts = state["basis"], state["parts"]
    Z = X if basis is None else basis.apply(X, codes)
    shared = [own["fitted"]["structure_"] != "separate" for *_, own in parts]
    weights = np.array([weight for weight, *_ in parts])
    new = np.where(shared, weights, 0.0) if any(shared) else weights
    found = []
    for (_, columns, own), *each in zip(parts, weights, new / new.sum(), strict=True):
        features = (X,) if columns is None else (Z[:, columns], basis.guessed(columns))
        found.append(_Part(np.where(codes < 0, each[1], each[0]), own, *features))
    return found


def forecast(
    state: dict[str, Any], X: Array, codes: NDArray[np.int64], *, spread: bool = True
) -> tuple[Array, Array]:
    """Means and standard deviations (optional for normal targets); the code -1 is a new task."""
    mean, sd = np.zeros(len(X)), np.zeros(len(X))
    for part in _blended(state, X, codes):
        told = _forecast(part, codes, spread=spread)
        bounded = np.clip(told[0], *_bounds(part.state))
        mean, sd = mean + part.weights * bounded, sd + part.weights * told[1]
    return mean, sd


def _forecast(part: _Part, codes: NDArray[np.int64], *, spread: bool) -> tuple[Array, Array]:
    state, X, family = part.state, part.X, family_of(part.state)
    assert isinstance(family, families.OneScore)
    if isinstance(family, families.Gaussian) and not spread:
        return linear_scores(state["fitted"], X, codes)[:, 0], np.zeros(len(X))
    fitted = state["fitted"]
    dispersion = fitted["noise_sd_"] ** 2 if family.has_dispersion else 1.0
    unit = fitted.get("target_scale_", 1.0) ** 2  # of covariances
    parts = [
        family.predictive(scores[:, 0], unit * variance[:, 0, 0], dispersion)
        for scores, variance in _scored(part, codes)
    ]
    means, variances = (np.concatenate(part) for part in zip(*parts, strict=True))
    return capped(means, np.sqrt(variances), fitted.get("largest_mean_", np.inf))


def probabilities(state: dict[str, Any], X: Array, codes: NDArray[np.int64]) -> Array:
    """Probabilities of classes, averaged over the posterior of the parameters."""
    parts = _blended(state, X, codes)
    return np.asarray(sum(part.weights[:, None] * _probabilities(part, codes) for part in parts))


def _probabilities(part: _Part, codes: NDArray[np.int64]) -> Array:
    family = family_of(part.state)
    parts = []
    for scores, spread in _scored(part, codes):
        if isinstance(family, families.Multinomial):
            parts.append(family.predictive(scores @ family.basis, spread))
        else:
            assert isinstance(family, families.Bernoulli)
            score, variance = scores[:, 0], spread[:, 0, 0]
            sides = [family.predictive(sign * score, variance, 1.0)[0] for sign in (-1.0, 1.0)]
            parts.append(np.column_stack(sides))
    return np.concatenate(parts)


def with_intervals(
    state: dict[str, Any],
    residuals: Residuals,
    X: Array,
    codes: NDArray[np.int64],
    coverage: float,
) -> dict[str, Array]:
    """Predictions, ends of their intervals and standard deviations, by name."""
    if not 0.0 < coverage < 1.0:
        raise ValueError(f"`coverage` must lie between 0 and 1; got {coverage}.")
    mean, sd = forecast(state, X, codes)
    main, seen = main_part(state), codes >= 0
    lower, upper = limits(family_of(main), *residuals.ends(mean, sd, seen, coverage))
    if _bounds(main)[0] >= 0:
        lower = np.maximum(lower, 0.0)
    std = residuals.std(mean, sd, seen)
    return {"prediction": mean, "lower": lower, "upper": upper, "std": std}


def _bounds(state: dict[str, Any]) -> Any:
    """Smallest and largest number to predict."""
    return state["fitted"].get("bounds_", (-np.inf, np.inf))


def _scored(part: _Part, codes: NDArray[np.int64]) -> Any:
    """Scores and their covariances, a chunk of rows at a time."""
    X, fitted, intercept = part.X, part.state["fitted"], part.state["parameters"]["fit_intercept"]
    scaling = Scaling(fitted["feature_mean_"], fitted["feature_scale_"])
    unseen, open_ = fitted["center_covariance_"] + fitted["covariance_"], _left_open(part)
    for start in range(0, len(X), _AT_ONCE):
        rows = slice(start, start + _AT_ONCE)
        columns = scaling.columns(X[rows], intercept=intercept)
        spread = score_covariances(columns, codes[rows], fitted["task_covariances_"], unseen)
        spread[codes[rows] < 0] += open_
        yield linear_scores(fitted, X[rows], codes[rows]), spread


def _left_open(part: _Part) -> Array | float:
    """Covariance of the scores of a new task that comes from features that are guessed."""
    if part.guessed is None:
        return 0.0
    family, coef = family_of(part.state), np.atleast_2d(part.state["fitted"]["center_coef_"])
    if isinstance(family, families.Multinomial):
        coef = family.basis.T @ coef
    return np.asarray(coef @ part.guessed @ coef.T)


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
