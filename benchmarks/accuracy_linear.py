"""Linear peers: pooled, with dummies of the tasks, separate, and mixed models."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import gpboost as gpb
import numpy as np
from accuracy_tables import COVERAGES, Data, Forecast, Rows
from scipy.linalg import qr
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.model_selection import GridSearchCV, PredefinedSplit
from statsmodels.regression.mixed_linear_model import MixedLM

from crosslearning.tasks import within_task_folds

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

N_SLOPES = 3  # random slopes of a mixed model
SHARES = 10.0 ** np.arange(-5, 2)  # strengths of a penalty on the mean loss
LIKELIHOODS = {"regression": "gaussian", "classes": "bernoulli_logit", "counts": "poisson"}


def plain(rows: Rows) -> Array:
    return rows.matrix


def with_dummies(rows: Rows) -> Array:
    return np.hstack([rows.matrix, np.eye(rows.n_tasks)[rows.tasks]])


def with_interactions(rows: Rows) -> Array:
    """Every column once for each task."""
    own = np.hstack([np.ones((len(rows), 1)), rows.matrix])
    return np.einsum("rt,rp->rtp", np.eye(rows.n_tasks)[rows.tasks], own).reshape(len(rows), -1)


def penalised(data: Data, design: Callable[[Rows], Array]) -> Forecast:
    """One linear model, its ridge strength from folds within tasks."""
    n = len(data.train)
    model, strengths, scoring = {
        "regression": (Ridge(), {"alpha": SHARES * n}, "neg_mean_squared_error"),
        "classes": (LogisticRegression(max_iter=1000), {"C": 1 / (SHARES * n)}, "neg_log_loss"),
        "counts": (PoissonRegressor(max_iter=1000), {"alpha": SHARES}, "neg_mean_poisson_deviance"),
    }[data.kind]
    folds = PredefinedSplit(within_task_folds(data.train.tasks, 5, seed=0))
    search = GridSearchCV(model, strengths, scoring=scoring, cv=folds)
    search.fit(design(data.train), data.train.y)
    predict = search.predict_proba if data.n_classes else search.predict
    return Forecast(predict(design(data.test)))


def normal_intervals(mean: Array, sd: Array) -> dict[float, tuple[Array, Array]]:
    reach = {nominal: norm.ppf((1 + nominal) / 2) * sd for nominal in COVERAGES}
    return {nominal: (mean - r, mean + r) for nominal, r in reach.items()}


def effects(data: Data, n_slopes: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Independent columns, and those among them with the largest pooled coefficients."""
    X = data.train.matrix - data.train.matrix.mean(axis=0)
    triangle, order = qr(X, mode="r", pivoting=True)
    diagonal = np.abs(np.diag(triangle))
    fixed = np.sort(order[: np.count_nonzero(diagonal > 1e-8 * diagonal[0])])
    slopes = np.linalg.lstsq(X[:, fixed], data.train.y - data.train.y.mean())[0]
    return fixed, fixed[np.argsort(-np.abs(slopes))[:n_slopes]]


def mixed_model(data: Data, n_slopes: int) -> Forecast:
    """REML; all columns have fixed effects, a few of them random slopes."""
    columns, sloped = effects(data, n_slopes)
    (fixed, random), (new_fixed, new_random) = (
        [np.column_stack([np.ones(len(rows)), rows.matrix[:, at]]) for at in (columns, sloped)]
        for rows in (data.train, data.test)
    )
    model = MixedLM(data.train.y, fixed, groups=data.train.tasks, exog_re=random)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = model.fit()
        found, spreads = fitted.random_effects, fitted.random_effects_cov
    none = np.zeros(random.shape[1])
    mean = np.array([found.get(task, none) for task in range(data.train.n_tasks)])
    between = np.asarray(fitted.cov_re)
    spread = np.array([spreads.get(task, between) for task in range(data.train.n_tasks)])
    at = data.test.tasks
    predicted = new_fixed @ fitted.fe_params + np.sum(new_random * mean[at], axis=1)
    variance = fitted.scale + np.einsum("rj,rjk,rk->r", new_random, spread[at], new_random)
    k = len(columns) + 1
    variance += np.sum(new_fixed @ fitted.cov_params()[:k, :k] * new_fixed, axis=1)
    remark = "" if fitted.converged else "not converged"
    return Forecast(predicted, normal_intervals(predicted, np.sqrt(variance)), remark)


def generalised_mixed_model(data: Data, n_slopes: int) -> Forecast:
    """Laplace's approximation, by GPBoost; each class against the rest if there are several."""
    if data.n_classes <= 2:
        mean = _generalised(data, data.train.y, n_slopes)
        return Forecast(np.column_stack([1 - mean, mean]) if data.n_classes else mean)
    each = [_generalised(data, data.train.y == c, n_slopes) for c in range(data.n_classes)]
    return Forecast(np.transpose(each) / np.sum(each, axis=0)[:, None])


def _generalised(data: Data, y: NDArray, n_slopes: int) -> Array:
    columns, sloped = effects(data, n_slopes)
    fixed = [
        np.column_stack([np.ones(len(r)), r.matrix[:, columns]]) for r in (data.train, data.test)
    ]
    slopes = (
        [rows.matrix[:, sloped] for rows in (data.train, data.test)] if n_slopes else [None] * 2
    )
    model = gpb.GPModel(
        likelihood=LIKELIHOODS[data.kind],
        group_data=data.train.tasks,
        group_rand_coef_data=slopes[0],
        ind_effect_group_rand_coef=[1] * len(sloped) if n_slopes else None,
        num_parallel_threads=1,
    )
    model.fit(y=np.asarray(y, dtype=float), X=fixed[0])
    found = model.predict(
        group_data_pred=data.test.tasks, group_rand_coef_data_pred=slopes[1], X_pred=fixed[1]
    )
    return found["mu"]
