"""Records as JSON, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from crosslearning.evaluation.records import from_json, to_json
from crosslearning.evaluation.sentences import Effect


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
        (["first", "baseline"], ..., "first.baseline is missing"),
        (["rows"], ..., "rows is missing"),
        (["scores", 1, "colour"], "red", r"scores\[1\].colour is unknown"),
        (["rows"], 2.5, "rows must be a whole number; got 2.5"),
        (["rows"], True, "rows must be a whole number; got True"),
        (["good"], 1, "good must be a boolean; got 1"),
        (["numbers", 0, 1], "x", r"numbers\[0\]\[1\] must be a number; got 'x'"),
        (["numbers"], None, "numbers must be a list; got None"),
        (["shares", "a"], [], r"shares.a must be a number; got \[\]"),
        (["first"], 1, "first must be an object; got 1"),
        (["effect"], "huge", "effect must be one of nothing, helps, .*; got 'huge'"),
    ],
)
def test_an_error_names_the_field(path, value, error):
    data = to_json(BOOK)
    place = data
    for step in path[:-1]:
        place = place[step]
    if value is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    with pytest.raises(ValueError, match=f"^results.json: {error}$"):
        from_json(Book, data)


def test_the_whole_must_be_an_object():
    with pytest.raises(ValueError, match=r"^x.json: the content must be an object; got 3$"):
        from_json(Book, 3, "x.json")
