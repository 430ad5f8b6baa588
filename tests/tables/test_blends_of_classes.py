"""Blends of classes: weighed relative to frequencies where models learned, and stored so."""

import numpy as np
import pandas as pd
import pytest

from crosslearning.linear import CrossBayesianLogisticRegression
from crosslearning.linear._estimator import state_of
from crosslearning.tables import TableModel, fit_table
from crosslearning.tables.forecast import blend, predictions

GIVEN = {"task": "g", "target": "y", "base": "linear", "time_budget": np.inf}


def noise(n=400, share=None, seed=0):
    """Classes that have nothing to do with a column, with a share of the second by row."""
    rng = np.random.default_rng(seed)
    share = np.full(n, 0.3) if share is None else share
    x, g = rng.normal(size=(n, 4)), np.arange(n) % 8
    y = np.where(rng.uniform(size=n) < share, "yes", "no")
    frame = pd.DataFrame(x, columns=list("abcd"))
    return frame.assign(g=g, y=y, t=np.arange(n))


def log_loss(model, frame):
    shares = model.predict(frame)[["probability_no", "probability_yes"]].to_numpy()
    return -np.log(shares[np.arange(len(frame)), (frame["y"] == "yes").astype(int)]).mean()


@pytest.mark.parametrize("weight", [1.0, 0.01])
def test_models_of_noise_predict_frequencies_nearly_whatever_the_unit_of_weights(weight):
    frame = noise().assign(w=weight)
    model = fit_table(frame, **GIVEN, weights="w", features=list("abcd"))
    share = (frame["y"] == "yes").mean()
    entropy = -share * np.log(share) - (1 - share) * np.log(1 - share)
    assert log_loss(model, noise(seed=1)) < entropy + 0.02
    np.testing.assert_allclose(model.state["fitted"]["frequencies_"], [1 - share, share])


def test_frequencies_that_drift_are_those_where_models_learned():
    """Weights from later rows must not go with other frequencies than those they were fitted to."""
    frame = noise(800, np.linspace(0.1, 0.5, 800))
    model = fit_table(frame, **GIVEN, time="t", folds=4, features=list("abcd"))
    share = (frame["y"] == "yes").mean()
    np.testing.assert_allclose(model.predict(frame)["probability_yes"].mean(), share, atol=0.05)


def test_a_blend_whose_weights_do_not_sum_to_1_is_saved(tmp_path):
    frame = noise(64)
    wide = frame.join(pd.DataFrame(np.random.default_rng(1).normal(size=(64, 8))).add_prefix("n"))
    model = fit_table(wide.drop(columns="t"), **GIVEN, folds=3)
    chosen, weights = model.results["chosen_model"], [part[0] for part in model.state["parts"]]
    assert 0 < sum(weights) < 0.99
    assert sum(part["weight"] for part in chosen["parts"]) == pytest.approx(1.0)
    assert chosen["label"].endswith(", calibrated" if len(weights) == 1 else " models")
    model.save(tmp_path)
    pd.testing.assert_frame_equal(TableModel.load(tmp_path).predict(wide), model.predict(wide))


def test_ordered_classes_keep_their_frequencies():
    rng = np.random.default_rng(0)
    x, g = rng.normal(size=300), np.arange(300) % 6
    grade = np.digitize(0.3 * x + rng.logistic(size=300), [-2.5, 1.0])
    names = ["poor", "fair", "good"]  # in another order than that of their names
    y = pd.Categorical.from_codes(grade, names, ordered=True)
    model = fit_table(pd.DataFrame({"x": x, "g": g, "y": y}), **GIVEN)
    fitted = model.state["fitted"]
    assert fitted["classes_"].tolist() == names
    np.testing.assert_allclose(fitted["frequencies_"], np.bincount(grade) / 300)


def test_new_tasks_are_predicted_no_sharper_than_by_the_models_themselves():
    frame = noise(100)
    X, y = frame[["a"]].to_numpy(), (frame["y"] == "yes").to_numpy()
    model = CrossBayesianLogisticRegression(covariance="pooled").fit(X, y, tasks=frame["g"])

    def odds(weight, code):
        state = blend([(weight, None, state_of(model))], None, {False: 0.5, True: 0.5})
        shares = predictions(state, X[:1], np.array([code]))
        return np.log(shares[0, 1] / shares[0, 0])

    known, new = odds(1.0, 0), odds(1.0, -1)
    assert odds(2.0, 0) == pytest.approx(2 * known)
    assert odds(2.0, -1) == pytest.approx(new)
    assert odds(0.5, -1) == pytest.approx(0.5 * new)
