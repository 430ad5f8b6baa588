"""Weights of a blend of models, from predictions of held-out rows."""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from crosslearning.tables.rows import Rows

Array = NDArray[np.float64]
_LEAST, _MOST = 0.05, 0.9  # smallest weight that is kept, and one that is rounded up to 1
_SHRINKAGE = 0.01  # towards the best model, relative to the smallest squared error
_PRIOR = 30.0  # rows that the prior of a mixture is worth
_ROUNDS, _LEAST_SHARE = 200, 1e-12


def blend_weights(said: Array, rows: Rows, metric: str, cross: NDArray[np.bool_]) -> Array:
    """Nonnegative weights of models that sum to 1; `cross` marks those that are cross-learned.

    Squared errors of a task are divided by the square root of their mean, so that a few tasks with
    large errors do not decide alone. Held-out classes say little about the weights, so these are
    shrunk towards the best cross-learned model: it contains pooled and separate models as special
    cases, and the evidence of all training rows has chosen between them. Counts are likeliest where
    their shares of all counts are: given their total, independent counts are multinomial.
    """
    totals = np.bincount(rows.codes, rows.given_weights, rows.n_tasks)
    share = rows.given_weights / totals[rows.codes]
    if rows.classes is not None:
        own = said[:, np.arange(len(rows.y)), np.searchsorted(rows.classes, rows.y)]
        weights = _likeliest(np.maximum(own, _LEAST_SHARE), share, cross, _PRIOR)
    elif metric == "poisson-deviance" and share @ rows.y > 0:
        sums = np.maximum(said, _LEAST_SHARE) @ share
        own = np.maximum(said, _LEAST_SHARE) / sums[:, np.newaxis]
        weights = _likeliest(own, share * rows.y, cross, 0.0) / sums
    else:
        weights = _least_squares(said, rows, share, 2.0 if metric == "gamma-deviance" else 0.0)
    weights /= weights.sum()
    weights = np.where(weights < min(_LEAST, weights.max()), 0.0, weights)
    if weights.max() >= _MOST * weights.sum():
        weights = np.eye(len(weights))[weights.argmax()]
    return np.asarray(weights / weights.sum())


def _least_squares(said: Array, rows: Rows, share: Array, power: float) -> Array:
    """Minimise squared errors over variances, which are a power of the mean."""
    errors = said - rows.y
    scale = np.maximum(said.mean(axis=0), _LEAST_SHARE) ** power
    squares = np.median(errors**2, axis=0) / scale
    of_tasks = np.bincount(rows.codes, share * squares, rows.n_tasks)
    present = of_tasks[of_tasks > 0]
    floor = 1e-6 * present.max() if len(present) else 1.0
    weight = share / scale / np.sqrt(np.maximum(of_tasks, floor))[rows.codes]
    gram = (errors * weight) @ errors.T
    best = np.eye(len(said))[gram.diagonal().argmin()]
    values, vectors = np.linalg.eigh(gram)
    root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    shrink = np.sqrt(_SHRINKAGE * gram.diagonal().min())
    total = 1e3 * np.sqrt(gram.diagonal().max())  # in effect a constraint on the sum
    design = np.vstack([root, shrink * np.eye(len(said)), np.full(len(said), total)])
    return np.asarray(nnls(design, np.concatenate([0.0 * best, shrink * best, [total]]))[0])


def _likeliest(own: Array, share: Array, cross: NDArray[np.bool_], prior: float) -> Array:
    """Maximise the mean log probability of a mixture with a prior (expectation maximisation)."""
    share = share / share.sum()
    scores = np.log(own) @ share
    best = np.eye(len(own))[np.where(cross | ~cross.any(), scores, -np.inf).argmax()]
    weights, prior = np.full(len(own), 1.0 / len(own)), prior / len(share)
    for _ in range(_ROUNDS):
        weights = weights * ((own / (weights @ own)) @ share)
        weights = (weights + prior * best) / (weights.sum() + prior)
    return weights
