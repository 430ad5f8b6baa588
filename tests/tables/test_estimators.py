"""CrossRegressor and CrossClassifier: the contract with scikit-learn, findings, files."""

import json
import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.metrics import d2_pinball_score
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import _num_samples

import crosslearning
from crosslearning import CrossClassifier, CrossRegressor
from crosslearning.evaluation import Comparison
from crosslearning.tables import TableModel, fit_table
from tests.support.tables import shops

QUICK = {"base": "linear", "folds": 2}
FIRST = {**QUICK, "time_budget": 1e-9}  # only the first model, where it does not matter which
WEIGHTS = "check_sample_weight_equivalence_on_dense_data"
kinds = pytest.mark.parametrize("kind", [CrossRegressor, CrossClassifier])


class _TwoTasks:
    """Fits every other row as a second task, and predicts by the centre, unless tasks are given."""

    def fit(self, X, y, tasks=None, sample_weight=None):
        tasks = np.arange(_num_samples(X)) % 2 if tasks is None else tasks
        return super().fit(X, y, tasks, sample_weight)

    def predict(self, X, tasks="center"):
        return super().predict(X, tasks)

    def score(self, X, y, tasks="center", sample_weight=None):
        return super().score(X, y, tasks, sample_weight)


class RegressorOfTwoTasks(_TwoTasks, CrossRegressor):
    pass


class ClassifierOfTwoTasks(_TwoTasks, CrossClassifier):
    def predict_proba(self, X, tasks="center"):
        return super().predict_proba(X, tasks)

    def predict_log_proba(self, X, tasks="center"):
        return super().predict_log_proba(X, tasks)


@pytest.mark.slow
@parametrize_with_checks(
    [kind(**FIRST) for kind in (RegressorOfTwoTasks, ClassifierOfTwoTasks)],
    expected_failed_checks=lambda _: {WEIGHTS: "folds are of rows"},
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def rows_for(kind):
    """Features with gaps, of numbers a category, and useless columns; targets; shops."""
    frame = shops()
    y = frame.pop("sales")
    if kind is CrossClassifier:
        frame = frame.drop(columns="kind")
        y = pd.Series(np.where(y > y.median(), "10", "9"), name="sold")
    return frame.drop(columns="shop"), y, frame["shop"]


@pytest.fixture(scope="module")
def fitted():
    """One fit of each kind, which tests only read."""
    return {
        kind: kind(**QUICK).fit(*rows_for(kind)[:2], tasks=rows_for(kind)[2])
        for kind in (CrossRegressor, CrossClassifier)
    }


def outputs(model, X, tasks=None):
    method = "predict_proba" if hasattr(model, "classes_") else "predict"
    return getattr(model, method)(X, tasks)


@kinds
def test_findings_are_those_of_the_table(kind, fitted):
    X, y, shop = rows_for(kind)
    model, results = fitted[kind], fitted[kind].model_.results
    assert results["title"] == f"{y.name} by shop"
    assert model.sentence_ == results["sentence"]
    assert model.tasks_.tolist() == ["s0", "s1", "s2", "s3"]
    assert model.feature_names_in_.tolist() == list(X.columns)
    assert model.n_features_in_ == len(X.columns)
    table = fit_table(X.assign(shop=shop, **{y.name: y}), task="shop", target=y.name, **QUICK)
    expected = table.predict(X.assign(shop=shop))
    if kind is CrossRegressor:
        assert np.array_equal(model.predict(X, tasks=shop), expected["prediction"])
    else:
        shares = expected[["probability_9", "probability_10"]].to_numpy()[:, ::-1]
        np.testing.assert_allclose(model.predict_proba(X, tasks=shop), shares, rtol=1e-4)


@kinds
def test_candidates_are_the_models_tried(kind, fitted):
    candidates = fitted[kind].candidates_
    columns = ["name", "label", "end", "score", "standard_error", "chosen"]
    assert candidates.columns.tolist() == columns
    assert {"pooled", "levels", "cross", "separate"} <= set(candidates["end"])
    assert candidates["score"].is_monotonic_increasing  # errors are positive
    assert candidates["chosen"].sum() == 1
    assert (candidates["standard_error"] > 0).all()


@kinds
def test_the_comparison_is_the_recorded_one(kind, fitted):
    model, results = fitted[kind], fitted[kind].model_.results
    comparison = model.comparison_
    assert isinstance(comparison, Comparison)
    assert comparison.labels.tolist() == model.tasks_.tolist()
    np.testing.assert_allclose(comparison.scores, results["comparison"]["scores"])
    gains = comparison.paired(results["verdict"]["against"])
    expected = [results["verdict"][name] for name in ("gain", "standard_error", "n_tasks")]
    assert gains == pytest.approx(expected)
    assert comparison.methods == ("pooled", "separate", "cross")
    assert comparison.effect.name.lower() == results["verdict"]["effect"]
    assert comparison.sentence() == model.sentence_


def test_labels_of_a_comparison_keep_their_types():
    X, y, shop = rows_for(CrossRegressor)
    tasks = [(label, 1) for label in shop]
    model = CrossRegressor(**FIRST).fit(X, y, tasks=tasks)
    assert model.comparison_.labels.tolist() == model.tasks_.tolist() == sorted(set(tasks))


def test_a_comparison_of_very_many_tasks_lists_some(monkeypatch):
    monkeypatch.setattr("crosslearning.tables.describe._MOST_TASKS", 3)
    monkeypatch.setattr("crosslearning.tables.describe._AT_ENDS", 1)
    X, y, shop = rows_for(CrossRegressor)
    model = CrossRegressor(**FIRST).fit(X, y, tasks=shop)
    assert set(model.comparison_.labels) < set(model.tasks_)
    assert model.comparison_.sentence() == model.sentence_


def test_tasks_beside_the_features_or_among_them(fitted):
    X, y, shop = rows_for(CrossRegressor)
    beside, frame = fitted[CrossRegressor], X.assign(shop=shop)
    within = CrossRegressor(**QUICK, task_column="shop").fit(frame, y)
    assert within.feature_names_in_.tolist() == list(X.columns)
    assert np.array_equal(within.predict(frame), beside.predict(X, tasks=shop))
    assert within.score(frame, y) == beside.score(X, y, tasks=shop) > 0.9


@kinds
def test_the_centre_predicts_new_tasks(kind, fitted):
    X, _, shop = rows_for(kind)
    new = outputs(fitted[kind], X, ["elsewhere"] * len(X))
    assert np.array_equal(new, outputs(fitted[kind], X, "center"))
    assert not np.array_equal(new, outputs(fitted[kind], X, shop))


def test_intervals(fitted):
    X, y, shop = rows_for(CrossRegressor)
    model = fitted[CrossRegressor]
    lower, upper = model.predict_interval(X, tasks=shop, coverage=0.8)
    assert 0.7 < np.mean((lower <= y) & (y <= upper)) <= 0.95
    wide = model.predict_interval(X, tasks="center", coverage=0.8)
    assert np.all(wide[1] - wide[0] > upper - lower)
    with pytest.raises(ValueError, match="`coverage` must lie between 0 and 1; got 2"):
        model.predict_interval(X, tasks=shop, coverage=2)


def test_quantiles():
    X, y, shop = rows_for(CrossRegressor)
    X = X[["price"]]
    model = CrossRegressor(**QUICK, family="quantile", quantile=0.9).fit(X, y, tasks=shop)
    predictions = model.predict(X, tasks=shop)
    assert 0.8 < np.mean(y <= predictions) <= 0.97
    assert model.score(X, y, tasks=shop) == d2_pinball_score(y, predictions, alpha=0.9)
    with pytest.raises(ValueError, match=r"has no intervals\. Fit one model for each end"):
        model.predict_interval(X, tasks=shop)


def test_classes_keep_their_type_and_order(fitted):
    X, y, shop = rows_for(CrossClassifier)
    model = fitted[CrossClassifier]
    assert model.classes_.tolist() == ["10", "9"]
    shares = model.predict_proba(X, tasks=shop)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X, tasks=shop)), shares)
    assert np.array_equal(model.predict(X, tasks=shop), model.classes_[shares.argmax(axis=1)])
    few = CrossClassifier(**FIRST)
    for classes in ([9, 10], [False, True], [-1.0, 2.0], [0.5, 1.5]):
        again = few.fit(X, np.where(y == "9", *classes), tasks=shop)
        assert again.classes_.tolist() == sorted(classes)
        assert again.predict(X, tasks=shop).dtype == np.array(classes).dtype
        assert again.score(X, np.where(y == "9", *classes), tasks=shop) > 0.6
    truth = np.where(y == "9", True, False).astype(object)
    again = few.fit(X, truth, tasks=shop)
    assert again.predict(X, tasks=shop).dtype == bool
    assert again.score(X, truth, tasks=shop) > 0.6


def test_many_numbers_are_no_classes():
    X, _, shop = rows_for(CrossRegressor)
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        CrossClassifier(**FIRST).fit(X, np.linspace(0.0, 1.0, len(X)), tasks=shop)


def test_arrays_are_used_as_they_are():
    rng = np.random.default_rng(0)
    X, tasks = np.column_stack([np.arange(80), rng.normal(size=80)]), np.arange(80) % 4
    y = 0.1 * X[:, 0] + tasks
    model = CrossRegressor(**FIRST).fit(X, y, tasks=tasks)
    assert model.model_.encoder.columns == ["x0", "x1"]  # x0 numbers the rows
    frame = pd.DataFrame(X)  # whose columns have no names
    again = clone(model).fit(frame, y, tasks=tasks)
    assert np.array_equal(again.predict(X, tasks), again.predict(frame, tasks))
    model.set_params(group="x0").fit(X, y, tasks=tasks)
    assert model.model_.encoder.columns == ["x1"]


def test_weights_times_and_names_that_are_taken():
    X, y, shop = rows_for(CrossRegressor)
    X = X.assign(target=1.0 * shop.index % 7, task=X["price"] ** 2)
    model = CrossRegressor(base="linear", folds=2, time="row", numbers=["row"])
    plain = clone(model).fit(X, y.to_numpy(), tasks=shop.to_numpy())
    assert (plain.model_.task, plain.model_.target) == ("task_", "target_")
    assert "on rows with a later row" in plain.model_.results["score"]["explanation"]
    assert plain.comparison_.n_tasks == 4
    weight = np.linspace(0.1, 3.0, len(y))
    weighted = clone(model).fit(X, y.to_numpy(), shop.to_numpy(), sample_weight=weight)
    assert not np.array_equal(plain.predict(X, shop), weighted.predict(X, shop))
    with pytest.raises(ValueError, match="must contain at least one non-zero number"):
        model.fit(X, y, tasks=shop, sample_weight=np.zeros(len(y)))


def test_grid_search_with_routing():
    X, y, shop = rows_for(CrossRegressor)
    folds = KFold(2, shuffle=True, random_state=0)
    with sklearn.config_context(enable_metadata_routing=True):
        model = CrossRegressor(**QUICK, family="gaussian")
        model.set_fit_request(tasks=True).set_score_request(tasks=True)
        search = GridSearchCV(model, {"epsilon": [0.0, np.inf]}, cv=folds).fit(X, y, tasks=shop)
        assert search.best_params_ == {"epsilon": np.inf}
        assert search.score(X, y, tasks=shop) > 0.9


def test_grid_search_over_bases_of_a_pipeline():
    X, y, shop = rows_for(CrossRegressor)
    scaled = make_column_transformer(
        (StandardScaler(), ["price"]), remainder="passthrough", verbose_feature_names_out=False
    ).set_output(transform="pandas")
    pipeline = make_pipeline(scaled, CrossRegressor(folds=2, family="gaussian", task_column="shop"))
    grid = {"crossregressor__base": ["linear", "splines"]}
    frame = X.assign(shop=shop)
    search = GridSearchCV(pipeline, grid, cv=KFold(2, shuffle=True, random_state=0)).fit(frame, y)
    assert search.best_estimator_[-1].tasks_.tolist() == ["s0", "s1", "s2", "s3"]
    assert search.score(frame, y) > 0.9


@kinds
def test_copies(kind, fitted):
    X, _, shop = rows_for(kind)
    model = fitted[kind]
    assert clone(model).get_params() == model.get_params()
    for name in ("sentence_", "tasks_", "candidates_", "comparison_"):
        assert not hasattr(clone(model), name)
    with pytest.raises(AttributeError, match="is not fitted yet"):
        _ = clone(model).tasks_
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(outputs(again, X, shop), outputs(model, X, shop))


@kinds
def test_saved_and_loaded(kind, fitted, tmp_path):
    X, _, shop = rows_for(kind)
    model, folder = fitted[kind], tmp_path / "fit"
    model.save(folder)
    again = crosslearning.load(folder)
    assert type(again) is kind
    assert again.get_params() == model.get_params()
    assert np.array_equal(outputs(again, X, shop), outputs(model, X, shop))
    assert again.sentence_ == model.sentence_
    pd.testing.assert_frame_equal(again.candidates_, model.candidates_)
    pd.testing.assert_frame_equal(again.comparison_.tasks, model.comparison_.tasks)
    again.save(folder)
    assert np.array_equal(outputs(crosslearning.load(folder), X, shop), outputs(model, X, shop))


def test_a_table_that_was_fitted_otherwise_can_be_loaded(fitted, tmp_path):
    _, y, _ = rows_for(CrossClassifier)
    fitted[CrossRegressor].save(tmp_path)  # whose parameters do not apply to the next fit
    frame = shops().drop(columns="sales").assign(sold=y)
    fit_table(frame, task="shop", target="sold", **FIRST).save(tmp_path)
    model = crosslearning.load(tmp_path)
    assert model.feature_names_in_.tolist() == ["price", "kind"]
    expected = TableModel.load(tmp_path).predict(frame)
    used = frame[["price", "kind", "shop"]]
    assert np.array_equal(model.predict(used).astype(str), expected["prediction"].astype(str))
    (tmp_path / "results.json").unlink()
    assert np.array_equal(crosslearning.load(tmp_path).predict(used), model.predict(used))
    with pytest.raises(ValueError, match="holds no fit of a table"):
        crosslearning.load(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "change",
    [
        lambda results: results | {"version": 5},
        lambda results: {name: value for name, value in results.items() if name != "verdict"},
        lambda results: results | {"models": None},
        lambda results: results | {"new": 1},
        lambda results: [results],
        lambda results: json.dumps(results)[:-1],
    ],
)
def test_a_model_predicts_without_results_of_this_version(fitted, tmp_path, change):
    X, _, shop = rows_for(CrossRegressor)
    model, path = fitted[CrossRegressor], tmp_path / "results.json"
    model.save(tmp_path)
    changed = change(json.loads(path.read_text(encoding="utf-8")))
    path.write_text(changed if isinstance(changed, str) else json.dumps(changed), encoding="utf-8")
    again = crosslearning.load(tmp_path)
    assert np.array_equal(again.predict(X, shop), model.predict(X, shop))
    for name in ("sentence_", "candidates_", "comparison_"):
        with pytest.raises(AttributeError, match="without results, or by another version"):
            getattr(again, name)


def test_report(fitted, tmp_path):
    pytest.importorskip("altair")
    page = fitted[CrossRegressor].report(tmp_path / "page.html")
    assert page == tmp_path / "page.html"
    assert fitted[CrossRegressor].report(tmp_path) == tmp_path / "report.html"
    text = page.read_text(encoding="utf-8")
    assert "sales by shop" in text
    assert "model.fit(X, y, tasks=tasks)" in text


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"numbers": ["prise"]},
            "has no column 'prise' for numbers and categories. Did you mean 'price'",
        ),
        ({"categories": "kinds"}, "has no column 'kinds' for numbers and categories"),
        ({"time": "dai"}, "has no column 'dai' for the time"),
        ({"base": "trees"}, "Option base must be one of"),
        ({"metric": "auc"}, "Option metric must be one of mse"),
        ({"family": "normal"}, "Option family must be one of"),
        ({"quantile": 0.5}, "Option quantile needs family=quantile"),
        ({"epsilon": -1.0}, "Option epsilon must be a distance"),
        ({"folds": 1}, "Option folds must be at least 2"),
        ({"time_budget": 0}, "Option time_budget must be a positive number"),
        ({"folds": 2.5}, "Option folds must be a whole number; got 2.5"),
        ({"epsilon": True}, "Option epsilon must be a number; got True"),
        ({"n_jobs": 0}, "Option jobs must be at least 1, or -1 for one per core; got 0"),
        ({"random_state": -1}, "Option seed must be at least 0; got -1"),
        ({"categories": 3}, "Option categories must be a list of names; got 3"),
    ],
)
def test_errors_name_the_parameter(parameters, message):
    X, y, shop = rows_for(CrossRegressor)
    with pytest.raises(ValueError, match=message):
        CrossRegressor(**parameters).fit(X, y, tasks=shop)


def test_text_is_no_target_of_a_regression():
    X, y, shop = rows_for(CrossClassifier)
    message = "The target 'sold' must hold numbers; got 'few'. Convert it, or use Cross"
    with pytest.raises(ValueError, match=message):
        CrossRegressor().fit(X, y.replace({"9": "few"}), tasks=shop)
    with pytest.raises(ValueError, match="`y` must hold numbers; got 'few'"):
        CrossRegressor().fit(X, y.replace({"9": "few"}).to_numpy(), tasks=shop)
    with pytest.raises(ValueError, match="`y` must hold numbers; got '2024-01-01T00:00:00"):
        CrossRegressor().fit(X, np.full(len(y), np.datetime64("2024-01-01", "s")), tasks=shop)


def test_columns_of_one_name_and_constant_targets_are_refused():
    X, y, shop = rows_for(CrossRegressor)
    twice = pd.concat([X, X.iloc[:, :1]], axis=1)
    with pytest.raises(ValueError, match=r"must differ; got 'price' twice\. Rename one"):
        CrossRegressor(**FIRST).fit(twice, y, tasks=shop)
    with pytest.raises(ValueError, match=r"at least 2 different values; .* Choose another target"):
        CrossRegressor(**FIRST).fit(X, np.ones(len(X)), tasks=shop)


def test_errors_about_tasks(fitted):
    X, y, shop = rows_for(CrossRegressor)
    with pytest.raises(ValueError, match="got neither `tasks` nor `task_column`"):
        CrossRegressor().fit(X, y)
    with pytest.raises(ValueError, match="must have at least 2 labels; got one, 'a'"):
        CrossRegressor().fit(X, y, tasks=["a"] * len(y))
    with pytest.raises(ValueError, match="Task labels were given twice"):
        CrossRegressor(task_column="shop").fit(X.assign(shop=shop), y, tasks=shop)
    with pytest.raises(ValueError, match="Pass the labels as `tasks`, or tasks='center'"):
        fitted[CrossRegressor].predict(X)
    with pytest.raises(ValueError, match="`tasks` must have labels of the types in `fit`"):
        fitted[CrossRegressor].predict(X, tasks=np.zeros(len(y)))


def test_classes_of_an_ordered_categorical_have_an_order():
    rng = np.random.default_rng(0)
    x, tasks = rng.normal(size=120), np.arange(120) % 4
    y = pd.Series(
        pd.cut(x + rng.normal(size=120), [-9, -0.5, 0.5, 9], labels=["low", "mid", "high"])
    )
    X = pd.DataFrame({"x": x})
    model = CrossClassifier(base="linear", folds=2).fit(X, y, tasks=tasks)
    assert "low < mid < high" in model.model_.results["target_rule"]
    assert model.classes_.tolist() == ["high", "low", "mid"]
    share = model.predict_proba(X, tasks=tasks)
    np.testing.assert_allclose(share.sum(axis=1), 1.0)
    assert np.corrcoef(share[:, 0] - share[:, 1], x)[0, 1] > 0.8
