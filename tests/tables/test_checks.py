"""What the page says of predictions: effects of columns, and whether intervals hold."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from crosslearning.archive import to_json
from crosslearning.evaluation.scores import reliability
from crosslearning.tables import fit_table
from crosslearning.tables.checks import _reliability
from crosslearning.tables.describe import effects
from crosslearning.tables.rows import Rows
from tests.support.tables import shops


def with_classes():
    frame, rng = shops(80, tasks=2), np.random.default_rng(0)
    many = frame["price"].fillna(0) + rng.normal(size=80) > 0
    return frame.assign(sales=np.where(many, "many", "few"))


def with_counts():
    frame, rng = shops(200), np.random.default_rng(0)
    return frame.assign(sales=rng.poisson(np.exp(0.5 * frame["price"].fillna(0) + 1)))


FRAMES = {"numbers": shops, "classes": with_classes, "counts": with_counts}


@pytest.fixture(scope="module", params=FRAMES)
def fit(request):
    frame = FRAMES[request.param]()
    family = {"numbers": "gaussian", "counts": "poisson"}.get(request.param, "auto")
    given = {"task": "shop", "target": "sales", "folds": 2, "family": family}
    given |= {"base": "splines" if request.param == "numbers" else "linear"}
    return request.param, frame, fit_table(frame, **given)


def test_effects_are_averages_over_rows(fit):
    _, frame, model = fit
    found = {effect.feature: effect for effect in effects(model, frame)}
    assert set(found) == {"price", "kind"}
    column = "prediction" if model.classes is None else f"probability_{model.classes[-1]}"
    some = frame.iloc[np.linspace(0, len(frame) - 1, 40).astype(int)]
    for name, effect in found.items():
        labels = {None: effect.center, **dict(zip(effect.tasks, effect.lines, strict=True))}
        assert len(labels) == 1 + frame["shop"].nunique()
        for label, values in labels.items():
            tables = [some.assign(**{name: value, "shop": label}) for value in effect.grid]
            means = [model.predict(table)[column].mean() for table in tables]
            np.testing.assert_allclose(values, means, rtol=1e-9)
    low, high = frame["price"].quantile([0.025, 0.975])
    assert (found["price"].grid[0], found["price"].grid[-1]) == pytest.approx((low, high))
    assert found["kind"].grid[0] == frame["kind"].mode()[0]
    sizes = [np.ptp(effect.center) for effect in found.values()]
    assert sizes == sorted(sizes, reverse=True)


def test_effects_are_on_the_most_frequent_of_several_classes():
    frame = with_classes()
    frame.loc[frame.index % 5 == 0, "sales"] = "none"
    frame.loc[frame.index % 3 == 0, "sales"] = "few"
    assert frame["sales"].mode().tolist() == ["few"]
    model = fit_table(frame, task="shop", target="sales", base="linear", folds=2)
    for effect in effects(model, frame):
        assert effect.what == "probability of sales = few"
    some = frame.iloc[np.linspace(0, len(frame) - 1, 40).astype(int)]
    (effect,) = (one for one in effects(model, frame) if one.feature == "kind")
    tables = [some.assign(kind=value, shop=None) for value in effect.grid]
    means = [model.predict(table)["probability_few"].mean() for table in tables]
    np.testing.assert_allclose(effect.center, means, rtol=1e-9)


def test_few_values_are_taken_as_they_are_and_one_has_no_effect():
    frame = shops(200)
    frame["big"] = (np.arange(200) % 3 == 0).astype(float)
    frame["rare"] = (np.arange(200) == 7).astype(float)
    quick = {"base": "linear", "folds": 2, "family": "gaussian"}
    model = fit_table(frame, task="shop", target="sales", features=["big", "rare"], **quick)
    (effect,) = effects(model, frame)
    assert (effect.feature, effect.grid) == ("big", (0.0, 1.0))


def test_probabilities_and_counts_are_checked_on_held_out_rows(fit):
    kind, frame, model = fit
    found = model.results
    if kind == "classes":
        assert "calibration" not in found
        checked = found["reliability"]
        assert checked["class"] == "many"
        assert sum(row["count"] for row in checked["bins"]) == len(frame)
        share = sum(row["observed"] * row["count"] for row in checked["bins"]) / len(frame)
        assert share == pytest.approx((frame["sales"] == "many").mean())
    else:
        assert "reliability" not in found
        levels = [point["nominal"] for point in found["calibration"]]
        assert levels == [0.5, 0.8, 0.9, 0.95]
        for point in found["calibration"]:
            assert point["observed"] == pytest.approx(point["nominal"], abs=0.08)


def test_of_several_classes_the_predicted_one_is_checked():
    shares = np.array([[0.6, 0.3, 0.1], [0.2, 0.1, 0.7], [np.nan] * 3, [0.05, 0.75, 0.2]])
    y, classes = np.array(["a", "c", "a", "c"]), np.array(["a", "b", "c"])
    rows = Rows(np.zeros((4, 1)), y, np.zeros(4, dtype=int), 1, classes=classes)
    found = _reliability(rows, shares)
    assert found.class_ is None
    assert [(row.predicted, row.observed, row.count) for row in found.bins] == [
        (0.6, 1.0, 1),
        (0.725, 0.5, 2),
    ]


@pytest.mark.parametrize("names", ["ab", "abc"])
def test_weights_count_rows_of_reliability(names):
    rng, classes = np.random.default_rng(0), np.array(list(names))
    n, k = 200, len(names)
    shares, y = rng.dirichlet(np.ones(k), n), classes[rng.integers(k, size=n)]
    weights = rng.integers(0, 4, n).astype(float)
    rows = Rows(np.zeros((n, 1)), y, np.zeros(n, dtype=int), 1, classes=classes)
    again = np.repeat(np.arange(n), weights.astype(int))
    found, expected = (
        to_json(_reliability(some, of))
        for some, of in (
            (replace(rows, weights=weights), shares),
            (rows.take(again), shares[again]),
        )
    )
    assert found == expected
    small = to_json(_reliability(replace(rows, weights=np.full(n, 0.01)), shares))
    assert small == to_json(_reliability(rows, shares))


def test_rows_without_weight_are_not_checked():
    rng, n = np.random.default_rng(0), 400
    frame = shops(n)[["shop", "price"]].fillna(0.0).assign(w=1.0 + rng.poisson(1.0, n))
    frame["y"] = frame["price"] + rng.normal(size=n)
    frame["sold"] = np.where(frame["y"] > 0, "much", "little")
    other = frame.assign(w=0.0, y=100.0, sold=np.where(frame["y"] > 0, "little", "much"))
    quick = {"task": "shop", "features": ["price"], "weights": "w", "base": "linear"}
    for target in ("y", "sold"):
        given = {**quick, "target": target, "group": "fold"}
        folds = np.arange(n) // 4 % 5
        alone, both = (
            fit_table(table, **given)
            for table in (
                frame.assign(fold=folds),
                pd.concat([frame, other], ignore_index=True).assign(fold=np.tile(folds, 2)),
            )
        )
        for name in ("calibration", "reliability"):
            assert both.results.get(name) == alone.results.get(name)
        predictions = (model.predict(frame).select_dtypes("number") for model in (alone, both))
        np.testing.assert_allclose(*predictions, atol=1e-3)


def test_true_probabilities_are_reliable_and_others_are_not():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=20_000)
    happened = rng.uniform(size=20_000) < p
    good, bad = reliability(p, happened), reliability(np.sqrt(p), happened)
    assert good.off < 0.015 < 0.1 < bad.off
    inside = [row.low <= row.predicted <= row.high for row in good.bins]
    assert len(inside) == 10
    assert sum(inside) >= 9
    edge = reliability(np.array([0.0, 1.0]), np.array([False, True]))
    assert [row.observed for row in edge.bins] == [0.0, 1.0]


def test_tasks_do_not_differ_in_effects_of_columns_that_are_constant_within_them():
    frame = shops().assign(region=lambda f: f["shop"].map({"s0": "a", "s1": "a"}).fillna("b"))
    quick = {"base": "linear", "folds": 2, "family": "gaussian"}
    model = fit_table(frame, task="shop", target="sales", **quick)
    by_column = {effect.feature: effect for effect in model.findings.effects}
    assert by_column["region"].tasks == ()
    assert len(by_column["price"].tasks) == 4
