"""Weights of a blend, from predictions of held-out rows."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax
from sklearn.metrics import mean_poisson_deviance

from crosslearning.evaluation import blending
from crosslearning.tables.rows import Rows


def blend_weights(predictions, rows, metric, cross):
    y = rows.y if rows.classes is None else np.searchsorted(rows.classes, rows.y)
    frequencies = rows.classes is None or np.tile(rows.frequencies, (len(y), 1))
    about = {"metric": metric, "expected": cross}
    about |= {} if rows.classes is None else {"frequencies": frequencies}
    return blending.blend_weights(predictions, y, rows.codes, rows.row_weights, **about)


def test_weights_of_a_blend():
    rng = np.random.default_rng(0)
    codes = np.arange(600) % 6
    a, b, bad = rng.normal(size=(3, 600))
    rows = Rows(np.empty((600, 0)), 0.3 * a + 0.7 * b, codes, 6)
    found = blend_weights(np.stack([a, b, bad]), rows, "mse", np.zeros(3, dtype=bool))
    np.testing.assert_allclose(found, [0.3, 0.7, 0.0], atol=0.02)


def test_weights_of_classes_minimise_their_log_loss_and_a_prior():
    rng = np.random.default_rng(0)
    codes, y = np.arange(600) % 6, rng.choice(2, 600, p=[0.7, 0.3])
    knows = np.where(y[:, None] == [0, 1], 0.9, 0.1)
    half = (codes < 3)[:, None]
    shares = np.stack([np.where(half, knows, 0.5), np.where(half, 0.4, knows), 0.0 * knows + 0.5])
    rows = Rows(np.empty((600, 0)), y, codes, 6, None, np.array([0, 1]))
    weights = blend_weights(shares, rows, "log-loss", np.array([False, True, False]))
    rare = np.log(np.bincount(y) / 600)
    lifts = np.log(shares) - rare

    def loss(scores):
        return -log_softmax(scores, axis=1)[np.arange(600), y].sum()

    prior = 100.0 * min(loss(lift + rare) for lift in lifts) / 600  # relative to the best

    def value(w):
        apart = np.sum((np.asarray(w) - [0, 1, 0]) ** 2)
        of_sum = 0.5 * 30.0 * (np.sum(w) - 1.0) ** 2
        return loss(np.tensordot(w, lifts, 1) + rare) + 0.5 * prior * apart + of_sum

    expected = minimize(value, [0.3, 0.3, 0.3], bounds=[(0, None)] * 3).x
    np.testing.assert_allclose(weights, expected, atol=1e-3)
    assert weights.sum() > 1.2  # both models are right, but not sure enough


def test_models_that_are_too_sure_have_less_weight():
    rng = np.random.default_rng(0)
    codes, y = np.arange(400) % 4, rng.integers(0, 2, 400)
    shares = rng.choice([0.01, 0.99], size=(2, 400))  # nothing to do with y
    rows = Rows(np.empty((400, 0)), y, codes, 4, None, np.array([0, 1]))
    shares = np.stack([shares, 1 - shares], axis=2)
    weights = blend_weights(shares, rows, "log-loss", np.ones(2, dtype=bool))
    assert 0 < weights.sum() < 0.2


def test_weights_of_classes_are_those_of_some_rows_if_there_are_many(monkeypatch):
    rng = np.random.default_rng(0)
    y, codes = rng.integers(0, 2, 4000), np.arange(4000) % 7
    right = np.where(rng.uniform(size=4000) < 0.8, y, 1 - y)
    knows = np.where(right[:, None] == [0, 1], 0.7, 0.3)
    said = np.stack([np.where((codes < 4)[:, None], knows, 0.5), np.full_like(knows, 0.5)])
    rows = Rows(np.empty((4000, 0)), y, codes, 7, None, np.array([0, 1]))
    none = np.zeros(2, dtype=bool)
    every = blend_weights(said, rows, "log-loss", none)
    monkeypatch.setattr("crosslearning.evaluation.blending._MOST_NUMBERS", 4000)
    np.testing.assert_allclose(blend_weights(said, rows, "log-loss", none), every, atol=0.05)


@pytest.mark.parametrize("alike", [0.0, 0.95])
def test_weights_of_counts_nearly_minimise_their_deviance(alike):
    rng = np.random.default_rng(0)
    said = rng.gamma(2.0, 3.0, size=(3, 400))
    said = (1.0 - alike) * said + alike * said[:1]
    y = rng.poisson(0.3 * said[0] + 0.7 * said[1])
    rows = Rows(np.empty((400, 0)), y.astype(float), np.arange(400) % 8, 8)
    scaled = np.vstack([said, 2.0 * said[:1], 0.0 * said[:1]])  # the right shape, and nothing
    found = blend_weights(scaled, rows, "poisson-deviance", np.zeros(5, dtype=bool))
    deviances = [
        mean_poisson_deviance(y, w * said[0] + v * said[1] + (1.0 - w - v) * said[2])
        for w in np.linspace(0.0, 1.0, 21)
        for v in np.linspace(0.0, 1.0 - w, 21)
    ]
    # A prior of 30 rows on 400 rows costs something.
    assert mean_poisson_deviance(y, found @ scaled) < 1.03 * min(deviances)


def test_weights_where_a_task_has_none_and_where_all_models_are_exact():
    rng = np.random.default_rng(0)
    y, given = rng.poisson(3.0, size=60).astype(float), np.repeat([1.0, 0.0], 30)
    rows = Rows(np.empty((60, 0)), y, np.repeat([0, 1], 30), 2, given)
    none = np.zeros(2, dtype=bool)
    for metric in ("mse", "poisson-deviance"):
        found = blend_weights(np.stack([y + 1.0, y + rng.uniform(size=60)]), rows, metric, none)
        assert found.sum() == pytest.approx(1.0)
        assert blend_weights(np.stack([y, y]), rows, metric, none).sum() == pytest.approx(1.0)


def test_classes_that_say_nothing_leave_the_weight_to_what_is_cross_learned():
    rng = np.random.default_rng(0)
    y, codes = rng.integers(0, 2, 100), np.arange(100) % 10
    shares = np.clip(0.5 + 0.05 * rng.normal(size=(3, 100, 1)), 0.01, 0.99)
    said = np.concatenate([shares, 1 - shares], axis=2)
    rows = Rows(np.empty((100, 0)), y, codes, 10, None, np.array([0, 1]))
    for k in range(3):
        found = blend_weights(said, rows, "log-loss", np.arange(3) == k)
        np.testing.assert_allclose(found, np.arange(3) == k, atol=0.03)
    both = blend_weights(said, rows, "log-loss", np.arange(3) < 2)
    np.testing.assert_allclose(both, [0.5, 0.5, 0.0], atol=0.05)


def test_counts_that_say_nothing_leave_equal_weights_to_what_is_cross_learned():
    y, cross = np.random.default_rng(0).poisson(3.0, size=40).astype(float), np.arange(4) < 2
    rows = Rows(np.empty((40, 0)), y, np.arange(40) % 4, 4)
    found = blend_weights(np.full((4, 40), 3.0), rows, "poisson-deviance", cross)
    np.testing.assert_allclose(found, [0.5, 0.5, 0.0, 0.0], atol=0.01)
