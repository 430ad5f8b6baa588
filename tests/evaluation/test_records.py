"""Records as JSON, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from crosslearning.archive import from_json, to_json
from crosslearning.evaluation.comparison import Comparison, Effect
from tests.support.comparisons import NAN, comparison_of


@dataclass(frozen=True, kw_only=True)
class Score:
    baseline: float | None
    folds: float | None = None


@dataclass(frozen=True, kw_only=True)
class Book:
    class_: Any
    effect: Effect
    rows: int
    good: bool
    scores: tuple[Score, ...]
    numbers: tuple[tuple[float, ...], ...]
    shares: Mapping[str, float | None]
    first: Score


BOOK = Book(
    class_=1,
    effect=Effect.DIFFER,
    rows=3,
    good=True,
    scores=(Score(baseline=0.5), Score(baseline=None, folds=2.0)),
    numbers=((1.0, 2), ()),
    shares={"a": 0.25, "b": None},
    first=Score(baseline=1.0),
)


def test_a_record_survives():
    data = json.loads(json.dumps(to_json(BOOK), allow_nan=False))
    assert data["class"] == 1
    assert data["effect"] == "differ"
    assert data["scores"] == [{"baseline": 0.5}, {"baseline": None, "folds": 2.0}]
    assert from_json(Book, data) == BOOK


def test_arrays_and_what_is_not_finite_become_plain():
    book = replace(
        BOOK,
        class_=np.str_("many"),
        rows=np.int64(7),
        good=np.bool_(False),
        numbers=np.array([[0.1 + 0.2, 1.0]]),
        shares={"a": np.nan, "b": np.inf},
    )
    data = to_json(book)
    json.dumps(data, allow_nan=False)
    assert (data["class"], data["rows"], data["good"]) == ("many", 7, False)
    assert (data["numbers"], data["shares"]) == ([[0.3, 1.0]], {"a": None, "b": None})


@pytest.mark.parametrize(
    ("path", "value", "error"),
    [
        (["first", "baseline"], ..., TypeError),
        (["rows"], ..., TypeError),
        (["scores", 1, "colour"], "red", KeyError),
        (["numbers"], None, TypeError),
        (["first"], 1, AttributeError),
        (["effect"], "huge", KeyError),
    ],
)
def test_another_shape_is_refused(path, value, error):
    data = to_json(BOOK)
    place = data
    for step in path[:-1]:
        place = place[step]
    if value is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    with pytest.raises(error):
        from_json(Book, data)


def test_arrays_of_numbers_and_of_labels_survive():
    comparison = comparison_of([-1.0, NAN], [-2.0, NAN], [-3.0, -0.5])
    again = from_json(Comparison, json.loads(json.dumps(to_json(comparison))))
    assert again.labels.tolist() == [0, 1]
    np.testing.assert_array_equal(again.scores, comparison.scores)
    assert again.sentence() == comparison.sentence()
