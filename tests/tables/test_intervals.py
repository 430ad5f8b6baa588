"""Intervals and standard deviations that follow the size of the prediction."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtri

from crosslearning.convex.predict import HeldOut, Residuals, calibrated, weighted_quantiles
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
    residuals = Residuals.of(HeldOut(mean + mean * errors, mean, np.full(4000, 2.0)), 16)
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
    parts = [HeldOut(m + e, m, np.ones(60)) for m, e in zip(mean, y, strict=True)]
    residuals, coverage = calibrated(parts, -np.inf)
    assert len(residuals.errors) == 1
    lower, upper = residuals.ends(np.zeros(1), np.ones(1), np.ones(1, dtype=bool), 0.9)
    np.testing.assert_allclose(-lower, upper)
    np.testing.assert_allclose(upper, ndtri(0.95), rtol=0.15)
    for point in coverage:
        assert point.observed == pytest.approx(point.nominal, abs=0.05)


def test_equal_predictions_stay_together():
    mean = np.repeat([1.0, 2.0, 2.0, 2.0], 100)
    residuals = Residuals.of(HeldOut(mean + 1.0, mean, np.ones(400)), 8)
    assert residuals.predictions.tolist() == [1.0, 2.0]
    assert [len(errors) for errors in residuals.errors] == [100, 300]


def held_out(rng, n, *, weights):
    y, means = rng.normal(size=(2, n)) * rng.uniform(0.5, 3.0, n)
    return HeldOut(y, means, rng.uniform(0.5, 2.0, n), weights)


def repeated(part):
    times = part.weights.astype(int)
    return HeldOut(*(np.repeat(values, times) for values in part[:3]))


def check_same(found, expected):
    np.testing.assert_allclose(found.predictions, expected.predictions, rtol=1e-12)
    np.testing.assert_allclose(found.sds, expected.sds, rtol=1e-12)
    mean, sd = np.linspace(-4.0, 4.0, 30), np.linspace(0.5, 3.0, 30)
    for known in (np.full(30, True), np.full(30, False)):
        std = [one.std(mean, sd, known) for one in (found, expected)]
        np.testing.assert_allclose(*std, rtol=1e-12)
        for coverage in (0.5, 0.9, 0.99):
            ends = [one.ends(mean, sd, known, coverage) for one in (found, expected)]
            np.testing.assert_allclose(*ends, rtol=1e-11)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("n_groups", [1, 4])
def test_weights_count_rows_of_intervals(n_groups, symmetric):
    rng = np.random.default_rng(n_groups)
    part = held_out(rng, 300, weights=rng.integers(1, 6, 300).astype(float))
    check_same(
        Residuals.of(part, n_groups, symmetric=symmetric),
        Residuals.of(repeated(part), n_groups, symmetric=symmetric),
    )


@pytest.mark.parametrize("seed", range(3))
def test_weights_count_rows_of_calibration(seed):
    rng = np.random.default_rng(seed)
    parts = [held_out(rng, n, weights=1.0 + rng.poisson(1.0, n)) for n in (60, 150, 200)]
    found, coverage = calibrated(parts, -2.0)
    expected, again = calibrated([repeated(part) for part in parts], -2.0)
    check_same(found, expected)
    observed = [[point.observed for point in points] for points in (coverage, again)]
    np.testing.assert_allclose(*observed, rtol=1e-12)


def test_weights_of_one_change_nothing_and_small_ones_are_relative():
    rng = np.random.default_rng(0)
    plain = [held_out(rng, n, weights=None) for n in (150, 250)]
    for weight in (1.0, 1 / 400):
        equal = [part._replace(weights=np.full(len(part.y), weight)) for part in plain]
        check_same(calibrated(equal, -2.0)[0], calibrated(plain, -2.0)[0])


@pytest.mark.parametrize("seed", range(5))
def test_weighted_quantiles(seed):
    rng = np.random.default_rng(seed)
    values, levels = rng.normal(size=40), np.linspace(0.0, 1.0, 41)
    weights = rng.uniform(0.2, 3.0, 40)
    found = weighted_quantiles(values, weights, levels)
    assert (np.diff(found) >= 0).all()
    mirrored = -weighted_quantiles(-values, weights, 1.0 - levels)
    np.testing.assert_allclose(mirrored, found, atol=1e-12)
    total = weights.sum() + 1.0
    for level, quantile in zip(levels, found, strict=True):
        assert weights[values < quantile].sum() <= level * total + 0.5
        assert weights[values > quantile].sum() <= (1.0 - level) * total + 0.5


def heavy(rows=600, seed=0):
    """One row in ten has large errors, and a weight of 5."""
    rng = np.random.default_rng(seed)
    noisy = rng.random(rows) < 0.1
    x, task = rng.normal(size=rows), np.arange(rows) % 6
    y = x + task / 6 + rng.normal(size=rows) * np.where(noisy, 4.0, 0.5)
    return pd.DataFrame({"x": x, "g": task, "y": y, "w": np.where(noisy, 5.0, 1.0)})


@pytest.mark.parametrize("base", ["linear", "boosting"])
def test_intervals_cover_their_share_of_all_weight(base):
    frame, other = heavy(1200), heavy(1200, seed=1)
    model = fit_table(frame, task="g", target="y", features=["x"], weights="w", base=base)
    predictions = model.predict(other)
    inside = other["y"].between(predictions["lower"], predictions["upper"])
    assert np.average(inside, weights=other["w"]) == pytest.approx(0.9, abs=0.04)
    squares = (other["y"] - predictions["prediction"]) ** 2 / predictions["std"] ** 2
    assert np.average(squares, weights=other["w"]) == pytest.approx(1.0, abs=0.3)
    for point in model.findings.calibration:
        assert point.observed == pytest.approx(point.nominal, abs=0.03)


@pytest.mark.usefixtures("little_room")
def test_intervals_of_chunks_are_weighted_too(tmp_path):
    frame, other = heavy(1200), heavy(1200, seed=1)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    given = {"task": "g", "target": "y", "features": ["x"], "weights": "w", "family": "gaussian"}
    model = fit_files(tmp_path / "rows.csv", **given)
    predictions = model.predict(other)
    inside = other["y"].between(predictions["lower"], predictions["upper"])
    assert np.average(inside, weights=other["w"]) == pytest.approx(0.9, abs=0.04)
    model.save(tmp_path / "model")
    again = TableModel.load(tmp_path / "model").predict(other)
    pd.testing.assert_frame_equal(again, predictions)
