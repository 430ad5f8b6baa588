"""How numbers and labels are written for readers."""

from __future__ import annotations

import math

import pytest

from crosslearning.evaluation.numbers import (
    capital,
    count,
    duration,
    interval,
    joined,
    named,
    number,
    percent,
    percents,
    points,
    radii_by_name,
    radius,
    radius_name,
    spread,
)

WRITTEN = [
    (number(0.59013), "0.5901"),
    (number(38.4), "38.40"),
    (number(12345.6), "12,346"),
    (number(824_625_947.0), "824.6M"),
    (number(2.5e-9), "2.5e-9"),
    (number(-2.5e-9), "−2.5e-9"),
    (number(math.inf), "∞"),
    (number(None), "–"),
    (number(1_234_567), "1,234,567"),
    (number(0.0999999), "0.1000"),
    (count(1, "row"), "1\xa0row"),
    (count(7185, "row"), "7,185\xa0rows"),
    (interval(0.25, 1), "0.250 to 1"),
    (interval(None, None), "–"),
    (percent(0.5), "50.0\xa0%"),
    (percent(0.00123), "0.123\xa0%"),
    (percent(None), "–"),
    (", ".join(percents([1 / 3, 1 / 3, 1 / 3])), "34%, 33%, 33%"),
    (", ".join(percents([0.495, 0.495, 0.01])), "50%, 49%, 1%"),
    (percents([1.0]), ["100%"]),
    (spread({"mean": 0.4512, "std": 0.011}), "45.1 ± 1.1 %"),
    (spread({"mean": 0.4512, "std": None}), "45.1 %"),
    (points(0.1234, 0.01), "+12.3 ± 1.0 points"),
    (points(-0.05), "−5.0 points"),
    (radius(1.338), "1.34"),
    (radius(0), "0 (pooled)"),
    (radius("inf"), "∞ (separate)"),
    (radius_name(0.1), "0.1"),
    (radius_name(1e-6), "1e-6"),
    (radius_name(16716.4), "16,716"),
    (radius_name("inf"), "∞"),
    (radii_by_name({"a": 0.1, "b": 0.1}), "0.1"),
    (radii_by_name({"a": "inf", "b": 0.1, "c": 0.1}), "0.1 (b, c) and ∞ (a)"),
    (capital("log loss of A"), "Log loss of A"),
    (joined(["curves"]), "curves"),
    (joined(["curves", "means", "trees"]), "curves, means and trees"),
    (named("school", 8367), "School 8367"),
    (named("shop", "shop 3"), "Shop 3"),
    (duration(1.23), "1.2 s"),
    (duration(75), "1 min 15 s"),
    (duration(7500), "2 h 5 min"),
]


@pytest.mark.parametrize(("written", "expected"), WRITTEN)
def test_numbers_are_written_for_readers(written, expected):
    assert written == expected
