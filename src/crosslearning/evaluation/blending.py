"""Weights of a blend of models, from predictions of held-out rows."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import LinearConstraint, minimize, nnls
from scipy.special import kl_div, logsumexp

from crosslearning.convex.predict import log_lifts
from crosslearning.tether import Array, Flags, Indices

# Shares of all weight: models with less would only take time, and one with more is described more
# easily than a blend.
_LEAST, _MOST = 0.05, 0.9
_PRIOR = 30.0  # rows that the priors of weights of counts, and of the sum of others, are worth
_PRIOR_OF_CLASSES = 100.0  # the same of weights of classes, for each unit of the smallest log loss
_LEAST_SHARE = 1e-12
_SMALLEST = 1e-3  # lower bound of a weight of classes, relative to the expected one
_MOST_NUMBERS = 2 * 10**6  # probabilities that weights are based on


def blend_weights(
    predictions: Array,
    y: NDArray[Any],
    codes: Indices,
    row_weights: Array,
    *,
    metric: str,
    expected: Flags,
    frequencies: Array | None = None,
) -> Array:
    """Nonnegative weights of models; `expected` marks those that probably deserve some.

    Predictions have a row for each model. Squared errors of a task are divided by the square root
    of their mean, so that a few tasks with large errors do not decide alone. Weights sum to 1,
    except those of classes: these are positions, and have `frequencies` by row, those where models
    learned. Weights multiply logarithms of probabilities over them, since models may be too sure,
    or not sure enough. Held-out classes and counts say little about the weights, which are shrunk
    towards equal ones of the models that are expected to have some.
    """
    equal = (expected | ~expected.any()) / np.count_nonzero(expected | ~expected.any())
    counts = np.bincount(codes, row_weights)
    share = row_weights / np.maximum(counts, _LEAST_SHARE)[codes]
    if frequencies is not None:
        weights = _least_log_loss(predictions, frequencies, y.astype(int), share, equal)
    elif metric == "poisson-deviance":
        weights = _least_deviance(predictions, y, share / share.sum(), equal)
    else:
        power = 2.0 if metric == "gamma-deviance" else 0.0
        weights = _least_squares(predictions, y, codes, share, power)
    total = weights.sum()
    least = weights.max() if weights.max() >= _MOST * total else _LEAST * total
    weights = np.where(weights < min(least, weights.max()), 0.0, weights)
    return np.asarray(weights / weights.sum() * (1.0 if frequencies is None else total))


def _least_squares(
    predictions: Array, y: Array, codes: Indices, share: Array, power: float
) -> Array:
    """Minimise squared errors over variances, which are a power of the mean."""
    errors = predictions - y
    scale = np.maximum(predictions.mean(axis=0), _LEAST_SHARE) ** power
    squares = np.median(errors**2, axis=0) / scale
    of_tasks = np.bincount(codes, share * squares)
    present = of_tasks[of_tasks > 0]
    floor = 1e-6 * present.max() if len(present) else 1.0
    weight = share / scale / np.sqrt(np.maximum(of_tasks, floor))[codes]
    gram = (errors * weight) @ errors.T
    if not gram.diagonal().all():  # models that are exact
        return np.asarray(gram.diagonal() == 0, dtype=np.float64)
    values, vectors = np.linalg.eigh(gram)
    root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    total = 1e3 * np.sqrt(gram.diagonal().max())  # in effect a constraint on the sum
    design = np.vstack([root, np.full(len(predictions), total)])
    return np.asarray(nnls(design, np.append(0.0 * values, total))[0])


def _least_deviance(predictions: Array, y: Array, share: Array, expected: Array) -> Array:
    """Minimise the Poisson deviance of a blend, with a Dirichlet prior of expected weights.

    Counts vary more than Poisson's: deviances are relative to that of the best model.
    """
    unit = max(float(share @ y), _LEAST_SHARE)
    predictions, y = np.maximum(predictions / unit, _LEAST_SHARE), y / unit
    deviances = 2.0 * unit * (kl_div(y, predictions) @ share)
    rows = len(y) * unit / max(float(deviances.min()), 1.0)
    prior = _PRIOR * expected

    def loss(weights: Array) -> tuple[float, Array]:
        mean, weights = weights @ predictions, np.maximum(weights, _LEAST_SHARE)
        value = rows * (share @ (mean - y * np.log(mean))) - prior @ np.log(weights)
        slope = rows * (predictions @ (share * (1.0 - y / mean)))
        return float(value), slope - prior / weights

    start = 0.5 * expected + 0.5 / len(prior)
    solution = minimize(
        loss,
        start,
        jac=True,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * len(start),
        constraints=LinearConstraint(np.ones((1, len(start))), 1.0, 1.0),
    )
    weights = np.clip(solution.x, 0.0, 1.0)
    return np.asarray(weights if loss(weights / weights.sum())[0] <= loss(start)[0] else start)


def _least_log_loss(
    predictions: Array, frequencies: Array, positions: Indices, share: Array, expected: Array
) -> Array:
    """Minimise the log loss, which is convex, with normal priors."""
    used = np.flatnonzero(share > 0)
    most = -(-_MOST_NUMBERS // len(predictions) // predictions.shape[2])
    some = np.sort(np.random.default_rng(0).permutation(used)[:most])
    positions, share = positions[some], share[some] / share[some].sum()
    base, at = np.log(frequencies[some]), np.arange(len(some))
    lifts = log_lifts(predictions[:, some], frequencies[some])
    of_targets = lifts[:, at, positions] @ share
    smallest = float(-of_targets.max() - share @ base[at, positions])
    prior, of_sum = np.array([_PRIOR_OF_CLASSES * smallest, _PRIOR]) / len(used)

    def loss(weights: Array) -> tuple[float, Array]:
        scores, apart = np.tensordot(weights, lifts, 1) + base, weights - expected
        total = logsumexp(scores, axis=1)
        of_model = np.tensordot(lifts, np.exp(scores - total[:, None]) * share[:, None], 2)
        value = share @ total - weights @ of_targets + 0.5 * prior * (apart @ apart)
        value += 0.5 * of_sum * apart.sum() ** 2
        return float(value), of_model - of_targets + prior * apart + of_sum * apart.sum()

    bounds = [(_SMALLEST * weight, None) for weight in expected]
    return np.asarray(minimize(loss, expected, jac=True, bounds=bounds).x)
