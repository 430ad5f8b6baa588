"""One table of scores: the choice, the verdict, and what is said of them."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import binom, ttest_1samp

from crosslearning.evaluation import Comparison, Scores
from crosslearning.evaluation.choice import best, nested, standard_error
from crosslearning.evaluation.effect import Effect
from crosslearning.evaluation.sentences import Measure, extremes, verdict

NAN = np.nan
METHODS = ("pooled", "separate", "cross")
LOSS = Measure("log loss")


def comparison(pooled, separate, cross, **settings):
    """A comparison of given scores by task."""
    scores = np.array([pooled, separate, cross], dtype=float)
    labels, rows = np.arange(scores.shape[1]).astype(object), np.full(scores.shape[1], 5)
    shares = np.isfinite(scores).all(axis=0).astype(float)
    return Comparison(METHODS, labels, rows, scores, shares, **settings)


def told(pooled, separate, gain, error, n_tasks=160):
    """A comparison whose better end loses by `gain`, with this standard error over tasks."""
    wobble = np.resize([1.0, -1.0], n_tasks) + np.where(np.arange(n_tasks) < n_tasks % 2, -1.0, 0.0)
    if n_tasks > 1:
        wobble *= error * np.sqrt(n_tasks) / wobble.std(ddof=1)
    gains = gain + wobble - wobble.mean()
    ends = [np.append(np.full(n_tasks, score), NAN) for score in (pooled, separate)]
    return comparison(*ends, np.append(max(pooled, separate) + gains, NAN))


# --- the table and the choice


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
    assert best(scores, among=[3, 0]) == 3
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


# --- the verdict


@given(arrays(float, (3, 6), elements=st.floats(-10, -1)))
def test_paired_differences_are_those_of_students_test(scores):
    found = comparison(*scores)
    gains = scores[2] - scores[0]
    if np.ptp(gains) < 1e-6:
        return
    expected = ttest_1samp(gains, 0.0)
    pairs = found.paired("pooled")
    assert pairs.gain == pytest.approx(gains.mean())
    assert pairs.gain / pairs.standard_error == pytest.approx(expected.statistic)
    assert pairs.p_value == pytest.approx(expected.pvalue)
    high = expected.confidence_interval(0.95).high
    assert pairs.gain + pairs.half_width == pytest.approx(high, abs=1e-9)
    assert found.score("cross") == pytest.approx(scores[2].mean())
    assert found.score(found.best) == max(map(found.score, METHODS))
    assert found.best_rival == ("pooled" if scores[0].mean() >= scores[1].mean() else "separate")


def test_ten_of_ten_tasks_count_even_if_one_dominates():
    errors = np.array([1.0] * 9 + [1000.0])
    share = 1 - np.linspace(0.1, 0.2, 10)
    found = comparison(-errors, -2 * errors, -errors * share)
    assert found.paired("pooled").sure == 0
    assert found.verdict("pooled") == 1
    assert found.summary["helped"]["pooled"] == 10
    assert verdict(found).startswith(
        "Sharing helps: cross-learning is better than one pooled model"
    )
    assert "20.13 ± 20 in log loss (80.77 against 100.9; standard error paired over 10 tasks; " in (
        verdict(found, LOSS)
    )
    assert "uncertain in the mean, but 10 of 10 tasks are better off" in verdict(found)
    assert comparison(-errors * share, -2 * errors, -errors).verdict("pooled") == -1


def test_scales_that_contradict_each_other_give_no_verdict():
    # Large tasks gain, small ones lose, each surely.
    errors = np.repeat([1000.0, 1.0], [10, 90])
    cross = errors * np.where(errors > 1, 0.9, 1.5)
    found = comparison(-errors, -2 * errors, -cross)
    assert found.verdict("pooled") == 0
    assert found.paired("pooled").sure == 1
    assert verdict(found).endswith("9.550 ± 3.0 in score (but 90 of 100 tasks are worse off).")


def test_chance_seldom_helps_even_if_a_few_tasks_dominate():
    rng = np.random.default_rng(0)
    gains = [rng.standard_t(1.5, size=rng.integers(6, 80)) for _ in range(1000)]
    found = [comparison(-10 + 0 * g, -20 + 0 * g, g - 10).verdict("pooled") for g in gains]
    assert np.sum(np.array(found) > 0) <= binom.ppf(0.95, 1000, 0.05)
    assert np.sum(np.array(found) < 0) <= binom.ppf(0.95, 1000, 0.05)


def test_runs_are_the_unit_if_there_are_any():
    values = np.array(
        [[[0.5, 0.3], [0.6, 0.4]], [[0.4, 0.4], [0.4, 0.4]], [[0.7, 0.5], [0.8, 0.62]]]
    )
    scores = Scores(METHODS, values, np.ones((2, 2)))
    found = Comparison.of(scores, ["north", "south"], [10, 20], by_run=True)
    gains = np.array([0.2, 0.21])
    assert found.paired("pooled").gain == pytest.approx(gains.mean())
    assert found.paired("pooled").standard_error == pytest.approx(0.005)
    assert found.verdict("pooled") == 1
    assert found.score("cross") == pytest.approx(0.655)
    np.testing.assert_allclose(found.tasks["cross"], [0.75, 0.56])
    assert verdict(found, Measure("test accuracy", percent=True)) == (
        "Sharing helps: cross-learning is better than one pooled model by 20.5 ± 0.5 points in "
        "test accuracy (65.5 % against 45.0 %; standard error paired over 2 runs)."
    )


def test_a_comparison_is_plain_data():
    found = told(-2.0, -3.0, 0.5, 0.1, 4)
    again = Comparison(
        **{field.name: getattr(found, field.name) for field in dataclasses.fields(found)}
    )
    assert str(again) == str(found)
    for value in vars(found).values():
        assert isinstance(value, (np.ndarray, tuple, bool, type(None)))


def test_rounding_decides_nothing():
    scores = np.linspace(-3.0, -2.0, 20)
    found = comparison(scores, scores - 1, scores + 1e-9)
    assert found.ties("pooled")
    assert found.paired("pooled").sure == 1
    assert found.verdict("pooled") == 0
    assert found.effect is Effect.POOL


# --- the words


FEW = "0.4000 ± 0.10 in score (95 % interval by Student's t: −0.030 to 0.83), which may be chance."
SENTENCES = {
    "helps": (told(-2.0, -3.0, 0.5, 0.1), ["Sharing helps", "one pooled model by 0.5000 ± 0.10"]),
    "not": (told(-3.0, -2.0, -0.5, 0.1), ["does not help", "separate models", "0.5000 ± 0.10"]),
    "better": (
        told(-3.0, -2.0, 0.1, 0.06),
        ["Tasks differ", "one pooled model by 1.100", "but better than separate", "may be chance"],
    ),
    "either": (
        comparison([-3.0, -9.0, -1.0], [-2.0, -7.0, -2.0], [-2.1, -6.7, -2.0]),
        ["These 3 tasks cannot tell", "better than separate"],
    ),
    "worse": (told(-2.0, -3.0, -0.1, 0.06), ["as well", "worse than one pooled", "0.1000 ± 0.060"]),
    "three": (told(-3.0, -2.0, 0.4, 0.1, 3), ["Tasks differ", FEW]),
    "three, surely": (told(-2.0, -3.0, 0.44, 0.1, 3), ["Sharing helps"]),  # t is 4.303
    "three, worse": (told(-2.0, -3.0, -0.44, 0.1, 3), ["does not help"]),
    "separate": (
        told(-3.0, -2.0, 0.0, 0.0),
        ["does not help", "exactly as good as separate", "1.0"],
    ),
    "separate, perhaps": (
        comparison([-3.0, -1.0], [-2.0, -1.5], [-2.0, -1.5]),
        ["2 tasks cannot tell", "exactly as good as separate models, which are", "by 0.2500 ± 0.7"],
    ),
    "pooled": (told(-2.0, -3.0, 0.0, 0.0), ["as well", "exactly as good, and better than sep"]),
    "all the same": (comparison(*[[-2.0, -3.0]] * 3), ["no difference", "one pooled model"]),
    "one": (told(-3.0, -2.0, 0.5, 0.0, 1), ["One task cannot tell", "by 0.5000 in score."]),
    "none": (comparison([NAN], [NAN], [NAN]), ["No task has scores for all methods"]),
}


@pytest.mark.parametrize(("found", "parts"), SENTENCES.values(), ids=SENTENCES.keys())
def test_sentence(found, parts):
    sentence = found.sentence()
    assert all(part in sentence for part in parts), sentence
    assert sentence.endswith(".")
    assert "models is" not in sentence
    text = str(found)
    assert text.endswith(sentence)
    assert len(repr(found)) < 100
    assert repr(found).startswith("<Comparison of pooled, separate, cross on ")
    for word in ("pooled", "separate", "cross", "gain", "standard_error", "helped", "hurt"):
        assert word in text


def test_a_short_form():
    found = told(-2.0, -3.0, 0.5, 0.1)
    assert repr(found) == (
        "<Comparison of pooled, separate, cross on 160\N{NO-BREAK SPACE}tasks: sharing helps>"
    )


def test_errors_are_named_and_positive():
    assert verdict(told(-11.0, -12.0, 1.0, 0.25, 8), LOSS) == (
        "Sharing helps: cross-learning is better than one pooled model by 1.000 ± 0.25 in log loss "
        "(10.00 against 11.00; standard error paired over 8 tasks)."
    )


def test_pooling_may_do_as_well():
    rng = np.random.default_rng(0)
    pooled = -10 + rng.normal(size=40)
    found = comparison(
        pooled, pooled - 3 + 0.1 * rng.normal(size=40), pooled + rng.normal(size=40) - 0.1
    )
    assert found.verdict("pooled") == 0
    assert verdict(found).startswith(
        "One model for all does as well: cross-learning is better than s"
    )


def test_another_method_may_be_better():
    scores = np.array([[-3.0, -3.1, -3.2], [-1.0, -1.1, -1.05], [-2.0, -2.1, -2.2]])
    found = Comparison(
        ("pooled", "trees", "cross"), np.arange(3), np.full(3, 9), scores, np.ones(3)
    )
    assert verdict(found).startswith("Sharing is not enough: trees is better by 1.0")


def test_who_gains_and_who_loses_most():
    found = comparison([-9.0] * 4, [-3.0, -5.0, -4.0, NAN], [-2.0, -1.0, -6.0, -1.0])
    assert extremes(found, "school", LOSS) == [
        {
            "lead": "School 1 gains most",
            "text": "log loss 5.000 alone, 1.000 cross-learned (5 rows).",
        },
        {
            "lead": "School 2 loses most",
            "text": "log loss 4.000 alone, 6.000 cross-learned (5 rows).",
        },
    ]
    few = dataclasses.replace(found, rows=np.array([9, 2, 1, 9]))  # luck is not worth telling
    assert [remark["lead"] for remark in extremes(few, "school", LOSS)] == ["School 0 gains most"]
    better = comparison([-9.0, -0.5, -9.0], [-3.0, -5.0, -4.0], [-2.0, -1.0, -4.0])
    assert extremes(better, "school", LOSS)[0]["text"] == (
        "log loss 5.000 alone, 1.000 cross-learned, 0.5000 pooled (5 rows)."
    )
    assert "1.000 with the blend" in extremes(found, "a", LOSS, shared="with the blend")[0]["text"]
    same = comparison([-9.0], [-3.0], [-3.0])
    assert extremes(same, "school", LOSS) == []
