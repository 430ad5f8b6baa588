"""The contract of the Bayesian estimators: scikit-learn, labels, files, errors."""

import pickle
from functools import cache

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import crosslearning
from crosslearning.linear import (
    CrossBayesianGLM,
    CrossBayesianLogisticRegression,
    CrossBayesianRidge,
)
from tests.support.linear_laws import random_data

WEIGHTS = "check_sample_weight_equivalence_on_dense_data"
MODELS = {
    "ridge": (CrossBayesianRidge(), 0),
    "bounded ridge": (CrossBayesianRidge(epsilon=0.7, covariance="full"), 0),
    "binary": (CrossBayesianLogisticRegression(epsilon=1.0), 2),
    "multinomial": (CrossBayesianLogisticRegression(covariance="block", blocks=list("aba")), 3),
    "student": (CrossBayesianGLM("student", epsilon=1.0), 0),
    "quantile": (CrossBayesianGLM("quantile", quantile=0.7, covariance="block"), 0),
    "gaussian": (CrossBayesianGLM(covariance="block", blocks=[0, 0, 1], epsilon=1.0), 0),
}
models = pytest.mark.parametrize(("model", "classes"), MODELS.values(), ids=MODELS.keys())


def expected_failures(estimator):
    if isinstance(estimator, CrossBayesianLogisticRegression):
        return {}
    return {WEIGHTS: "weights are precisions: two rows know more of the noise than one of weight 2"}


@pytest.mark.filterwarnings("ignore:`fit` got no `tasks`")  # the checks have none
@parametrize_with_checks(
    [
        CrossBayesianRidge(),
        CrossBayesianLogisticRegression(),
        CrossBayesianGLM("student", covariance="block"),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def data_for(classes, seed=0, sizes=(20, 15, 12, 14)):
    return random_data(seed, sizes, 3, classes)


@cache
def fitted_to(model, classes):
    """The model fitted to its data, once for all tests that leave it unchanged."""
    return data_for(classes).fitted(clone(model))


@models
def test_routing(model, classes):
    data = data_for(classes)
    with sklearn.config_context(enable_metadata_routing=True):
        asking = clone(model).set_fit_request(tasks=True, sample_weight=True)
        asking.set_score_request(tasks=True, sample_weight=True)
        pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), asking)
        results = cross_validate(
            pipeline,
            data.X,
            data.y,
            params={"tasks": data.tasks, "sample_weight": np.ones(len(data.y))},
            cv=KFold(2, shuffle=True, random_state=0),
            return_estimator=True,
            error_score="raise",
        )
    assert all(len(fitted[-1].tasks_) == 4 for fitted in results["estimator"])


@models
def test_task_column_and_clone(model, classes):
    data = data_for(classes)
    frame = pd.DataFrame(data.X, columns=["a", "b", "c"]).assign(school=data.tasks)
    bounded = np.isfinite(model.epsilon)
    grid = {"epsilon": [0.5, np.inf]} if bounded else {"standardize": [True, False]}
    search = GridSearchCV(clone(model).set_params(task_column="school"), grid, cv=2)
    search.fit(frame, data.y)
    best = search.best_estimator_
    direct = clone(model).set_params(**search.best_params_)
    direct.fit(frame[["a", "b", "c"]], data.y, tasks=data.tasks)
    assert best.feature_names_in_.tolist() == ["a", "b", "c"]
    assert np.array_equal(best.coef_, direct.coef_)


@models
def test_copies_and_files(model, classes, tmp_path):
    data, fitted = data_for(classes), fitted_to(model, classes)
    fitted.save(tmp_path / "model")
    method = "predict_proba" if classes else "predict"
    expected = getattr(fitted, method)(data.X, tasks=data.tasks)
    for copy in (pickle.loads(pickle.dumps(fitted)), type(model).load(tmp_path / "model")):
        assert np.array_equal(getattr(copy, method)(data.X, tasks=data.tasks), expected)
        new = copy.fit_task(data.X[:9], data.y[:9])
        np.testing.assert_allclose(new.coef_, fitted.fit_task(data.X[:9], data.y[:9]).coef_)
        if not classes and fitted.calibration_.size:
            for how in ("evidence", "conformal"):
                np.testing.assert_array_equal(
                    copy.predict_interval(data.X, tasks=data.tasks, method=how),
                    fitted.predict_interval(data.X, tasks=data.tasks, method=how),
                )


@models
def test_attributes(model, classes):
    data, fitted = data_for(classes), fitted_to(model, classes)
    assert fitted.kkt_residual_ <= 1e-8
    assert fitted.coef_sd_.shape == fitted.coef_.shape
    assert fitted.task_sd_.shape == fitted.center_coef_.shape
    assert np.shape(fitted.task_intercept_sd_) == np.shape(fitted.center_intercept_)
    assert fitted.distances_.max() <= fitted.epsilon_ * (1 + 1e-12)
    assert fitted.structure_ in ("block", "diagonal", "full")
    assert np.isfinite(fitted.log_evidence_)
    assert fitted.score(data.X, data.y, tasks=data.tasks) > 0.3


def test_names_are_at_the_top():
    for name in ("CrossBayesianRidge", "CrossBayesianLogisticRegression", "CrossBayesianGLM"):
        assert getattr(crosslearning, name) is getattr(crosslearning.linear, name)


def test_errors():
    data = data_for(0)
    with pytest.raises(NotFittedError):
        CrossBayesianRidge().predict(data.X)
    with pytest.raises(ValueError, match="epsilon"):
        data.fitted(CrossBayesianRidge(epsilon=-1.0))
    with pytest.raises(ValueError, match="label for each of the 3 features"):
        data.fitted(CrossBayesianRidge(blocks=["a", "b"]))
    model = data.fitted(CrossBayesianRidge())
    with pytest.raises(ValueError, match="coverage"):
        model.predict_interval(data.X, tasks=data.tasks, coverage=90)
    with pytest.raises(ValueError, match="method"):
        model.predict_interval(data.X, tasks=data.tasks, method="bootstrap")
    with pytest.raises(ValueError, match="sample_offset"):
        CrossBayesianGLM().fit(data.X, data.y, data.tasks, sample_offset=np.zeros(3))
    with pytest.raises(ValueError, match="at least 0"):
        data.fitted(CrossBayesianGLM("poisson"))
