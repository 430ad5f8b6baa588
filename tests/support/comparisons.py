"""Comparisons of pooled, separate and cross-learned models with given scores."""

import numpy as np

from crosslearning.evaluation import Comparison

NAN = np.nan
METHODS = ("pooled", "separate", "cross")


def comparison_of(pooled, separate, cross, **settings):
    """A comparison with these scores by task."""
    scores = np.array([pooled, separate, cross], dtype=float)
    labels, rows = np.arange(scores.shape[1]).astype(object), np.full(scores.shape[1], 5)
    shares = np.isfinite(scores).all(axis=0).astype(float)
    return Comparison(METHODS, labels, rows, scores, shares, **settings)


def with_gain(pooled, separate, gain, error, n_tasks=160):
    """A comparison whose better rival loses by `gain`, with this standard error over tasks."""
    wobble = np.resize([1.0, -1.0], n_tasks) + np.where(np.arange(n_tasks) < n_tasks % 2, -1.0, 0.0)
    if n_tasks > 1:
        wobble *= error * np.sqrt(n_tasks) / wobble.std(ddof=1)
    gains = gain + wobble - wobble.mean()
    ends = [np.append(np.full(n_tasks, score), NAN) for score in (pooled, separate)]
    return comparison_of(*ends, np.append(max(pooled, separate) + gains, NAN))
