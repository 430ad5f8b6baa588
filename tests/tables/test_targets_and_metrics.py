"""Numbers, classes, counts and quantiles, the metrics of each, and where models are tested."""

import numpy as np
import pandas as pd
import pytest

from crosslearning.convex.families import REGISTRY
from crosslearning.frames.columns import time_values
from crosslearning.tables import TableModel, fit_table
from crosslearning.tables.settings import FAMILIES
from crosslearning.tasks.folds import Splits, divide, time_starts
from tests.support.tables import classes, shops


def guess_of_shares(frame):
    """Log loss, mean over shops, of the shares of the classes among the rows learned from."""
    y, codes = frame["sales"].to_numpy(), frame["shop"].str[1:].astype(int).to_numpy()
    losses = np.empty(len(frame))
    for train, test in divide(codes, 2, 0, classes=y).parts:
        shares = pd.Series(y[train]).value_counts(normalize=True)
        losses[test] = -np.log(shares[y[test]])
    return pd.Series(losses).groupby(codes).mean().mean()


def later(times):
    """Splits by time of rows of one task."""
    values = time_values(times)
    parts = np.searchsorted(time_starts(values, "time", 5), values, side="right")
    return Splits.of(parts, in_time=True)


def test_two_classes(binary):
    found = binary.results
    assert (found["target_kind"], found["estimator"]) == (
        "classification",
        "CrossBayesianLogisticRegression",
    )
    assert found["score"]["name"] == "log loss"
    assert found["score"]["baseline"] == pytest.approx(guess_of_shares(classes(["few", "many"])))
    assert [part["class"] for part in found["coefficients"]["predictors"]] == ["many"]
    assert found["score"]["error"] == "percent correct"
    assert 50 < found["models"][0]["error"] <= 100
    predicted = binary.predict(shops())
    assert list(predicted) == ["prediction", "probability_few", "probability_many"]
    np.testing.assert_allclose(predicted.iloc[:, 1:].sum(axis=1), 1)
    likely = np.where(predicted["probability_many"] > 0.5, "many", "few")
    assert predicted["prediction"].tolist() == likely.tolist()


def test_three_classes():
    frame = classes(["a", "b", "c"])
    given = {"task": "shop", "target": "sales", "features": ["price"], "folds": 2}
    found = fit_table(frame, **given, base="linear").results
    assert [part["class"] for part in found["coefficients"]["predictors"]] == ["a", "b", "c"]
    centers = [part["center"] for part in found["coefficients"]["predictors"]]
    np.testing.assert_allclose(np.sum(centers, axis=0), 0, atol=1e-9)


def test_counts_are_counts():
    frame = shops(60)
    rng = np.random.default_rng(0)
    frame["sales"] = rng.poisson(np.exp(0.5 * frame["price"].fillna(0)))
    given = {"task": "shop", "target": "sales", "features": ["price"], "base": "linear", "folds": 2}
    model = fit_table(frame, **given, time_budget=600.0)
    assert model.results["family"] == "poisson"
    names = {m["name"] for m in model.results["models"]}
    assert {"cross", "cross-poisson", "cross-negative-binomial"} <= names
    asked = fit_table(frame, **given, family="poisson")
    assert all("poisson" in m["name"] or m["name"] == "blend" for m in asked.results["models"])
    said = asked.predict(frame)
    assert (said["lower"] >= 0).all()
    assert (said["lower"] % 1 == 0).all()


@pytest.mark.parametrize(
    ("metric", "words"), [("mae", "mean absolute error"), ("gamma-deviance", "gamma deviance")]
)
def test_metrics_of_numbers(metric, words):
    frame = shops()
    frame["sales"] = np.exp(0.1 * frame["sales"])
    fast = {"base": "linear", "folds": 2, "features": ["price"]}
    found = fit_table(frame, task="shop", target="sales", metric=metric, **fast).results
    assert found["score"]["name"] == words
    assert found["models"][0]["score"] > 0


@pytest.mark.parametrize("metric", ["accuracy", "auc"])
def test_metrics_of_classes(metric):
    frame = classes(["few", "many"])
    fast = {"base": "linear", "folds": 2, "features": ["price"]}
    found = fit_table(frame, task="shop", target="sales", metric=metric, **fast).results
    assert found["score"]["greater_is_better"]
    scores = [model["score"] for model in found["models"]]
    assert scores == sorted(scores, reverse=True)
    assert 0.5 < scores[0] <= 1


def drifting():
    """A panel whose level moves on."""
    rng = np.random.default_rng(0)
    year, firm = np.repeat(np.arange(1980, 2000), 10), np.tile(np.arange(10), 20)
    walk = np.cumsum(rng.normal(size=(20, 10)), axis=0)
    return pd.DataFrame({"year": year, "firm": firm, "y": walk[year - 1980, firm]})


def test_time_is_noticed_and_can_be_respected(tmp_path):
    frame = drifting()
    given = {"task": "firm", "target": "y", "base": "linear", "family": "gaussian"}
    random = fit_table(frame, **given)
    assert any("column year looks like a time" in note for note in random.results["notes"])
    later = fit_table(frame, **given, time="year")
    assert not any("looks like a time" in note for note in later.results["notes"])
    words = "with a later year than the training rows, by at most 3"
    assert words in later.results["score"]["explanation"]
    assert later.results["horizon"] == {
        "column": "year",
        "date": False,
        "reach": "3",
        "until": 2002,
        "day_first": False,
    }
    new = frame.tail(10).assign(year=[1999, 2000, 2001, 2002] + [2003] * 6)
    later.save(tmp_path / "later")
    for model in (later, TableModel.load(tmp_path / "later")):
        assert model.untested(new) == (6, "year", "2002")
        assert model.untested(frame) is None
    assert random.untested(new) is None
    assert later.results["models"][0]["score"] > 1.5 * random.results["models"][0]["score"]


def test_splits_by_time_never_look_ahead():
    dates = pd.Series(pd.date_range("2020", periods=100)).dt.strftime("%d.%m.%Y").sample(frac=1)
    when = pd.to_datetime(dates, dayfirst=True).to_numpy()
    splits = later(dates)
    assert len(splits.parts) == 5
    for train, test in splits.parts:
        assert when[train].max() < when[test].min()
    assert sorted(np.concatenate([test for _, test in splits.parts])) == sorted(
        np.flatnonzero(when >= np.sort(when)[49])
    )


def test_groups_are_left_out_as_a_whole():
    group = pd.Series([f"g{i % 13}" for i in range(130)], name="team")
    splits = divide(np.arange(130) % 5, 5, 0, groups=group.to_numpy())
    for train, test in splits.parts:
        assert not set(group[train]) & set(group[test])
    assert sum(len(test) for _, test in splits.parts) == 130
    given = {"task": "shop", "target": "sales", "group": "team", "base": "linear"}
    given |= {"family": "gaussian", "features": ["price"]}
    found = fit_table(shops().assign(team=group[:120]), **given, folds=2)
    assert "team" not in found.encoder.columns
    assert "rows with a held-out team" in found.results["score"]["explanation"]


def test_rows_of_another_table_score_the_model():
    other = shops(80, 5, seed=1)
    given = {"task": "shop", "target": "sales", "base": "linear", "family": "gaussian", "folds": 2}
    alone, model = (fit_table(shops(), **given, held_out=table) for table in (None, other))
    found = model.results
    assert found["models"] == [
        row | {"seconds": again["seconds"]}
        for row, again in zip(alone.results["models"], found["models"], strict=True)
    ]
    said = model.predict(other)["prediction"]
    errors = ((other["sales"] - said) ** 2).groupby(other["shop"]).mean()
    assert found["holdout"]["rows"] == 80
    assert found["holdout"]["score"] == pytest.approx(errors.mean())


def test_a_held_out_table_is_weighted_if_it_has_the_weights():
    frame, other = shops().assign(w=1.0), shops(80, 5, seed=1)
    given = {"task": "shop", "target": "sales", "features": ["price"], "base": "linear", "folds": 2}
    given |= {"family": "gaussian", "time_budget": 1e-9}  # the first model alone
    weights = np.random.default_rng(0).uniform(size=80)
    plain, equal, weighted = (
        fit_table(frame, **given, weights="w", held_out=table)
        for table in (other, other.assign(w=3.0), other.assign(w=weights))
    )
    note = "the held-out table has no column w: its rows have equal weights"
    assert [note in model.results["notes"] for model in (plain, equal, weighted)] == [1, 0, 0]
    assert equal.results["holdout"]["score"] == pytest.approx(plain.results["holdout"]["score"])
    errors = weights * (other["sales"] - weighted.predict(other)["prediction"]) ** 2
    sums = pd.DataFrame({"e": errors, "w": weights}).groupby(other["shop"]).sum()
    holdout = weighted.results["holdout"]
    assert holdout == {"rows": 80, "score": pytest.approx((sums["e"] / sums["w"]).mean())}
    told, few = frame.assign(w=["1.000,5", "2.000,0"] * 60), {"3.125": 3.125, "20": 0.02}
    written, read = (
        fit_table(told, **given, weights="w", held_out=other.assign(w=list(values) * 40)).results
        for values in (few, few.values())
    )
    assert written["holdout"]["score"] == pytest.approx(read["holdout"]["score"])
    with pytest.raises(ValueError, match="weights in 'w' must be at least 0 in every row"):
        fit_table(frame, **given, weights="w", held_out=other.assign(w=-1.0))


def test_a_held_out_table_that_cannot_be_scored_is_named():
    frame = shops().assign(sold=lambda table: np.where(table["sales"] > 0, "much", "little"))
    given = {"task": "shop", "features": ["price"], "base": "linear", "folds": 2}
    given |= {"time_budget": 1e-9}  # the first model alone
    with pytest.raises(ValueError, match=r"squared error: it has 0.rows with a target. Hold"):
        fit_table(frame, **given, target="sales", held_out=frame.assign(sales=np.nan))
    with pytest.raises(ValueError, match=r"held-out table .* under the curve.* another metric"):
        fit_table(
            frame, **given, target="sold", metric="auc", held_out=frame[frame["sold"] == "much"]
        )


@pytest.mark.parametrize(
    ("target", "change", "message"),
    [
        ("sales", {"sales": "many"}, "must hold finite numbers; got 'many' in 120 rows"),
        ("sales", {"sales": np.nan}, r"has 0.rows with a target\. Hold out another table"),
        ("sales", {"w": -1.0}, "Held-out table: .*The weights in 'w' must be at least 0"),
        (
            "sold",
            {"sold": [None] + ["some"] * 119},
            "Held-out table: .*little, much; got .* 119 rows: 2, 3",
        ),
    ],
)
def test_a_held_out_table_is_refused_before_anything_is_fitted(target, change, message, tmp_path):
    frame = shops().assign(sold=lambda table: np.where(table["sales"] > 0, "much", "little"), w=1.0)
    other, steps = frame.assign(**change), []
    other.to_csv(tmp_path / "other.csv", index=False)
    for held_out in (other, tmp_path / "other.csv"):
        given = {"held_out": held_out, "progress": lambda step, _: steps.append(step)}
        with pytest.raises(ValueError, match=message):
            fit_table(frame, task="shop", target=target, features=["price"], weights="w", **given)
    assert set(steps) == {"Looking at the columns"}


def test_weights_count_rows():
    frame = shops().fillna({"price": 0.0, "kind": "tea"})
    given = {"task": "shop", "target": "sales", "features": ["price"], "base": "linear", "folds": 2}
    given |= {"family": "gaussian"}
    twice = fit_table(frame.assign(w=1.0 + (frame["shop"] == "s0")), **given, weights="w")
    assert twice.findings.differences.noise is None  # which would be that of a weight of 1
    plain = fit_table(frame, **given)
    assert twice.estimator.noise_sd_ != pytest.approx(plain.estimator.noise_sd_, rel=1e-6)
    with pytest.raises(ValueError, match="weights in 'w' must be at least 0 in every row"):
        fit_table(frame.assign(w=-1.0), task="shop", target="sales", weights="w")


def test_a_guess_knows_no_more_than_the_models():
    frame = drifting()
    given = {"task": "firm", "target": "y", "base": "linear", "family": "gaussian"}
    found = fit_table(frame, **given, time="year").results
    splits = later(frame["year"])
    errors = pd.Series(np.nan, index=frame.index)
    for train, test in splits.parts:
        errors.iloc[test] = (frame["y"].iloc[test] - frame["y"].iloc[train].mean()) ** 2
    expected = errors.groupby(frame["firm"]).mean().mean()
    assert found["score"]["baseline"] == pytest.approx(expected)


def test_families_of_tables_are_those_of_the_registry():
    assert ("auto", *REGISTRY, "ordinal") == FAMILIES
