"""Tasks drawn around a common model, and what fits of them are compared by."""

import numpy as np


def simulated(seed=0, n_tasks=60, n=12, sds=(0.0, 0.5, 1.0), noise=1.0):
    """Rows of tasks with known spreads of two slopes and the intercept."""
    rng = np.random.default_rng(seed)
    tasks = np.repeat(np.arange(n_tasks), n)
    X = rng.normal(size=(len(tasks), 2)) * [1.0, 3.0] + [0.0, 5.0]
    slopes = np.array([1.0, -0.5]) + rng.normal(size=(n_tasks, 2)) * sds[:2] / np.array([1.0, 3.0])
    level = 2.0 + sds[2] * rng.normal(size=n_tasks)
    score = np.sum((X - [0.0, 5.0]) * slopes[tasks], axis=1) + level[tasks]
    return X, score, score + noise * rng.normal(size=len(tasks)), tasks


def scaled_columns(model, X):
    return np.column_stack([(X - model.feature_mean_) / model.feature_scale_, np.ones(len(X))])


def scaled_parameters(model):
    slopes = model.coef_ * model.feature_scale_
    return np.column_stack([slopes, model.intercept_ + model.coef_ @ model.feature_mean_])


def covered(interval, y):
    return np.mean((interval[0] <= y) & (y <= interval[1]))
