"""The sentences that describe a comparison."""

import dataclasses

import numpy as np
import pytest

from crosslearning.evaluation import Comparison
from crosslearning.evaluation.comparison import Measure, Remark, extreme, verdict
from tests.support.comparisons import NAN, comparison_of, with_gain

LOSS = Measure("log loss")

FEW = "0.4000 ± 0.10 in score (95 % interval by Student's t: −0.030 to 0.83), which may be chance."
SENTENCES = {
    "helps": (
        with_gain(-2.0, -3.0, 0.5, 0.1),
        ["Sharing helps", "one pooled model by 0.5000 ± 0.10"],
    ),
    "not": (
        with_gain(-3.0, -2.0, -0.5, 0.1),
        ["does not help", "separate models", "0.5000 ± 0.10"],
    ),
    "better": (
        with_gain(-3.0, -2.0, 0.1, 0.06),
        ["Tasks differ", "one pooled model by 1.100", "but better than separate", "may be chance"],
    ),
    "either": (
        comparison_of([-3.0, -9.0, -1.0], [-2.0, -7.0, -2.0], [-2.1, -6.7, -2.0]),
        ["These 3 tasks cannot tell", "better than separate"],
    ),
    "worse": (
        with_gain(-2.0, -3.0, -0.1, 0.06),
        ["as well", "worse than one pooled", "0.1000 ± 0.060"],
    ),
    "three": (with_gain(-3.0, -2.0, 0.4, 0.1, 3), ["Tasks differ", FEW]),
    "three, surely": (with_gain(-2.0, -3.0, 0.44, 0.1, 3), ["Sharing helps"]),  # t is 4.303
    "three, worse": (with_gain(-2.0, -3.0, -0.44, 0.1, 3), ["does not help"]),
    "separate": (
        with_gain(-3.0, -2.0, 0.0, 0.0),
        ["does not help", "exactly as good as separate", "1.0"],
    ),
    "separate, perhaps": (
        comparison_of([-3.0, -1.0], [-2.0, -1.5], [-2.0, -1.5]),
        ["2 tasks cannot tell", "exactly as good as separate models, which are", "by 0.2500 ± 0.7"],
    ),
    "pooled": (
        with_gain(-2.0, -3.0, 0.0, 0.0),
        ["as well", "exactly as good, and better than sep"],
    ),
    "all the same": (comparison_of(*[[-2.0, -3.0]] * 3), ["no difference", "one pooled model"]),
    "one": (with_gain(-3.0, -2.0, 0.5, 0.0, 1), ["One task cannot tell", "by 0.5000 in score."]),
    "none": (comparison_of([NAN], [NAN], [NAN]), ["No task has scores for all methods"]),
}


@pytest.mark.parametrize(("comparison", "parts"), SENTENCES.values(), ids=SENTENCES.keys())
def test_sentence(comparison, parts):
    sentence = comparison.sentence()
    assert all(part in sentence for part in parts), sentence
    assert sentence.endswith(".")
    assert "models is" not in sentence
    text = str(comparison)
    assert text.endswith(sentence)
    assert len(repr(comparison)) < 100
    assert repr(comparison).startswith("<Comparison of pooled, separate, cross on ")
    for word in ("pooled", "separate", "cross", "gain", "standard_error", "helped", "hurt"):
        assert word in text


def test_a_short_form():
    comparison = with_gain(-2.0, -3.0, 0.5, 0.1)
    assert repr(comparison) == (
        "<Comparison of pooled, separate, cross on 160\N{NO-BREAK SPACE}tasks: sharing helps>"
    )


def test_errors_are_named_and_positive():
    assert verdict(with_gain(-11.0, -12.0, 1.0, 0.25, 8), LOSS) == (
        "Sharing helps: cross-learning is better than one pooled model by 1.000 ± 0.25 in log loss "
        "(10.00 against 11.00; standard error paired over 8 tasks)."
    )


def test_pooling_may_do_as_well():
    rng = np.random.default_rng(0)
    pooled = -10 + rng.normal(size=40)
    comparison = comparison_of(
        pooled, pooled - 3 + 0.1 * rng.normal(size=40), pooled + rng.normal(size=40) - 0.1
    )
    assert comparison.verdict("pooled") == 0
    assert verdict(comparison).startswith(
        "One model for all does as well: cross-learning is better than s"
    )


def test_another_method_may_be_better():
    scores = np.array([[-3.0, -3.1, -3.2], [-1.0, -1.1, -1.05], [-2.0, -2.1, -2.2]])
    comparison = Comparison(
        ("pooled", "trees", "cross"), np.arange(3), np.full(3, 9), scores, np.ones(3)
    )
    assert verdict(comparison).startswith("Sharing is not enough: trees is better by 1.0")


def test_who_gains_and_who_loses_most():
    comparison = comparison_of([-9.0] * 4, [-3.0, -5.0, -4.0, NAN], [-2.0, -1.0, -6.0, -1.0])
    assert extreme(comparison, 1, "school", LOSS) == Remark(
        "School 1 gains most over a model of its own",
        "log loss 5.000 alone, 1.000 cross-learned (5 rows).",
    )
    assert extreme(comparison, -1, "school", LOSS) == Remark(
        "School 2 loses most against a model of its own",
        "log loss 4.000 alone, 6.000 cross-learned (5 rows).",
    )
    few = dataclasses.replace(comparison, rows=np.array([9, 2, 1, 9]))  # luck is not worth telling
    assert extreme(few, 1, "school", LOSS).lead == "School 0 gains most over a model of its own"
    assert extreme(few, -1, "school", LOSS) is None
    better = comparison_of([-9.0, -0.5, -9.0], [-3.0, -5.0, -4.0], [-2.0, -1.0, -4.0])
    assert extreme(better, 1, "school", LOSS).text == (
        "log loss 5.000 alone, 1.000 cross-learned, 0.5000 pooled (5 rows)."
    )
    remark = extreme(comparison, 1, "a", LOSS, shared="with the blend")
    assert "1.000 with the blend" in remark.text
    same = comparison_of([-9.0], [-3.0], [-3.0])
    assert extreme(same, 1, "school", LOSS) is None
