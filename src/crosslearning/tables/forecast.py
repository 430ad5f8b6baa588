"""Predictions of a stored model, with what is not known of them; scikit-learn is not needed.

It takes longer to import than most tables take to predict.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from crosslearning.convex.families import (
    Bernoulli,
    Gamma,
    Gaussian,
    Multinomial,
    OneScore,
    Poisson,
    Student,
    Tweedie,
)
from crosslearning.convex.intervals import predictive_interval
from crosslearning.convex.posterior import score_covariances
from crosslearning.convex.prediction import linear_scores
from crosslearning.convex.scaling import Scaling

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["Forecast", "forecast", "intervals", "probabilities"]

_AT_ONCE = 2**16  # rows


@dataclass(frozen=True, eq=False)
class Forecast:
    """Means and standard deviations of targets, and whether their tasks are known."""

    mean: Array
    sd: Array
    seen: NDArray[np.bool_]


def forecast(state: dict[str, Any], X: Array, codes: NDArray[np.int64]) -> Forecast:
    """Predict numbers; -1 is a task never seen."""
    family = _family(state)
    assert isinstance(family, OneScore)
    dispersion = state["fitted"]["noise_sd_"] ** 2 if family.has_dispersion else 1.0
    parts = [
        family.predictive(scores[:, 0], spread[:, 0, 0], dispersion)
        for scores, spread in _scored(state, X, codes)
    ]
    means, variances = (np.concatenate(part) for part in zip(*parts, strict=True))
    return Forecast(means, np.sqrt(variances), codes >= 0)


def probabilities(state: dict[str, Any], X: Array, codes: NDArray[np.int64]) -> Array:
    """Predict shares of classes: means over what is not known of the parameters."""
    family = _family(state)
    parts = []
    for scores, spread in _scored(state, X, codes):
        if isinstance(family, Multinomial):
            parts.append(family.predictive(scores @ family.basis, spread))
        else:
            assert isinstance(family, Bernoulli)
            score, variance = scores[:, 0], spread[:, 0, 0]
            sides = [family.predictive(sign * score, variance, 1.0)[0] for sign in (-1.0, 1.0)]
            parts.append(np.column_stack(sides))
    return np.concatenate(parts)


def intervals(
    state: dict[str, Any], said: Forecast, errors: Array, coverage: float
) -> tuple[Array, Array]:
    """Return lower and upper ends.

    Parameters
    ----------
    state : dict
        The model.
    said : Forecast
        Of the rows.
    errors : array
        Absolute errors of rows left out, in predicted standard deviations, sorted: they widen or
        narrow intervals of real targets. Tasks never seen are given no less than the model says.
    coverage : float
        Probability that a target lies between them.
    """
    if not 0.0 < coverage < 1.0:
        raise ValueError(f"`coverage` must lie between 0 and 1; got {coverage}.")
    family = _family(state)
    assert isinstance(family, OneScore)
    noise = state["fitted"]["noise_sd_"] ** 2
    lower, upper = predictive_interval(family, said.mean, said.sd, noise, coverage)
    if not isinstance(family, Gaussian) or not len(errors):
        return lower, upper
    rank = min(int(np.ceil(coverage * (len(errors) + 1))), len(errors))
    reach = errors[rank - 1] * said.sd
    reach = np.where(said.seen, reach, np.maximum(reach, upper - said.mean))
    return said.mean - reach, said.mean + reach


def _scored(state: dict[str, Any], X: Array, codes: NDArray[np.int64]) -> Any:
    """Scores and their covariances, some rows at a time."""
    fitted = state["fitted"]
    scaling = Scaling(fitted["feature_mean_"], fitted["feature_scale_"])
    unseen = fitted["center_covariance_"] + fitted["covariance_"]
    for start in range(0, len(X), _AT_ONCE):
        rows = slice(start, start + _AT_ONCE)
        columns = scaling.columns(X[rows], intercept=state["parameters"]["fit_intercept"])
        spread = score_covariances(columns, codes[rows], fitted["task_covariances_"], unseen)
        yield linear_scores(fitted, X[rows], codes[rows]), spread


def _family(state: dict[str, Any]) -> Any:
    if "classes_" in state["fitted"]:
        count = len(state["fitted"]["classes_"])
        return Bernoulli() if count == 2 else Multinomial(count)
    parameters = state["parameters"]
    name = parameters.get("family", "gaussian")
    if name == "student":
        return Student(parameters["df"])
    if name == "tweedie":
        return Tweedie(parameters["power"])
    return {"gaussian": Gaussian(), "poisson": Poisson(), "gamma": Gamma()}[name]
