"""Intervals and standard deviations that follow the size of the prediction."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtri

from crosslearning.convex.predict import Residuals, calibrated
from crosslearning.tables import TableModel, fit_files, fit_table

TRAINED = 2_400


def prices(rng, n=8_400, tasks=12):
    """Amounts with errors in proportion, of which a plane has negative values."""
    size, shop = rng.gamma(2.0, size=n), np.arange(n) % tasks
    level = rng.normal(scale=0.3, size=tasks)[shop]
    y = np.exp(0.7 * size + level + rng.normal(scale=0.35, size=n))
    return pd.DataFrame({"size": size, "y": np.minimum(y, 60.0), "shop": shop})


def counts(rng, n=8_400, tasks=12):
    """Counts whose variance grows faster than their mean."""
    x, shop = rng.normal(size=n), np.arange(n) % tasks
    rate = np.exp(2.0 + 0.5 * x + rng.normal(scale=0.3, size=tasks)[shop])
    return pd.DataFrame(
        {"x": x, "y": rng.poisson(rate * rng.gamma(4.0, 0.25, size=n)), "shop": shop}
    )


@pytest.fixture(scope="module", params=[prices, counts])
def fit(request):
    frame = request.param(np.random.default_rng(0))
    family = {prices: "gamma", counts: "poisson"}[request.param]
    given = {"task": "shop", "target": "y", "base": "linear", "family": family, "folds": 3}
    model = fit_table(frame.head(TRAINED), **given)
    return model, frame.iloc[TRAINED:]


def terciles(predictions):
    return np.array_split(np.argsort(predictions["prediction"].to_numpy(), kind="stable"), 3)


def test_intervals_hold_for_small_and_for_large_predictions(fit):
    model, new = fit
    for coverage in (0.8, 0.9):
        predictions, y = model.predict(new, coverage=coverage), new["y"].to_numpy()
        inside = (predictions["lower"] <= y) & (y <= predictions["upper"])
        for rows in terciles(predictions):
            assert inside.iloc[rows].mean() == pytest.approx(coverage, abs=0.05)


def test_errors_of_some_of_very_many_rows_are_enough(monkeypatch):
    monkeypatch.setattr("crosslearning.tables.checks._MOST_ERRORS", 1_200)
    frame = prices(np.random.default_rng(0))
    options = {"task": "shop", "target": "y", "family": "gaussian", "base": "linear"}
    model, new = fit_table(frame.head(TRAINED), **options), frame.iloc[TRAINED:]
    assert sum(map(len, model.residuals.errors)) == 1_200
    predictions = model.predict(new)
    inside = new["y"].between(predictions["lower"], predictions["upper"])
    assert inside.mean() == pytest.approx(0.9, abs=0.05)


@pytest.mark.usefixtures("little_room")
def test_intervals_of_chunks_follow_the_prediction_too(tmp_path):
    frame = prices(np.random.default_rng(0))
    frame.head(TRAINED).to_csv(tmp_path / "prices.csv", index=False)
    model = fit_files(tmp_path / "prices.csv", task="shop", target="y", family="gaussian")
    new = frame.iloc[TRAINED:]
    predictions = model.predict(new)
    inside = new["y"].between(predictions["lower"], predictions["upper"])
    for rows in terciles(predictions):
        assert inside.iloc[rows].mean() == pytest.approx(0.9, abs=0.05)


def test_what_is_never_negative_is_not_predicted_to_be(fit):
    model, new = fit
    far = new.assign(**{new.columns[0]: new.iloc[:, 0] - 3.0, "shop": 99})
    for frame in (new, far):
        predictions = model.predict(frame)
        assert (predictions[["prediction", "lower"]] >= 0).all(axis=None)
        assert (predictions["lower"] <= predictions["upper"]).all()


def test_the_standard_deviation_is_that_of_the_errors_and_agrees_with_the_interval(fit, tmp_path):
    model, new = fit
    model.save(tmp_path / "model")
    predictions = TableModel.load(tmp_path / "model").predict(new)
    pd.testing.assert_frame_equal(predictions, model.predict(new))
    errors = (new["y"] - predictions["prediction"]) / predictions["std"]
    for rows in terciles(predictions):
        assert np.sqrt(np.mean(errors.iloc[rows] ** 2)) == pytest.approx(1.0, abs=0.15)
    width = (predictions["upper"] - predictions["lower"]) / (2.0 * ndtri(0.95))
    large = terciles(predictions)[-1]  # where an interval does not end at 0
    assert np.median(width.iloc[large] / predictions["std"].iloc[large]) == pytest.approx(
        1, abs=0.1
    )


def test_a_new_task_adds_its_own_deviation():
    rng = np.random.default_rng(1)
    mean, errors = rng.uniform(1.0, 10.0, 4000), rng.normal(size=4000)
    residuals = Residuals.of(mean + mean * errors, mean, np.full(4000, 2.0), 16)
    at, known = np.array([2.0, 8.0]), np.array([True, True])
    np.testing.assert_allclose(residuals.std(at, np.full(2, 2.0), known), at, rtol=0.1)
    new = residuals.std(at, np.full(2, np.hypot(2.0, 3.0)), ~known)
    np.testing.assert_allclose(new, np.hypot(at, 3.0), rtol=0.1)
    lower, upper = residuals.ends(at, np.full(2, np.hypot(2.0, 3.0)), ~known, 0.9)
    np.testing.assert_allclose(upper - at, ndtri(0.95) * new, rtol=0.12)
    np.testing.assert_allclose(at - lower, ndtri(0.95) * new, rtol=0.12)


def test_errors_of_one_size_are_one_group():
    rng = np.random.default_rng(0)
    mean, y = rng.normal(size=(2, 5, 60))
    parts = [(m + e, m, np.ones(60)) for m, e in zip(mean, y, strict=True)]
    residuals, coverage = calibrated(parts, -np.inf)
    assert len(residuals.errors) == 1
    lower, upper = residuals.ends(np.zeros(1), np.ones(1), np.ones(1, dtype=bool), 0.9)
    np.testing.assert_allclose(-lower, upper)
    np.testing.assert_allclose(upper, ndtri(0.95), rtol=0.15)
    for point in coverage:
        assert point.observed == pytest.approx(point.nominal, abs=0.05)


def test_equal_predictions_stay_together():
    mean = np.repeat([1.0, 2.0, 2.0, 2.0], 100)
    residuals = Residuals.of(mean + 1.0, mean, np.ones(400), 8)
    assert residuals.predictions.tolist() == [1.0, 2.0]
    assert [len(errors) for errors in residuals.errors] == [100, 300]
