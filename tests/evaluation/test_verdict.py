"""The verdict of a comparison: paired differences, their units, and what decides nothing."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import binom, ttest_1samp

from crosslearning.evaluation import Comparison, Scores
from crosslearning.evaluation.comparison import Effect, Measure, verdict
from tests.support.comparisons import METHODS, comparison_of, with_gain

LOSS = Measure("log loss")


@given(arrays(float, (3, 6), elements=st.floats(-10, -1)))
def test_paired_differences_are_those_of_students_test(scores):
    comparison = comparison_of(*scores)
    gains = scores[2] - scores[0]
    if np.ptp(gains) < 1e-6:
        return
    expected = ttest_1samp(gains, 0.0)
    pairs = comparison.paired("pooled")
    assert pairs.gain == pytest.approx(gains.mean())
    assert pairs.gain / pairs.standard_error == pytest.approx(expected.statistic)
    assert pairs.p_value == pytest.approx(expected.pvalue)
    high = expected.confidence_interval(0.95).high
    assert pairs.gain + pairs.half_width == pytest.approx(high, abs=1e-9)
    assert comparison.score("cross") == pytest.approx(scores[2].mean())
    assert comparison.score(comparison.best) == max(map(comparison.score, METHODS))
    assert comparison.best_rival == (
        "pooled" if scores[0].mean() >= scores[1].mean() else "separate"
    )


def test_ten_of_ten_tasks_count_even_if_one_dominates():
    errors = np.array([1.0] * 9 + [1000.0])
    share = 1 - np.linspace(0.1, 0.2, 10)
    comparison = comparison_of(-errors, -2 * errors, -errors * share)
    assert comparison.paired("pooled").sure == 0
    assert comparison.verdict("pooled") == 1
    assert comparison.summary["helped"]["pooled"] == 10
    assert verdict(comparison).startswith(
        "Sharing helps: cross-learning is better than one pooled model"
    )
    assert "20.13 ± 20 in log loss (80.77 against 100.9; standard error paired over 10 tasks; " in (
        verdict(comparison, LOSS)
    )
    assert "uncertain in the mean, but 10 of 10 tasks are better off" in verdict(comparison)
    assert comparison_of(-errors * share, -2 * errors, -errors).verdict("pooled") == -1


def test_scales_that_contradict_each_other_give_no_verdict():
    # Large tasks gain, small ones lose, each surely.
    errors = np.repeat([1000.0, 1.0], [10, 90])
    cross = errors * np.where(errors > 1, 0.9, 1.5)
    comparison = comparison_of(-errors, -2 * errors, -cross)
    assert comparison.verdict("pooled") == 0
    assert comparison.paired("pooled").sure == 1
    assert verdict(comparison).endswith("9.550 ± 3.0 in score (but 90 of 100 tasks are worse off).")


def test_chance_seldom_helps_even_if_a_few_tasks_dominate():
    rng = np.random.default_rng(0)
    gains = [rng.standard_t(1.5, size=rng.integers(6, 80)) for _ in range(1000)]
    verdicts = [comparison_of(-10 + 0 * g, -20 + 0 * g, g - 10).verdict("pooled") for g in gains]
    assert np.sum(np.array(verdicts) > 0) <= binom.ppf(0.95, 1000, 0.05)
    assert np.sum(np.array(verdicts) < 0) <= binom.ppf(0.95, 1000, 0.05)


def test_runs_are_the_unit_if_there_are_any():
    values = np.array(
        [[[0.5, 0.3], [0.6, 0.4]], [[0.4, 0.4], [0.4, 0.4]], [[0.7, 0.5], [0.8, 0.62]]]
    )
    scores = Scores(METHODS, values, np.ones((2, 2)))
    comparison = Comparison.of(scores, ["north", "south"], [10, 20], by_run=True)
    gains = np.array([0.2, 0.21])
    assert comparison.paired("pooled").gain == pytest.approx(gains.mean())
    assert comparison.paired("pooled").standard_error == pytest.approx(0.005)
    assert comparison.verdict("pooled") == 1
    assert comparison.score("cross") == pytest.approx(0.655)
    np.testing.assert_allclose(comparison.tasks["cross"], [0.75, 0.56])
    assert verdict(comparison, Measure("test accuracy", percent=True)) == (
        "Sharing helps: cross-learning is better than one pooled model by 20.5 ± 0.5 points in "
        "test accuracy (65.5 % against 45.0 %; standard error paired over 2 runs)."
    )


def test_a_comparison_is_plain_data():
    comparison = with_gain(-2.0, -3.0, 0.5, 0.1, 4)
    again = Comparison(
        **{field.name: getattr(comparison, field.name) for field in dataclasses.fields(comparison)}
    )
    assert str(again) == str(comparison)
    for value in vars(comparison).values():
        assert isinstance(value, (np.ndarray, tuple, bool, type(None)))


def test_rounding_decides_nothing():
    scores = np.linspace(-3.0, -2.0, 20)
    comparison = comparison_of(scores, scores - 1, scores + 1e-9)
    assert comparison.ties("pooled")
    assert comparison.paired("pooled").sure == 1
    assert comparison.verdict("pooled") == 0
    assert comparison.effect is Effect.POOL
