"""A table of scores: its means, and the choice that it leads to."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from crosslearning.evaluation import Scores
from crosslearning.evaluation.scores import best, nested, standard_error
from tests.support.comparisons import NAN


@given(
    arrays(float, (3, 4, 5), elements=st.floats(-10, 10)),
    arrays(int, (4, 5), elements=st.integers(0, 3)),
)
def test_means_are_weighted_means(values, weights):
    values = np.where(weights > 0, values, NAN)
    for by_rows in (False, True):
        scores = Scores(range(3), values, weights, by_rows)
        share = weights if by_rows else (weights > 0).astype(int)
        for s in range(4):
            expected = (
                np.average(np.nan_to_num(values[0, s]), weights=share[s]) if any(share[s]) else NAN
            )
            np.testing.assert_allclose(scores.by_split[0, s], expected, atol=1e-12)
        for t in range(5):
            own = weights[:, t]
            expected = np.average(np.nan_to_num(values[1, :, t]), weights=own) if any(own) else NAN
            np.testing.assert_allclose(scores.by_task[1, t], expected, atol=1e-12)


def test_the_first_of_equals_is_best():
    scores = Scores("abcd", np.array([[[1.0]], [[3.0]], [[3.0 + 1e-12]], [[2.0]]]), np.ones((1, 1)))
    assert best(scores) == 1
    with pytest.raises(ValueError, match="is undefined for every task"):
        best(Scores("a", np.full((1, 2, 3), NAN), np.ones((2, 3))))


def test_standard_error_is_over_splits():
    values = np.array([[[1.0, 3.0], [4.0, 4.0], [NAN, NAN]]])
    weights = np.array([[1, 1], [1, 1], [0, 0]])
    assert standard_error(Scores("a", values, weights), 0) == pytest.approx(np.sqrt(2) / np.sqrt(2))
    assert standard_error(Scores("a", values[:, :1], weights[:1]), 0) == 0


@given(arrays(float, (4, 3, 2), elements=st.integers(-10, 10).map(float)))
def test_the_scores_of_a_split_do_not_choose_for_it(values):
    weights = np.ones((3, 2))
    own = nested(Scores(range(4), values, weights), {"m": range(4), "n": [2]})
    for split in range(3):
        others = np.delete(values, split, axis=1).sum(axis=(1, 2))
        np.testing.assert_array_equal(own.values[0, split], values[others.argmax(), split])
    np.testing.assert_array_equal(own.values[1], values[2])


@given(arrays(float, (4, 3, 2), elements=st.integers(-10, 10).map(float)), st.integers(0, 3))
def test_the_same_setting_ties_with_itself(values, chosen):
    scores = Scores(range(4), values, np.ones((3, 2)))
    own = nested(scores, {"m": [0], "n": [1, 2], "o": range(4)}, chosen).values
    free = nested(scores, {"m": [0], "n": [1, 2], "o": range(4)}).values
    np.testing.assert_array_equal(own[:2], free[:2])
    np.testing.assert_array_equal(own[2], [free[0], free[1], free[1], free[2]][chosen])
