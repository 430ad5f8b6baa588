"""Weights of a blend of models, from predictions of held-out rows."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import LinearConstraint, minimize, nnls
from scipy.special import kl_div, logsumexp

from crosslearning.tables.rows import Rows

Array = NDArray[np.float64]
_LEAST, _MOST = 0.05, 0.9  # smallest weight that is kept, and one that is rounded up to 1
_SHRINKAGE = 0.01  # towards the best model, relative to the smallest squared error
_PRIOR = 30.0  # rows that the prior of weights of classes and counts is worth
_LEAST_SHARE = 1e-12
_MOST_NUMBERS = 2 * 10**6  # probabilities that weights are based on


def blend_weights(predictions: Array, rows: Rows, metric: str, cross: NDArray[np.bool_]) -> Array:
    """Nonnegative weights of models that sum to 1; `cross` marks those that are cross-learned.

    Squared errors of a task are divided by the square root of their mean, so that a few tasks with
    large errors do not decide alone. Weights of classes are those of logarithms of probabilities.
    Held-out classes and counts say little about the weights, which are shrunk towards equal ones of
    all that are cross-learned: these contain pooled and separate models as special cases, and the
    evidence of all training rows has chosen between them.
    """
    equal = (cross | ~cross.any()) / np.count_nonzero(cross | ~cross.any())
    counts = np.bincount(rows.codes, rows.row_weights, rows.n_tasks)
    share = rows.row_weights / np.maximum(counts, _LEAST_SHARE)[rows.codes]
    if rows.classes is not None:
        some = slice(None, None, -(-predictions.size // _MOST_NUMBERS))
        positions = np.searchsorted(rows.classes, rows.y[some])
        weights = _least_log_loss(predictions[:, some], positions, share[some], equal)
    elif metric == "poisson-deviance":
        weights = _least_deviance(predictions, rows.y, share / share.sum(), equal)
    else:
        weights = _least_squares(
            predictions, rows, share, 2.0 if metric == "gamma-deviance" else 0.0
        )
    weights = np.where(weights < min(_LEAST, weights.max()), 0.0, weights)
    if weights.max() >= _MOST * weights.sum():
        weights = np.eye(len(weights))[weights.argmax()]
    return np.asarray(weights / weights.sum())


def _least_squares(predictions: Array, rows: Rows, share: Array, power: float) -> Array:
    """Minimise squared errors over variances, which are a power of the mean."""
    errors = predictions - rows.y
    scale = np.maximum(predictions.mean(axis=0), _LEAST_SHARE) ** power
    squares = np.median(errors**2, axis=0) / scale
    of_tasks = np.bincount(rows.codes, share * squares, rows.n_tasks)
    present = of_tasks[of_tasks > 0]
    floor = 1e-6 * present.max() if len(present) else 1.0
    weight = share / scale / np.sqrt(np.maximum(of_tasks, floor))[rows.codes]
    gram = (errors * weight) @ errors.T
    best = np.eye(len(predictions))[gram.diagonal().argmin()]
    values, vectors = np.linalg.eigh(gram)
    root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    shrink = np.sqrt(_SHRINKAGE * gram.diagonal().min())
    total = 1e3 * np.sqrt(gram.diagonal().max())  # in effect a constraint on the sum
    design = np.vstack([root, shrink * np.eye(len(predictions)), np.full(len(predictions), total)])
    return np.asarray(nnls(design, np.concatenate([0.0 * best, shrink * best, [total]]))[0])


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

    return _minimiser(loss, 0.5 * expected + 0.5 / len(prior))


def _least_log_loss(
    predictions: Array, positions: NDArray[np.intp], share: Array, expected: Array
) -> Array:
    """Minimise the log loss of weighted geometric means, which is convex, with a normal prior."""
    logs, share = np.log(np.maximum(predictions, _LEAST_SHARE)), share / share.sum()
    of_targets = logs[:, np.arange(len(share)), positions] @ share
    prior = _PRIOR / len(share)

    def loss(weights: Array) -> tuple[float, Array]:
        mean, apart = np.tensordot(weights, logs, 1), weights - expected
        total = logsumexp(mean, axis=1)
        of_model = np.tensordot(logs, np.exp(mean - total[:, None]) * share[:, None], 2)
        value = share @ total - weights @ of_targets + 0.5 * prior * (apart @ apart)
        return float(value), of_model - of_targets + prior * apart

    return _minimiser(loss, expected)


def _minimiser(loss: Callable[[Array], tuple[float, Array]], start: Array) -> Array:
    """Nonnegative weights with the sum 1 and a small loss, which comes with its slope."""
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
