"""Predictions of a fitted table: intervals, new tasks, labels of any type."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax

from crosslearning.linear._estimator import model_of
from crosslearning.tables import fit_table, predict_files, predict_table
from tests.support.tables import classes, shops

QUICK = {"task": "shop", "target": "sales", "base": "linear", "folds": 2, "family": "gaussian"}


def test_predictions_are_those_of_the_estimator(regression, binary):
    frame = shops()
    new = pd.concat([frame.head(8), frame.head(2).assign(shop="new")])
    X, codes = regression.encode(new)
    assert (codes < 0).tolist() == [False] * 8 + [True] * 2
    labels = new["shop"].to_numpy()
    mean, sd = regression.estimator.predict(X, tasks=labels, return_std=True)
    said = regression.predict(new)
    np.testing.assert_allclose(said["prediction"], mean)
    seen = codes >= 0
    np.testing.assert_allclose(said["std"], regression.residuals.std(mean, sd, seen))
    np.testing.assert_allclose(said["std"], sd, rtol=0.05)  # which is right in this table
    assert said["std"].iloc[8] > said["std"].iloc[0]  # how much tasks differ is added
    X, parts = binary.encode(frame)[0], binary.state.get("parts", [(1.0, None, binary.state)])
    labels = frame["shop"].to_numpy()
    each = [weight * np.log(model_of(s).predict_proba(X, tasks=labels)) for weight, _, s in parts]
    expected = softmax(np.sum(each, axis=0), axis=1)  # a geometric mean
    np.testing.assert_allclose(binary.predict(frame).iloc[:, 1:], expected, atol=1e-12)


def test_intervals_hold_as_often_as_they_say():
    rng = np.random.default_rng(3)
    tasks = np.arange(3000) % 30
    x = rng.normal(size=3000)
    y = x + rng.normal(size=30)[tasks] + rng.standard_t(4, size=3000)
    frame = pd.DataFrame({"x": x, "y": y, "g": tasks})
    model = fit_table(frame.iloc[:1500], task="g", target="y", base="linear", folds=3)
    for coverage in (0.5, 0.9):
        said = model.predict(frame.iloc[1500:], coverage=coverage)
        inside = (said["lower"] <= y[1500:]) & (y[1500:] <= said["upper"])
        assert inside.mean() == pytest.approx(coverage, abs=0.03)
    for point in model.results["calibration"]:
        assert point["observed"] == pytest.approx(point["nominal"], abs=0.03)
    with pytest.raises(ValueError, match="`coverage` must lie between 0 and 1; got 90"):
        model.predict(frame, coverage=90)


def test_predictions_keep_the_index_and_need_no_target(regression):
    frame = shops().drop(columns=["sales", "day", "note"]).sample(frac=1, random_state=0)
    predicted = regression.predict(frame)
    assert predicted.index.equals(frame.index)
    again = regression.predict(shops())["prediction"]
    pd.testing.assert_series_equal(predicted["prediction"].sort_index(), again)


def test_the_centre_predicts_for_tasks_never_seen(regression):
    frame = shops().head(4)
    frame["shop"] = ["s0", "s9", None, "s9"]
    assert regression.unknown_tasks(frame) == {"s9": 2, None: 1}
    predicted = regression.predict(frame)["prediction"]
    X = regression.encoder.encode(frame)
    expected = regression.estimator.predict(X, "center")
    np.testing.assert_allclose(predicted[1:], expected[1:])
    assert predicted[0] != pytest.approx(expected[0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"price": None, "kind": None}, "no column 'price', 'kind' for the model"),
        ({"shop": None}, "no column 'shop' for the model"),
        ({"price": np.inf}, "'price' must hold finite numbers; got inf in 4 rows: 1, 2, 3, 4 "),
    ],
)
def test_tables_that_cannot_be_predicted(regression, change, message):
    frame = shops().head(4).assign(**change)
    absent = [name for name, value in change.items() if value is None]
    with pytest.raises(ValueError, match=message):
        regression.predict(frame.drop(columns=absent))


def test_predictions_are_put_beside_the_table_as_it_is_written(regression, tmp_path):
    path = tmp_path / "new.csv"
    path.write_text("id,shop,price,kind\n007,s0,1.50,tea\n008,s7,NA,\n")
    for source in (path, path.open("rb")):
        predicted = predict_table(regression, source, verbatim=True)
        assert predicted.table["id"].tolist() == ["007", "008"]
        assert predicted.table["price"].tolist() == ["1.50", "NA"]
        assert list(predicted.table)[-4:] == ["prediction", "lower", "upper", "std"]
        assert predicted.unknown == {"s7": 1}
        assert predicted.score is None
        if source is not path:
            source.close()
    assert predict_table(regression, path).table["id"].tolist() == ["007", "008"]
    path.write_text("shop,price,kind,prediction\ns0,1,tea,2\n")
    with pytest.raises(ValueError, match="has a column 'prediction', as predictions do"):
        predict_table(regression, path)


def test_columns_of_the_model_may_have_the_names_of_predictions(tmp_path):
    frame = shops().rename(columns={"price": "prediction", "sales": "std", "shop": "lower"})
    frame = frame.assign(prediction_=frame["prediction"] ** 2)
    model = fit_table(frame, **(QUICK | {"task": "lower", "target": "std"}))
    frame.to_csv(tmp_path / "new.csv", index=False)
    predicted = predict_table(model, tmp_path / "new.csv")
    assert predicted.score is not None
    assert predicted.table.columns.is_unique
    assert list(predicted.table)[-4:] == ["prediction__", "lower_", "upper", "std_"]
    expected = model.predict(frame)["prediction"]
    np.testing.assert_allclose(predicted.table["prediction__"], expected)
    write = tmp_path / "out.csv"
    predict_files(model, tmp_path / "new.csv", write)
    assert list(pd.read_csv(write))[-4:] == list(predicted.table)[-4:]


def test_labels_that_look_like_numbers_stay_what_they_were(tmp_path):
    frame = shops()
    frame["shop"] = frame["shop"].map({"s0": "01", "s1": "02", "s2": "03", "s3": "x"})
    frame["kind"] = frame["kind"].replace({"tea": "1", "milk": "2"})
    model = fit_table(frame, **QUICK)
    path = tmp_path / "new.csv"
    frame[frame["shop"] != "x"].head(6).to_csv(path, index=False)
    predicted = predict_table(model, path)
    assert predicted.unknown == {}
    expected = model.predict(frame[frame["shop"] != "x"].head(6))["prediction"]
    np.testing.assert_allclose(predicted.table["prediction"], expected)


@pytest.mark.parametrize(
    ("written", "unknown"),
    [
        (["0", "1", "new", "3"], {"new": 1}),
        (["0", "1.0", "02", ""], {None: 1}),
        (["0", "1", "9007199254740993", "7"], {"9007199254740993": 1, "7": 1}),
    ],
)
def test_one_odd_label_leaves_the_others_their_tasks(written, unknown, tmp_path):
    frame = shops()
    frame["shop"] = np.where(np.arange(120) % 5, np.arange(120) % 4, 9007199254740992)
    model = fit_table(frame, **QUICK)
    new = frame.iloc[1:5].assign(shop=written)
    new.to_csv(tmp_path / "new.csv", index=False)
    predicted = predict_table(model, tmp_path / "new.csv")
    assert predicted.unknown == unknown
    known = [label not in (*unknown, "") for label in written]
    right = new[known].assign(shop=[int(float(label)) for label in np.array(written)[known]])
    found = predicted.table["prediction"][known]
    np.testing.assert_allclose(found, model.predict(right)["prediction"])
    np.testing.assert_allclose(found, model.predict(right.astype({"shop": float}))["prediction"])
    np.testing.assert_allclose(found, model.predict(new)["prediction"][known])


def test_numbers_may_stand_for_labels_of_text():
    frame = shops()
    frame["shop"] = frame["shop"].str.removeprefix("s")
    model = fit_table(frame, **QUICK)
    assert model.unknown_tasks(frame.astype({"shop": int}).replace({"shop": {3: 8}})) == {8: 30}


@pytest.mark.parametrize("label", [lambda k: k, str, lambda k: k + 0.5])
def test_labels_of_another_type_are_recognised(label):
    frame = shops()
    labels = 1 + np.arange(120) % 4
    frame["shop"] = [label(k) for k in labels]
    model = fit_table(frame, **QUICK)
    expected = model.predict(frame)
    others = [frame["shop"].astype(object), frame["shop"].astype(str)]
    if not isinstance(label(1), str) or label(1).isdigit():
        others += [frame["shop"].astype(float), frame["shop"].astype(float).astype(object)]
    for other in others:
        pd.testing.assert_frame_equal(model.predict(frame.assign(shop=other)), expected)


def test_a_table_with_the_target_is_scored(regression, binary):
    frame = shops(seed=5)
    found = regression.score(frame)
    said = regression.predict(frame)["prediction"]
    by_task = ((said - frame["sales"]) ** 2).groupby(frame["shop"]).mean()
    assert found.score == pytest.approx(by_task.mean())
    assert (found.metric, found.rows) == ("mean squared error", 120)
    assert regression.score(frame.drop(columns="sales")) is None
    assert binary.score(classes(["few", "many"])).metric == "log loss"
    with pytest.raises(ValueError, match="must be one of few, many; got 'none'"):
        binary.score(frame.assign(sales="none"))


def test_categories_never_seen_are_counted(regression):
    frame = shops().head(3).assign(kind=["tea", "cocoa", "cocoa"])
    assert regression.encoder.unknown(frame) == {"kind": {"cocoa": 2}}


def test_numbers_outside_the_range_of_the_fit_are_counted(regression):
    """The ends belong to it, and gaps are no numbers."""
    frame = shops()
    assert regression.encoder.outside(frame) == (0, {})
    low, high = frame["price"].min(), frame["price"].max()
    values = [low, high, np.nan, low - 1e-6, high + 1e-6]
    assert regression.encoder.outside(frame.head(5).assign(price=values)) == (2, {"price": 2})
