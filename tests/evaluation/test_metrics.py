"""Metrics by task: areas under the curve are those of scikit-learn, and others can be added."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from crosslearning.evaluation.metrics import METRICS, Metric, Predictions
from crosslearning.tables import fit_table
from tests.support.tables import shops


def predicted(seed, names, *, n=600, n_tasks=9):
    """Classes, probabilities with ties, weights of which some are 0, and tasks."""
    rng, classes = np.random.default_rng(seed), np.array(list(names))
    shares = np.round(rng.dirichlet(np.ones(len(names)), n), 1)
    shares[:, -1] = 1.0 - shares[:, :-1].sum(axis=1)
    y = classes[rng.integers(len(names), size=n)]
    weights, codes = rng.uniform(size=n) * rng.integers(0, 3, n), rng.integers(n_tasks, size=n)
    return y, Predictions.of(shares, classes), weights, codes, n_tasks


def area(y, shares, classes, weights):
    """Of two classes that of the second; of several the mean over all, each against the rest."""
    which = [1] if len(classes) == 2 else range(len(classes))
    each = [roc_auc_score(y == classes[k], shares[:, k], sample_weight=weights) for k in which]
    return np.mean(each)


@pytest.mark.parametrize("names", ["ab", "abc", "abcd"])
@pytest.mark.parametrize("seed", range(3))
def test_areas_are_those_of_every_task(seed, names):
    y, predictions, weights, codes, n_tasks = predicted(seed, names)
    shares, classes = predictions.shares, predictions.classes
    for rows in (weights, np.ones(len(y))):
        found, totals = METRICS["auc"].of_tasks(y, predictions, rows, codes, n_tasks)
        tasks = [codes == task for task in range(n_tasks)]
        expected = [area(y[t], shares[t], classes, rows[t]) for t in tasks]
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        np.testing.assert_allclose(totals, [rows[t].sum() for t in tasks])
    if len(names) > 2:
        whole = roc_auc_score(y, shares, multi_class="ovr", sample_weight=weights)
        once = METRICS["auc"].of_tasks(y, predictions, weights, 0 * codes, 1)[0]
        assert once[0] == pytest.approx(whole)


@pytest.mark.parametrize("names", ["ab", "abc"])
def test_weights_count_rows_of_areas(names):
    y, predictions, weights, codes, n_tasks = predicted(0, names)
    times = np.ceil(weights).astype(int)
    again = np.repeat(np.arange(len(y)), times)
    other = Predictions.of(predictions.shares[again], predictions.classes)
    auc = METRICS["auc"]
    found = auc.of_tasks(y, predictions, times.astype(float), codes, n_tasks)
    expected = auc.of_tasks(y[again], other, np.ones(len(again)), codes[again], n_tasks)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_a_task_with_rows_of_one_class_has_no_area():
    y, shares = np.array(list("aabbabab")), np.linspace(0.1, 0.9, 8)
    predictions = Predictions.of(np.column_stack([1.0 - shares, shares]), np.array(["a", "b"]))
    codes, weights = np.array([0, 0, 2, 2, 3, 3, 4, 4]), np.array([1, 1, 1, 1, 1, 1, 1, 0.0])
    found, totals = METRICS["auc"].of_tasks(y, predictions, weights, codes, 6)
    np.testing.assert_array_equal(found, [np.nan, np.nan, np.nan, 1.0, np.nan, np.nan])
    assert totals.tolist() == [2.0, 0.0, 2.0, 2.0, 1.0, 0.0]


def medians(y, predictions, weights, codes, n_tasks):
    """Medians of absolute errors, without weights."""
    means, *_ = predictions
    scores = (
        pd.Series(-np.abs(y - means)).groupby(codes).median().reindex(range(n_tasks)).to_numpy()
    )
    return scores, np.bincount(codes, weights, n_tasks).astype(float)


def test_a_metric_of_tasks_is_one_entry(monkeypatch):
    metric = Metric("medae", "median absolute error", "regression", medians)
    monkeypatch.setitem(METRICS, "mae", replace(metric, name="mae"))  # a name that is an option
    frame = shops()
    given = {"task": "shop", "target": "sales", "family": "gaussian", "base": "linear", "folds": 2}
    model = fit_table(frame, **given, metric="mae", held_out=frame)
    errors = (frame["sales"] - model.predict(frame)["prediction"]).abs()
    assert model.results["score"]["name"] == "median absolute error"
    assert model.results["holdout"]["score"] == pytest.approx(
        errors.groupby(frame["shop"]).median().mean()
    )


@pytest.mark.parametrize("metric", ["log-loss", "accuracy", "auc"])
def test_rows_without_weight_are_not_scored(metric):
    rng, n = np.random.default_rng(0), 400
    frame = shops(n)[["shop", "price"]].fillna(0.0).assign(w=1.0, fold=np.arange(n) // 4 % 3)
    much = frame["price"] + rng.normal(size=n) > 0
    frame["sold"] = np.where(much, "much", "little")
    other = frame.assign(w=0.0, sold=np.where(much, "little", "much"))
    given = {"task": "shop", "target": "sold", "features": ["price"], "weights": "w"}
    given |= {"base": "linear", "metric": metric, "group": "fold"}
    alone, both = (
        [row["score"] for row in fit_table(table, **given).results["models"]]
        for table in (frame, pd.concat([frame, other], ignore_index=True))
    )
    assert both == pytest.approx(alone, abs=1e-4)
