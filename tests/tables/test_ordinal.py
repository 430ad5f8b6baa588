"""Targets whose classes have an order."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax

from crosslearning import CrossClassifier, load
from crosslearning.frames.target import target_of
from crosslearning.linear import CrossBayesianLogisticRegression
from crosslearning.linear._estimator import state_of
from crosslearning.tables import TableModel, fit_table
from crosslearning.tables.forecast import blend, predictions
from crosslearning.tables.settings import FitSettings

GRADES = ["poor", "fair", "good"]  # not in the order of the alphabet
GIVEN = {"task": "shop", "target": "rating", "folds": 2, "base": "linear", "time_budget": 600.0}


def ratings(n=90, seed=0):
    rng = np.random.default_rng(seed)
    shop, x = rng.integers(3, size=n), rng.normal(size=n)
    score = 2.0 * x + np.linspace(-1.5, 1.5, 3)[shop] + rng.logistic(size=n)
    return pd.DataFrame({"shop": shop, "x": x, "rating": np.searchsorted([-1.0, 1.0], score)})


def in_words(frame):
    words = pd.Categorical.from_codes(frame["rating"], GRADES, ordered=True)
    return frame.assign(rating=words)


def test_the_order_of_a_categorical_column_is_used(tmp_path):
    model = fit_table(in_words(ratings()), **GIVEN)
    found = model.results
    assert found["target_rule"] == "3 ordered classes: poor < fair < good"
    names = {one["name"] for one in found["models"]}
    assert {"cross", "cross-ordinal", "pooled-ordinal", "separate-ordinal"} <= names
    frame = in_words(ratings(400, seed=1))
    shares = model.predict(frame.drop(columns="rating"))
    own = shares[[f"probability_{grade}" for grade in GRADES]].to_numpy()
    codes = frame["rating"].cat.codes.to_numpy()
    assert -np.log(own[np.arange(len(codes)), codes]).mean() < 0.9  # log 3 is 1.10
    model.save(tmp_path)
    again = TableModel.load(tmp_path).predict(frame)
    np.testing.assert_allclose(again[shares.columns[1:]], shares[shares.columns[1:]])


def test_a_blend_takes_means_of_the_same_class():
    frame = in_words(ratings())
    X, tasks, parts, shares = frame[["x"]].to_numpy(), frame["shop"].to_numpy(), [], []
    for ordered in (True, False):
        model = CrossBayesianLogisticRegression(ordered=ordered, covariance="pooled")
        model.fit(X, frame["rating"] if ordered else frame["rating"].astype(str), tasks=tasks)
        parts.append((0.3 + 0.4 * ordered, None, state_of(model)))
        shares.append(pd.DataFrame(model.predict_proba(X, tasks=tasks), columns=model.classes_))
    frequencies = dict(zip(GRADES, (0.2, 0.3, 0.5), strict=True))
    for sharper in (1.0, 1.5):
        state = blend([(sharper * weight, *rest) for weight, *rest in parts], None, frequencies)
        lifts = [np.log(share[GRADES] / list(frequencies.values())) for share in shares]
        scores = sharper * (0.7 * lifts[0] + 0.3 * lifts[1]) + np.log(list(frequencies.values()))
        np.testing.assert_allclose(predictions(state, X, tasks), softmax(scores, axis=1))


def test_numbers_have_an_order_if_asked():
    column = pd.Series([1, 2, 3, 4, 5] * 8, name="stars")
    assert target_of(column).kind == "regression"
    asked = target_of(column, "classification", "ordinal")
    assert (asked.family, asked.grades.tolist()) == ("ordinal", [1, 2, 3, 4, 5])
    model = fit_table(ratings(), **GIVEN, family="ordinal")
    assert all(
        "ordinal" in one["name"] or one["name"] == "blend" for one in model.results["models"]
    )
    table = model.coefficients
    assert "class" not in table
    assert table["feature"].str.startswith("(threshold ").sum() == len(model.classes) - 1


def test_the_order_of_numbers_is_tried_beside_classes_without_order():
    frame = ratings(200)
    model = fit_table(frame, **GIVEN, kind="classification")
    names = {one["name"] for one in model.results["models"]}
    assert {"cross", "cross-ordinal", "pooled-ordinal", "separate-ordinal"} <= names
    assert model.results["target_rule"] == "3 classes; the order of their numbers is tried, too"
    shares = model.predict(frame)
    features, tasks = frame[["x"]], frame["shop"]
    options = {name: GIVEN[name] for name in ("folds", "base", "time_budget")}
    same = CrossClassifier(**options).fit(features, frame["rating"], tasks=tasks)
    np.testing.assert_allclose(
        same.predict_proba(features, tasks=tasks), shares.filter(like="probability_"), atol=1e-12
    )
    assert same.classes_.tolist() == [0, 1, 2]


@pytest.mark.parametrize("grades", [[0.5, 1.5], [1.0, 1.3, 1.7]])
def test_classes_may_be_any_numbers(grades, tmp_path):
    frame = ratings()
    frame["rating"] = np.array(grades)[np.minimum(frame["rating"], len(grades) - 1)]
    model = fit_table(frame, **(GIVEN | {"base": "auto"}), kind="classification", metric="accuracy")
    assert np.isfinite([one["score"] for one in model.results["models"]]).all()
    assert model.coefficients is not None
    assert {*model.coefficients.get("class", grades)} <= {*grades}
    predictions = model.predict(frame)
    assert predictions.columns[1:].tolist() == [f"probability_{grade}" for grade in grades]
    assert np.mean(predictions["prediction"] == frame["rating"]) > 0.7
    model.save(tmp_path)
    pd.testing.assert_frame_equal(TableModel.load(tmp_path).predict(frame), predictions)
    again = CrossClassifier(task_column="shop", base="linear", folds=2)
    X, y = frame[["shop", "x"]], frame["rating"]
    again.fit(X, y)
    assert again.classes_.tolist() == grades
    assert again.score(X, y) == np.mean(again.predict(X) == y) > 0.6
    again.save(tmp_path)
    assert np.array_equal(load(tmp_path).predict(X), again.predict(X))


def test_texts_have_no_order():
    assert target_of(pd.Series(list("abc") * 9, name="y")).also == ()
    assert target_of(pd.Series([1, 2, 3] * 9, name="y"), "classification").also == ("ordinal",)


def test_two_classes_need_no_order():
    column = pd.Series(pd.Categorical(["no", "yes"] * 9, ["no", "yes"], ordered=True), name="y")
    assert target_of(column).grades is None


def test_text_without_an_order_is_refused():
    with pytest.raises(ValueError, match=r"family=ordinal needs classes with an order.*'bad'"):
        target_of(pd.Series(["bad", "fair", "good"], name="y"), "classification", "ordinal")
    with pytest.raises(ValueError, match="is for classes, not numbers"):
        FitSettings(task="g", target="y", family="ordinal", kind="regression")
