"""What columns and targets are taken for, and how features are chosen and encoded."""

import datetime as dt
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder

from crosslearning.frames.columns import (
    as_numbers,
    column_of,
    time_values,
)
from crosslearning.frames.encoder import TableEncoder, counted
from crosslearning.frames.survey import Roles, columns_to_read
from crosslearning.frames.target import features_of, target_of
from crosslearning.tables import fit_table
from crosslearning.tables.settings import FitSettings
from tests.support.tables import shops

ROWS = 100
GIVEN = {"task": ("shop",), "target": "sales"}
TYPES = {
    "floats": (np.linspace(0, 1, ROWS), "number", ""),
    "few integers": ([1, 2] * 50, "number", ""),
    "booleans": ([True, False] * 50, "number", ""),
    "booleans with gaps": ([True, None] * 50, "number", ""),
    "nullable integers": (pd.array([1, None] * 50, dtype="Int64"), "number", ""),
    "decimals": ([Decimal("1.5"), None, Decimal(2), Decimal(3)] * 25, "number", ""),
    "strings": (["a", "b"] * 50, "category", ""),
    "a value and gaps": (["a", None] * 50, "category", ""),
    "categories": (pd.Categorical([1, 2] * 50), "category", ""),
    "200 levels": ([f"l{i % 40}" for i in range(ROWS)], "category", ""),
    "few rows": (["a", "b", "c"], "category", ""),
    "text": ([f"text {i}" for i in range(ROWS)], "unusable", "it is text"),
    "few levels of digits and a word": ([*"1234567890" * 10, "n/k"], "category", ""),
    "numbers with units": ([f"{i} kg" for i in range(99)], "unusable", "it is text"),
    "ISO dates": (["2024-05-17", "2024-06-18"] * 50, "date", ""),
    "ISO times": (["2024-05-17T12:30:00", "2024-06-18 08:00"] * 50, "date", ""),
    "German dates": (["17.05.2024", "1.6.24"] * 50, "date", ""),
    "English dates": (["May 17, 2024", "17 May 2024"] * 50, "date", ""),
    "time stamps": (pd.date_range("2024", periods=ROWS), "date", ""),
    "date objects": ([dt.date(2024, 1, 1), None] * 50, "date", ""),
    "a constant date": (["2024-05-17"] * ROWS, "date", "it is constant"),
    "currency and thousands": (["$1,200.50", "-$3", "€ 5"] * 25, "number", ""),
    "percents": (["12 %", "3.5%"] * 50, "number", ""),
    "leading zeros": (["01", "1"] * 50, "category", ""),
    "phone numbers": (["555 123", "555 124"] * 50, "category", ""),
    "long codes as text": (["1" * 25, "2" * 25] * 50, "category", ""),
    "lists": ([[1]] * ROWS, "unusable", "neither"),
    "complex numbers": ([1j, 2] * 50, "unusable", "neither"),
    "a constant": ([7] * ROWS, "number", "it is constant"),
    "a constant string": (["a"] * ROWS, "category", "it is constant"),
    "nothing": ([None] * ROWS, "unusable", "it is empty"),
    "row numbers": (np.arange(ROWS)[::-1] + 1, "number", "it numbers the rows"),
    "row numbers with gaps": (np.delete(np.arange(105), [3, 5, 7, 8, 9]), "number", "it numbers"),
    "sizes in any order": (np.arange(ROWS) * 37 % 101 * 11, "number", ""),
    "a short count": (np.arange(10), "number", ""),
}


@pytest.mark.parametrize(("values", "kind", "reason"), TYPES.values(), ids=TYPES.keys())
def test_types(values, kind, reason):
    column = column_of(pd.Series(values, name="x"))
    assert column.type == kind
    assert reason in column.reason
    assert bool(column.reason) == bool(reason)
    assert column.missing == pd.Series(values).isna().sum()


def test_an_unnamed_count_is_a_row_number_however_short():
    assert column_of(pd.Series(range(5), name="Unnamed: 0")).reason == "it numbers the rows"


@pytest.mark.parametrize("values", [["1", "x"], [1.0, np.inf], ["1", "-inf"]])
def test_numbers_that_are_none_are_refused_with_their_row(values):
    with pytest.raises(ValueError, match=r"'x' must hold finite numbers; got .* 1 row: 2 "):
        as_numbers(pd.Series(values, name="x"))


def test_rows_are_counted_as_in_the_table_and_cut_short():
    column = pd.Series(["?"] * 9, name="x", index=range(10, 19))
    with pytest.raises(ValueError, match="9 rows: 11, 12, 13, 14, 15, … "):
        as_numbers(column)


def test_values_of_any_kind_become_numbers_or_strings():
    assert as_numbers(pd.Series(["1", "2.5", None])).tolist()[:2] == [1, 2.5]
    assert as_numbers(pd.Series(pd.Categorical([3, 4]))).tolist() == [3, 4]
    for values in (["a", None], pd.Categorical(["a", None]), pd.array(["a", None], dtype="string")):
        assert counted(pd.Series(values)).to_dict() == {"a": 1, "(missing)": 1}
    assert counted(pd.Series(pd.Categorical([1, 2]))).to_dict() == {"1": 1, "2": 1}
    assert list(counted(pd.Series([1010, 2020.5, np.nan])).index) == ["(missing)", "1010", "2020.5"]


TARGETS = {
    "decimals": ([0.5, 1.0, 2.0], "regression"),
    "many whole numbers": (range(11), "regression"),
    "few whole numbers": ([1.0, 2.0, 3.0], "regression"),
    "two numbers": ([1.0, 2.0, 2.0], "classification"),
    "booleans": ([True, False, True], "classification"),
    "strings": (["a", "b", "b"], "classification"),
    "categories": (pd.Categorical([1, 2, 2]), "classification"),
}


@pytest.mark.parametrize(("values", "kind"), TARGETS.values(), ids=TARGETS.keys())
def test_targets(values, kind):
    target = target_of(pd.Series(values, name="y"))
    assert target.kind == kind
    assert target.why
    assert (target.classes is None) == (kind == "regression")


def test_a_kind_that_is_asked_for():
    numbers = pd.Series([1, 2, 2], name="y")
    assert target_of(numbers).classes.dtype == np.int64
    asked = target_of(numbers, "regression")
    assert (asked.kind, asked.why, asked.classes) == ("regression", "as asked", None)
    halves = target_of(pd.Series([0.5, 1.5] * 9, name="y"), "classification")
    assert halves.classes.tolist() == [0.5, 1.5]
    assert target_of(pd.Series([True, False], name="y")).classes.dtype == bool
    assert target_of(pd.Series([True, False], name="y"), "regression").kind == "regression"


@pytest.mark.parametrize(
    ("values", "kind", "message"),
    [
        (["2024-05-17", "2024-05-18"], "auto", "it holds dates, such as 2024-05-17"),
        (pd.date_range("2024", periods=3), "regression", "holds dates"),
        ([1, 1, 1], "auto", "must have at least 2 different values; all are 1"),
        ([f"text {i}" for i in range(60)], "auto", "at most 50; 'y' has 60 distinct values"),
        (np.arange(60), "classification", "or use option kind=regression"),
        (["a", "b"], "regression", "must hold finite numbers; got 'a' in 2 rows: 1, 2"),
        ([*map(str, range(99)), "n/k"], "auto", "holds numbers except for 'n/k' in 1 row: 100"),
        ([1.0, np.inf, 2.0], "auto", "finite numbers"),
    ],
)
def test_targets_that_are_refused(values, kind, message):
    with pytest.raises(ValueError, match=message):
        target_of(pd.Series(values, name="y"), kind)


def test_features_are_all_columns_that_can_be_used():
    features = features_of(shops(), Roles(**GIVEN))
    assert [column.name for column in features.used] == ["price", "kind"]
    reasons = {column.name: column.reason for column in features.ignored}
    assert list(reasons) == ["day", "note", "one", "row"]
    assert all(reasons.values())


def test_features_that_are_asked_for():
    chosen = features_of(shops(), Roles(**GIVEN, features=("row", "price", "one", "price")))
    assert [column.name for column in chosen.used] == ["row", "price"]
    assert [column.name for column in chosen.ignored] == ["one"]


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (["prise"], "no column 'prise' for the features. Did you mean 'price'"),
        (["price", "shop"], "features must not name the task or the target; got 'shop'"),
        (["day"], "No column besides task and target can be a feature .*day: it is constant"),
        (["note"], "'note' cannot be a feature: it is text"),
        (["one"], "No column besides task and target can be a feature .*one: it is constant"),
        ([], "there are no others"),
    ],
)
def test_features_that_are_refused(wanted, message):
    with pytest.raises(ValueError, match=message):
        fit_table(shops(), task="shop", target="sales", features=wanted)


def test_encoding_fills_in_flags_and_groups():
    frame = shops(600)
    encoder = TableEncoder.of(frame, ["price"], ["kind"])
    array = encoder.encode(frame)
    names = ["price", "price missing"]
    levels = ["kind=milk", "kind=salt", "kind=tea", "kind=(other)"]
    assert encoder.feature_names == names + levels
    assert np.isfinite(array).all()
    assert array[:, 1].nonzero()[0].tolist() == [3, 50]
    assert array[3, 0] == pytest.approx(frame["price"].median())
    np.testing.assert_array_equal(array[:, 2:].sum(axis=1), 1)
    assert array[[4, 7, 51, 59], 5].all()  # missing is a level, here a rare one
    new = pd.DataFrame({"price": ["1.5", None], "kind": ["pepper", None]})
    assert encoder.encode(new)[:, 5].tolist() == [1, 1]


def test_missing_is_a_level_and_two_levels_are_one_column():
    frame = pd.DataFrame({"kind": ["a", None] * 20, "sex": ["f", "m"] * 20})
    encoder = TableEncoder.of(frame, [], ["kind", "sex"])
    assert encoder.feature_names == ["kind=a", "sex=m"]


def test_200_categories_become_30_columns():
    frame = pd.DataFrame({"kind": [f"l{i % 200}" for i in range(4000)]})
    assert TableEncoder.of(frame, [], ["kind"]).encode(frame).shape == (4000, 30)


def test_dates_become_year_month_and_days():
    frame = pd.DataFrame({"day": ["17.05.2024", None, "1.6.1970"], "x": [1.0, 2.0, 3.0]})
    encoder = TableEncoder.of(frame, ["x"], [], ["day"])
    assert encoder.feature_names[:4] == ["x", "day year", "day month", "day days"]
    assert encoder.columns == ["x", "day"]
    assert encoder.encode(frame)[2, 1:4].tolist() == [1970, 6, 151]
    assert encoder.encode(frame)[1, 4:].tolist() == [1, 1, 1]  # flagged as missing
    with pytest.raises(ValueError, match=r"'day' must hold dates from .* got 'soon' in 1 row: 1 "):
        encoder.encode(pd.DataFrame({"day": ["soon"], "x": [1.0]}))


@pytest.mark.parametrize(
    "days",
    [
        ["2020-01-05", "1500-01-01"],
        ["2020-01-05", "9999-12-31"],
        [dt.date(2020, 1, 5), dt.date(9999, 12, 31)],
        np.array(["2020-01-05", "9999-12-31"], dtype="datetime64[s]"),
    ],
)
def test_dates_far_beyond_are_refused_with_their_row(days):
    frame = pd.DataFrame({"day": days})
    message = "'day' must hold dates from 1678 to 2261; got .* in 1 row: 2 "
    with pytest.raises(ValueError, match=message):
        TableEncoder.of(frame, [], [], ["day"])
    with pytest.raises(ValueError, match=message):
        time_values(frame["day"])


def test_a_slip_among_dates_that_are_times_is_named():
    days = pd.Series(["2024-05-17"] * 9 + ["soon"] + ["2024-06-01"] * 9, name="day")
    with pytest.raises(ValueError, match=r"must hold dates .* got 'soon' in 1 row: 10 "):
        time_values(days)


def test_weights_that_are_none_are_named():
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0], "w": [1.0, -2.0, None]})
    encoder = TableEncoder.of(frame, ["x"], [])
    with pytest.raises(ValueError, match=r"got -2\.0 in 2 rows: 2, 3 .* Correct them, or delete"):
        encoder.weights(frame, "w")


def test_only_features_have_types():
    roles = Roles(task=("g",), target="y", types={"g": "number"})
    with pytest.raises(ValueError, match=r"got 'g', which is the task\. Leave it out"):
        columns_to_read(["g", "x", "y"], roles)


def test_dates_outside_the_range_of_the_fit_are_counted():
    frame = pd.DataFrame({"day": ["2024-05-17", None, "2024-06-01"], "x": [1.0, 2.0, 3.0]})
    encoder = TableEncoder.of(frame, ["x"], [], ["day"])
    new = pd.DataFrame({"day": ["2024-05-20", "2025-01-01", None], "x": [9.0, 2.0, 2.0]})
    assert encoder.outside(frame) == (0, {})
    assert encoder.outside(new) == (2, {"x": 1, "day": 1})


def test_categories_never_seen_are_told_from_rare_ones():
    frame = pd.DataFrame({"kind": ["a"] * 500 + ["b"] * 500 + ["rare"]})
    encoder = TableEncoder.of(frame, [], ["kind"])
    new = pd.DataFrame({"kind": ["rare", "new", None, "a", "new"]})
    assert encoder.unknown(new) == {"kind": {"new": 2}}


def test_numbers_lose_their_marks():
    values = ["$1,200.50", "-$3", "€ 5", "7 %", "1'000", None, "2e3"]
    expected = [1200.5, -3, 5, 7, 1000, np.nan, 2000]
    np.testing.assert_array_equal(as_numbers(pd.Series(values)), expected)


def test_codes_by_name_and_by_request():
    codes = pd.Series([10115, 20095] * 20, name="zip_code")
    assert column_of(codes).type == "category"
    assert column_of(codes, "number").type == "number"
    assert column_of(codes.rename("x")).type == "number"
    assert column_of(codes.rename("x"), "category").type == "category"
    asked = Roles(**GIVEN, types={"price": "category"})
    assert features_of(shops(), asked).of("category")[0] == "price"


FAMILIES = {
    "counts": (np.arange(40) % 9 * (np.arange(40) % 3 == 0), "poisson"),
    "large counts": (np.arange(100) ** 2, "gaussian"),
    "a scale from 1 to 5": (np.arange(40) % 5 + 1, "gaussian"),
    "amounts": (np.exp(np.linspace(-3, 3, 50)), "gamma"),
    "heights": (np.linspace(1.5, 2, 50), "gaussian"),
    "differences": (np.linspace(-1, 1, 50) ** 3, "gaussian"),
}


@pytest.mark.parametrize(("values", "family"), FAMILIES.values(), ids=FAMILIES.keys())
def test_families(values, family):
    found = target_of(pd.Series(values, name="y"))
    assert (found.kind, found.family) == ("regression", family)
    assert target_of(pd.Series(values, name="y"), family="student").family == "student"


@pytest.mark.parametrize("seed", range(20))
def test_encoding_is_that_of_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    n_rows, n_levels = int(rng.integers(10, 800)), int(rng.integers(1, 60))
    levels = rng.choice(n_levels, n_rows, p=rng.dirichlet(np.ones(n_levels)))
    frame = pd.DataFrame({"x": rng.normal(size=n_rows), "kind": [f"l{i}" for i in levels]})
    frame = frame.mask(rng.random(frame.shape) < [0.1, rng.choice([0.0, 0.02, 0.2])])
    reference = ColumnTransformer(
        [
            ("number", SimpleImputer(strategy="median", add_indicator=True), ["x"]),
            (
                "category",
                OneHotEncoder(
                    drop="if_binary",
                    min_frequency=max(1, min(10, int(0.02 * n_rows))),
                    max_categories=30,
                    handle_unknown="infrequent_if_exist",
                    sparse_output=False,
                ),
                ["kind"],
            ),
        ]
    )
    filled = frame.assign(kind=frame["kind"].astype(object).fillna("(missing)"))
    encoder = TableEncoder.of(frame, ["x"], ["kind"])
    assert np.array_equal(encoder.encode(frame), reference.fit_transform(filled))
    new = frame.assign(x=np.nan, kind=np.where(rng.random(n_rows) < 0.5, "never", frame["kind"]))
    filled = new.assign(kind=new["kind"].astype(object).fillna("(missing)"))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Found unknown categories")
        expected = reference.transform(filled)
    assert np.array_equal(encoder.encode(new), expected)


def test_families_that_are_refused():
    for wrong, message in (
        ({"family": "normal"}, "Option family must be one of auto, gaussian, .* got 'normal'"),
        ({"kind": "ranking"}, "Option kind must be one of auto, regression, classification; got"),
        ({"family": "poisson", "kind": "classification"}, "is for numbers, not classes"),
    ):
        with pytest.raises(ValueError, match=message):
            FitSettings(task="g", target="y", **wrong)
