"""What is compared. A method is one line: for each kind of table an estimator or a function.

An estimator has ``fit(X, y, tasks=…)`` and ``predict(X, tasks=…)`` (``predict_proba`` for classes);
its ``predict_interval(X, tasks=…, coverage=…)``, if it has one, enters the table of coverages.
A function takes :class:`accuracy_tables.Data` and returns :class:`accuracy_tables.Forecast`.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
from accuracy_boosting import auto_gluon, cat_boost, gp_boost, hist_gradient_boosting, lightgbm
from accuracy_linear import (
    N_SLOPES,
    SHARES,
    generalised_mixed_model,
    mixed_model,
    penalised,
    plain,
    with_dummies,
    with_interactions,
)
from accuracy_tables import COVERAGES, Data, Forecast
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone

from crosslearning.linear import (
    CrossBayesianGLM,
    CrossBayesianLogisticRegression,
    CrossBayesianRidge,
    CrossLogisticRegressionCV,
    CrossRidgeCV,
    CrossStackingClassifier,
    CrossStackingRegressor,
)
from crosslearning.tables import fit_table

if TYPE_CHECKING:
    from collections.abc import Callable

    Method = dict[str, Any]  # by kind of table


def everywhere(function: Callable[[Data], Forecast]) -> Method:
    return dict.fromkeys(("regression", "classes", "counts"), function)


def mixed(n_slopes: int) -> Method:
    general = partial(generalised_mixed_model, n_slopes=n_slopes)
    return everywhere(general) | {"regression": partial(mixed_model, n_slopes=n_slopes)}


def tethered(**parameters: Any) -> Method:
    pair = {"regression": CrossRidgeCV, "classes": CrossLogisticRegressionCV}
    return {kind: estimator(n_epsilons=12, **parameters) for kind, estimator in pair.items()}


def evidence(**parameters: Any) -> Method:
    return {
        "regression": CrossBayesianRidge(**parameters),
        "classes": CrossBayesianLogisticRegression(**parameters),
        "counts": CrossBayesianGLM("poisson", **parameters),
    }


class Conformal(MetaEstimatorMixin, BaseEstimator):
    """A model with its conformal intervals."""

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: Any, y: Any, tasks: Any) -> Conformal:
        self.fitted_ = clone(self.estimator).fit(X, y, tasks=tasks)
        return self

    def predict(self, X: Any, tasks: Any) -> Any:
        return self.fitted_.predict(X, tasks=tasks)

    def predict_interval(self, X: Any, tasks: Any, coverage: float) -> Any:
        return self.fitted_.predict_interval(X, tasks=tasks, coverage=coverage, method="conformal")


def stacked(**parameters: Any) -> Method:
    counts = CrossBayesianGLM("poisson")
    return {
        "regression": CrossStackingRegressor(**parameters),
        "classes": CrossStackingClassifier(**parameters),
        "counts": CrossStackingRegressor(final_estimator=counts, **parameters),
    }


def fit(data: Data) -> Forecast:
    """What ``crosslearning fit`` makes of the table as it is, the task among its columns."""
    metric = {"counts": "poisson-deviance"}.get(data.kind)
    kind = "classification" if data.n_classes else "regression"
    train, test = (
        rows.features.assign(
            **{TASK: rows.tasks, TARGET: data.labels[rows.y] if data.n_classes else rows.y}
        )
        for rows in (data.train, data.test)
    )
    # Its budget is that of the others, processor time, whatever else the machine does.
    with patch.object(time, "monotonic", time.process_time):
        model = fit_table(
            train, task=TASK, target=TARGET, kind=kind, metric=metric, time_budget=SECONDS
        )
    test = test.drop(columns=TARGET)
    predictions = model.predict(test)
    if data.n_classes:
        shares = np.zeros((len(test), data.n_classes))
        places = [data.labels.tolist().index(label) for label in model.classes]
        shares[:, places] = predictions.filter(like="probability_")
        return Forecast(shares)
    intervals = {}
    for share in COVERAGES:
        of_share = model.predict(test, coverage=share)
        intervals[share] = of_share["lower"].to_numpy(), of_share["upper"].to_numpy()
    return Forecast(predictions["prediction"].to_numpy(), intervals)


def separate(data: Data) -> Forecast:
    kind = CrossLogisticRegressionCV if data.n_classes else CrossRidgeCV
    strengths = SHARES * len(data.train)
    return predicted(kind(epsilons=[np.inf], alphas=strengths, metric="standard"), data)


PEERS: dict[str, Method] = {
    "separate": everywhere(separate) | {"counts": partial(penalised, design=with_interactions)},
    "pooled": everywhere(partial(penalised, design=plain)),
    "pooled, task dummies": everywhere(partial(penalised, design=with_dummies)),
    "mixed, intercept": mixed(0),
    "mixed, slopes": mixed(N_SLOPES),
    "HistGradientBoosting": everywhere(hist_gradient_boosting),
    "LightGBM": everywhere(lightgbm),
    "CatBoost": everywhere(cat_boost),
    "GPBoost": everywhere(gp_boost),
    "AutoGluon": everywhere(auto_gluon),
    "ARMUL": tethered(tether="tension", metric="standard"),
}
OURS: dict[str, Method] = {
    "evidence": evidence(),
    "evidence, conformal": {
        kind: Conformal(model) for kind, model in evidence().items() if kind != "classes"
    },
    "evidence, Student": {"regression": CrossBayesianGLM("student")},
    "ball, learned metric": tethered(),
    "auto, learned metric": tethered(tether="auto"),
    "ball": tethered(metric="standard"),
    "splines, evidence": stacked(estimators=[], splines=True),
    "stacked boosting, evidence": stacked(),
    "splines + boosting, evidence": stacked(splines=True),
    "fit": everywhere(fit),
}
METHODS = PEERS | OURS
SECONDS = 60  # of CPU time for a fit
TASK, TARGET = "the task", "the target"
WITH_INTERVALS = (
    "mixed, intercept",
    "mixed, slopes",
    "GPBoost",
    "fit",
)  # and estimators with the method


def gives_intervals(name: str, kind: str) -> bool:
    method = METHODS[name].get(kind)
    return hasattr(method, "predict_interval") or (kind == "regression" and name in WITH_INTERVALS)


def run(name: str, data: Data) -> Forecast:
    method = METHODS[name][data.kind]
    return predicted(clone(method), data) if hasattr(method, "fit") else method(data)


def predicted(model: Any, data: Data) -> Forecast:
    model.fit(data.train.matrix, data.train.y, tasks=data.train.tasks)
    where = {"X": data.test.matrix, "tasks": data.test.tasks}
    mean = (model.predict_proba if data.n_classes else model.predict)(**where)
    if not hasattr(model, "predict_interval"):
        return Forecast(mean)
    intervals = {share: model.predict_interval(**where, coverage=share) for share in COVERAGES}
    return Forecast(mean, intervals)
