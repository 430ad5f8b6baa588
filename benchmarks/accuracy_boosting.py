"""Boosted trees that know the task: as a category, or by a random intercept (GPBoost); AutoGluon.

Each but the last tries a few settings with early stopping on rows held out of the training part,
then fits all of it with the best setting and the number of trees that was best.
"""

from __future__ import annotations

import time
from dataclasses import replace
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import catboost
import gpboost as gpb
import lightgbm as lgb
import numpy as np
from accuracy_linear import LIKELIHOODS, normal_intervals
from accuracy_tables import Data, Forecast, Rows
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

MOST_TREES, PATIENCE, RATE = 500, 30, 0.05
AUTO_GLUON_SECONDS, TARGET = 60.0, "the target"


def chosen(
    train: Rows,
    settings: Sequence[dict[str, Any]],
    trial: Callable[[dict[str, Any], Rows, Rows], tuple[float, int]],
) -> tuple[dict[str, Any], int]:
    """The setting with the smallest loss on held-out rows, and its number of trees."""
    found = [
        np.mean([trial(setting, inner, held_out) for inner, held_out in train.inner()], axis=0)
        for setting in settings
    ]
    best = min(range(len(settings)), key=lambda i: found[i][0])
    return settings[best], max(1, round(found[best][1]))


def lightgbm(data: Data) -> Forecast:
    fixed = {"learning_rate": RATE, "n_jobs": 1, "verbosity": -1, "random_state": 0}
    several = {"objective": "multiclass", "num_class": data.n_classes}
    objective = {
        "regression": {"objective": "regression"},
        "classes": several if data.n_classes > 2 else {"objective": "binary"},
        "counts": {"objective": "poisson"},
    }[data.kind]
    # A category counts from `cat_smooth` rows on; by default, 10, small tasks would not.
    settings = [
        {
            "num_leaves": leaves,
            "min_child_samples": rows,
            "min_data_per_group": rows,
            "cat_smooth": 1,
        }
        | fixed
        | objective
        for leaves, rows in ((7, 5), (15, 10), (31, 20))
    ]

    def trial(setting: dict[str, Any], inner: Rows, held_out: Rows) -> tuple[float, int]:
        sets = [lgb.Dataset(rows.with_task(), rows.y) for rows in (inner, held_out)]
        stop = lgb.early_stopping(PATIENCE, verbose=False)
        model = lgb.train(setting, sets[0], MOST_TREES, valid_sets=sets[1:], callbacks=[stop])
        return next(iter(model.best_score["valid_0"].values())), model.best_iteration

    setting, n_trees = chosen(data.train, settings, trial)
    model = lgb.train(setting, lgb.Dataset(data.train.with_task(), data.train.y), n_trees)
    predicted = model.predict(data.test.with_task())
    return Forecast(
        np.column_stack([1 - predicted, predicted]) if data.n_classes == 2 else predicted
    )


def hist_gradient_boosting(data: Data) -> Forecast:
    loss = {"regression": "squared_error", "classes": "log_loss", "counts": "poisson"}[data.kind]
    kind = HistGradientBoostingClassifier if data.n_classes else HistGradientBoostingRegressor
    fixed = {"loss": loss, "learning_rate": RATE, "random_state": 0}
    settings = [
        fixed | {"max_leaf_nodes": leaves, "min_samples_leaf": rows}
        for leaves, rows in ((7, 5), (15, 10), (31, 20))
    ]
    stopping = {"early_stopping": True, "n_iter_no_change": PATIENCE, "max_iter": MOST_TREES}
    stopping["tol"] = 0.0  # other values are in units of the target

    def trial(setting: dict[str, Any], inner: Rows, held_out: Rows) -> tuple[float, int]:
        model = kind(**setting, **stopping, scoring="loss").fit(
            inner.with_task(), inner.y, X_val=held_out.with_task(), y_val=held_out.y
        )
        losses = -model.validation_score_
        return losses.min(), int(np.argmin(losses))

    setting, n_trees = chosen(data.train, settings, trial)
    model = kind(**setting, max_iter=n_trees, early_stopping=False)
    model.fit(data.train.with_task(), data.train.y)
    predict = model.predict_proba if data.n_classes else model.predict
    return Forecast(predict(data.test.with_task()))


def cat_boost(data: Data) -> Forecast:
    loss = {
        "regression": "RMSE",
        "classes": "MultiClass" if data.n_classes > 2 else "Logloss",
        "counts": "Poisson",
    }[data.kind]
    fixed = {"learning_rate": RATE, "thread_count": 1, "random_seed": 0, "loss_function": loss}
    quiet = {"logging_level": "Silent", "allow_writing_files": False}
    settings = [fixed | quiet | {"depth": depth} for depth in (4, 6)]

    def pool(rows: Rows) -> catboost.Pool:
        table = rows.with_task()
        categories = table.select_dtypes("category").columns
        return catboost.Pool(table.astype(dict.fromkeys(categories, str)), rows.y, list(categories))

    def trial(setting: dict[str, Any], inner: Rows, held_out: Rows) -> tuple[float, int]:
        model = catboost.CatBoost(setting | {"iterations": MOST_TREES})
        model.fit(pool(inner), eval_set=pool(held_out), early_stopping_rounds=PATIENCE)
        return next(iter(model.best_score_["validation"].values())), model.best_iteration_ + 1

    setting, n_trees = chosen(data.train, settings, trial)
    model = catboost.CatBoost(setting | {"iterations": n_trees}).fit(pool(data.train))
    how = {"regression": "RawFormulaVal", "classes": "Probability", "counts": "Exponent"}
    return Forecast(model.predict(pool(data.test), prediction_type=how[data.kind]))


def gp_boost(data: Data) -> Forecast:
    """Boosted trees and a random intercept; each class against the rest if there are several."""
    if data.n_classes <= 2:
        if data.kind == "regression":  # its steps, and whether it ends in NaN, depend on the units
            center, scale = data.train.y.mean(), data.train.y.std()
            found = _gp_boost(data, (data.train.y - center) / scale)
            mean, sd = center + scale * found["response_mean"], scale * found["response_var"] ** 0.5
            return Forecast(mean, normal_intervals(mean, sd))
        mean = _gp_boost(data, data.train.y)["response_mean"]
        return Forecast(np.column_stack([1 - mean, mean]) if data.n_classes else mean)
    each = [_gp_boost(data, data.train.y == c)["response_mean"] for c in range(data.n_classes)]
    return Forecast(np.transpose(each) / np.sum(each, axis=0)[:, None])


def _gp_boost(data: Data, y: NDArray) -> dict[str, Array]:
    # A plain gradient step is too large where the noise is small, or where counts are large, whose
    # curvature is their mean; Newton's step is there for regression only.
    rate = RATE / max(1.0, y.mean()) if data.kind == "counts" else RATE
    fixed = {"learning_rate": rate, "num_threads": 1, "verbosity": -1, "seed": 0}
    fixed["leaves_newton_update"] = data.kind == "regression"
    settings = [
        fixed | {"num_leaves": leaves, "min_data_in_leaf": rows}
        for leaves, rows in ((7, 5), (15, 20))
    ]
    train = replace(data.train, y=y.astype(float))

    def intercept(rows: Rows) -> gpb.GPModel:
        likelihood = LIKELIHOODS[data.kind]
        return gpb.GPModel(likelihood=likelihood, group_data=rows.tasks, num_parallel_threads=1)

    def trial(setting: dict[str, Any], inner: Rows, held_out: Rows) -> tuple[float, int]:
        random = intercept(inner)
        random.set_prediction_data(group_data_pred=held_out.tasks)
        sets = [gpb.Dataset(rows.matrix, rows.y) for rows in (inner, held_out)]
        sets[1].reference = sets[0]
        history: dict[str, Any] = {}
        model = gpb.train(
            setting,
            sets[0],
            MOST_TREES,
            gp_model=random,
            valid_sets=sets[1],
            early_stopping_rounds=PATIENCE,
            evals_result=history,
            verbose_eval=False,
        )
        losses = next(iter(next(iter(history.values())).values()))
        return min(losses), model.best_iteration

    setting, n_trees = chosen(train, settings, trial)
    model = gpb.train(
        setting, gpb.Dataset(train.matrix, train.y), n_trees, gp_model=intercept(train)
    )
    return model.predict(
        data=data.test.matrix,
        group_data_pred=data.test.tasks,
        predict_var=data.kind == "regression",
        pred_latent=False,
    )


def auto_gluon(data: Data) -> Forecast:
    """Stacked models of many kinds, on one core within a minute."""
    from autogluon.tabular import TabularPredictor  # a dependency group of its own

    kind = "regression" if not data.n_classes else "binary" if data.n_classes == 2 else "multiclass"
    metric = "log_loss" if data.n_classes else "root_mean_squared_error"
    start = time.time() - time.process_time()  # its limit is one of processor time, too
    clock = patch.object(time, "time", lambda: start + time.process_time())
    with TemporaryDirectory() as folder, clock:
        model = TabularPredictor(
            TARGET, problem_type=kind, eval_metric=metric, path=folder, verbosity=0
        )
        model.fit(
            data.train.with_task().assign(**{TARGET: data.train.y}),
            time_limit=AUTO_GLUON_SECONDS,
            presets="good_quality",
            dynamic_stacking=False,
            num_cpus=1,
            num_gpus=0,
            ag_args_ensemble={"fold_fitting_strategy": "sequential_local"},
        )
        if not data.n_classes:
            return Forecast(model.predict(data.test.with_task()).to_numpy(dtype=float))
        shares = model.predict_proba(data.test.with_task())
        return Forecast(shares.reindex(columns=range(data.n_classes), fill_value=0.0).to_numpy())
