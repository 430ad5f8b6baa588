"""Task labels: what is encoded is found again, and every task is spread over the folds."""

import datetime as dt
import math
import pickle
from collections import deque

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crosslearning.tasks import TaskIndex, check_tasks, split_task_column, within_task_folds
from crosslearning.tasks.labels import codes_of, groups_of, parents_of, paths_like, paths_of

scalars = (
    st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=3)
    | st.dates()
    | st.integers(-3, 3).map(np.int64)
    | st.sampled_from(["a", "b"]).map(np.str_)
)
labels = scalars | st.tuples(scalars, scalars)
sortable = st.lists(st.integers(-5, 5)) | st.lists(st.text("abc", max_size=2))
numbers_of_splits = st.integers(2, 7)


@st.composite
def codes_and_classes(draw):
    pairs = st.tuples(st.integers(0, 6), st.sampled_from("xyzuvw"))
    rows = draw(st.lists(pairs, min_size=7, max_size=60))
    codes, classes = zip(*rows, strict=True)
    return np.array(codes), list(classes)


def spread(folds, n_splits):
    """Difference between the largest and the smallest fold."""
    return np.ptp(np.bincount(folds, minlength=n_splits))


@given(st.lists(labels))
def test_encoding_inverts(tasks):
    index, codes = TaskIndex.of(tasks)
    assert codes.dtype == np.int64
    assert [index.labels[code] for code in codes] == tasks
    assert set(index.labels) == set(tasks)
    assert len(index) == len(set(tasks))
    np.testing.assert_array_equal(index.encode(tasks), codes)


@given(st.lists(labels), st.lists(labels))
def test_labels_never_seen_are_minus_one(known, asked):
    index, _ = TaskIndex.of(known)
    for label, code in zip(asked, index.encode(asked), strict=True):
        assert (code == -1) == (label not in set(known))
        assert code == -1 or {index.labels[code]} == {label}


@given(sortable, st.randoms(use_true_random=False))
def test_sortable_labels_are_sorted_whatever_the_order_of_rows(tasks, random):
    index, _ = TaskIndex.of(tasks)
    assert list(index.labels) == sorted(set(tasks))
    random.shuffle(tasks)
    assert TaskIndex.of(tasks)[0] == index


def test_labels_that_cannot_be_compared_keep_their_order():
    assert TaskIndex.of(["b", 1, "a", 1])[0].labels == ("b", 1, "a")


def containers(tasks):
    n = len(tasks)
    yield from (tuple(tasks), deque(tasks), np.array(tasks), np.array(tasks, dtype=object))
    yield from (np.array(tasks)[:, np.newaxis], [[task] for task in tasks])
    yield from (
        pd.Series(tasks, index=range(n, 0, -1)),
        pd.Index(tasks),
        pd.DataFrame({"t": tasks}),
    )
    yield from (pd.array(tasks), pd.Categorical(tasks), pd.Series(tasks, dtype="category"))


@pytest.mark.parametrize(
    "tasks",
    [
        ["b", "a", "b"],
        [3, 1, 3],
        [2.5, -1.0, 2.5],
        [True, False, True],
        [pd.Timestamp(2021, 1, 1), pd.Timestamp(2020, 1, 1), pd.Timestamp(2021, 1, 1)],
        [pd.Timedelta(2, "h"), pd.Timedelta(1, "h"), pd.Timedelta(2, "h")],
    ],
    ids=lambda tasks: type(tasks[0]).__name__,
)
def test_every_container_holds_the_same_labels(tasks):
    index, codes = TaskIndex.of(tasks)
    assert codes.tolist() == [1, 0, 1]
    for container in containers(tasks):
        same, same_codes = TaskIndex.of(container)
        assert same == index
        assert same_codes.tolist() == [1, 0, 1]
        assert [type(label) for label in same.labels] == [type(label) for label in index.labels]
        assert index.encode(container).tolist() == [1, 0, 1]
        assert check_tasks(container, 3).tolist() == tasks


def test_equal_numbers_are_one_label():
    index, codes = TaskIndex.of([1, 1.0, np.int8(1), np.float32(1), True])
    assert index.labels == (1,)
    assert codes.tolist() == [0] * 5
    assert index.encode(np.array([1.0, 1.5])).tolist() == [0, -1]
    assert index.encode(["1"]).tolist() == [-1]


@pytest.mark.parametrize(
    ("known", "same", "other"),
    [
        ([1, 2], [3, 2.0, np.int8(4)], ["7"]),
        (["1", "2"], [np.str_("3")], [1, 7]),
        ([("a", 1)], [("a", 2.0)], [("a", "1")]),
        ([1, "a"], [2, "b"], [("a", 1)]),
        (
            [pd.Timestamp(2020, 1, 1)],
            [dt.datetime(2021, 1, 1)],
            ["2020-01-01", dt.date(2020, 1, 1)],
        ),
    ],
)
def test_a_type_never_seen_is_refused_if_it_must_be_a_mistake(known, same, other):
    index = TaskIndex(known)
    assert -1 in index.encode(same, strict=True)
    assert index.encode([*known, *other])[-1] == -1
    with pytest.raises(
        ValueError, match=r"`tasks` must have labels of the types in `fit`, such as"
    ):
        index.encode(other, strict=True)


def test_the_text_of_a_known_label_is_refused_among_known_ones():
    index = TaskIndex([1, 2])
    assert index.encode([1, "new"], strict=True).tolist() == [0, -1]
    with pytest.raises(ValueError, match=r"such as 2 \(int\); got '2' \(str\)"):
        index.encode([1, "2"], strict=True)


def test_numpy_dates_are_found_as_python_dates():
    days = np.array(["2021-01-01", "2020-01-01"], dtype="datetime64[D]")
    index, codes = TaskIndex.of(days)
    assert codes.tolist() == [1, 0]
    assert index.encode([dt.datetime(2020, 1, 1)]).tolist() == [0]
    assert index.encode(list(days)).tolist() == [1, 0]
    assert TaskIndex.of([np.timedelta64(1, "h")])[0].labels == (pd.Timedelta(1, "h"),)


def test_tuples_are_labels():
    tasks = [("Iowa", 2), ("Iowa", 1), ("Iowa", 2)]
    index, codes = TaskIndex.of(tasks)
    assert index.labels == (("Iowa", 1), ("Iowa", 2))
    assert index.encode(pd.MultiIndex.from_tuples(tasks)).tolist() == codes.tolist() == [1, 0, 1]


def test_categories_keep_their_order_and_those_that_do_not_occur_are_left_out():
    sizes = pd.Categorical(["small", "large", "small"], categories=["small", "medium", "large"])
    index, codes = TaskIndex.of(sizes)
    assert index.labels == ("small", "large")
    assert codes.tolist() == [0, 1, 0]
    assert index.encode(["medium", "large"]).tolist() == [-1, 1]
    assert TaskIndex.of(pd.cut([1, 9, 2], [0, 5, 10]))[1].tolist() == [0, 1, 0]


def test_an_index_is_a_value():
    index = TaskIndex(["b", "a"])
    assert index.labels == ("b", "a")
    assert index.encode(["a"]).tolist() == [1]
    assert pickle.loads(pickle.dumps(index)) == index
    assert len({index, TaskIndex(("b", "a"))}) == 1
    with pytest.raises(ValueError, match="3 labels, 2 of them distinct"):
        TaskIndex(("a", "b", "a"))


@pytest.mark.parametrize("missing", [None, math.nan, np.float32("nan"), pd.NA, pd.NaT])
def test_missing_labels_are_counted_and_their_rows_named(missing):
    tasks = ["a", missing, "b", missing]
    message = r"`tasks` has no label in 2 rows: 1, 3\. Fill them in or drop the rows\."
    with pytest.raises(ValueError, match=message):
        check_tasks(tasks, 4)
    with pytest.raises(ValueError, match=message):
        TaskIndex.of(pd.Series(tasks, dtype=object, index=[9, 9, 9, 9]))
    with pytest.raises(ValueError, match=message):
        TaskIndex(("a", "b")).encode(tasks)


@pytest.mark.parametrize(
    "tasks",
    [
        np.array([1.0, math.nan]),
        pd.Categorical(["a", None]),
        pd.array([1, None], dtype="Int64"),
        pd.Series(["a", None], dtype="string"),
        np.array(["2020-01-01", "NaT"], dtype="datetime64[s]"),
    ],
    ids=lambda tasks: str(tasks.dtype),
)
def test_missing_labels_of_every_dtype(tasks):
    for check in (TaskIndex.of, lambda tasks: check_tasks(tasks, 2)):
        with pytest.raises(ValueError, match=r"no label in 1 row: 1\. Fill it in or drop the row"):
            check(tasks)


def test_ten_rows_are_named():
    with pytest.raises(ValueError, match=r"in 12 rows: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, …"):
        TaskIndex.of([None] * 12)


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ("school", r"got the string 'school'.*use task_column='school'"),
        (b"school", "got bytes"),
        (None, "got NoneType"),
        (7, "got int"),
        ({"a", "b"}, "got set"),
        ({"a": 1}, "got dict"),
        (np.array(1), "got ndarray"),
        (np.ones((2, 2)), r"of shape \(2, 2\)"),
        (np.ones((1, 2)), r"of shape \(1, 2\)"),
        (pd.DataFrame({"a": [1], "b": [2]}), r"of shape \(1, 2\)"),
        ([["a", "b"], ["c", "d"]], r"of shape \(2, 2\)"),
    ],
)
def test_what_is_not_one_label_per_row_is_refused(tasks, message):
    for check in (TaskIndex.of, TaskIndex(("a",)).encode, lambda tasks: check_tasks(tasks, 2)):
        with pytest.raises(ValueError, match=message):
            check(tasks)


@pytest.mark.parametrize("bad", [{}, ["c"], ("c", [])], ids=repr)
def test_unhashable_labels_are_refused(bad):
    with pytest.raises(ValueError, match=r"must hold hashable labels"):
        TaskIndex.of(["a", bad])


def test_wrong_length():
    with pytest.raises(ValueError, match="got 2 labels for 3 rows"):
        check_tasks(["a", "b"], 3)


def test_task_column_is_split_off_and_the_frame_left_alone():
    X = pd.DataFrame({"ses": [0.1, 0.2], "school": ["a", "b"]}, index=[5, 6])
    before = X.copy(deep=True)
    features, tasks = split_task_column(X, "school")
    assert list(features) == ["ses"]
    assert tasks.tolist() == ["a", "b"]
    assert tasks.index.tolist() == features.index.tolist() == [5, 6]
    features.loc[5, "ses"] = 9.0
    tasks.loc[5] = "z"
    pd.testing.assert_frame_equal(X, before)


def test_task_column_errors():
    X = pd.DataFrame([[1, 2, 3]], columns=["a", "b", "b"])
    with pytest.raises(ValueError, match=r"'school' names 0\. The columns are 'a', 'b', 'b'\."):
        split_task_column(X, "school")
    with pytest.raises(ValueError, match=r"'b' names 2"):
        split_task_column(X, "b")
    with pytest.raises(ValueError, match=r"must be a pandas DataFrame; got ndarray"):
        split_task_column(X.to_numpy(), "a")
    with pytest.raises(ValueError, match=r"18, 19, …\.$"):
        split_task_column(pd.DataFrame(np.ones((1, 30))), "a")


@given(codes_and_classes(), numbers_of_splits, st.integers(0, 2**32))
def test_folds_are_balanced_and_follow_the_seed(rows, n_splits, seed):
    codes, classes = rows
    folds = within_task_folds(codes, n_splits, seed)
    assert folds.dtype == np.int64
    assert set(folds) == set(range(n_splits))
    assert spread(folds, n_splits) <= 1
    assert all(spread(folds[codes == task], n_splits) <= 1 for task in set(codes))
    np.testing.assert_array_equal(folds, within_task_folds(codes.tolist(), n_splits, seed))
    again = [within_task_folds(codes, n_splits, seed, classes) for _ in range(2)]
    np.testing.assert_array_equal(*again)


@given(codes_and_classes(), numbers_of_splits, st.integers(0, 2**32))
def test_every_class_can_be_learned_in_every_fold(rows, n_splits, seed):
    codes, classes = rows
    free = within_task_folds(codes, n_splits, seed)
    folds = within_task_folds(codes, n_splits, seed, classes)
    assert spread(folds, n_splits) <= 1
    members = [np.array(classes) == name for name in sorted(set(classes))]
    several = [own for own in members if own.sum() > 1]
    assert all(len(set(folds[own])) > 1 for own in several)
    # Rows move only for classes that would be missing: one pair for each.
    confined = sum(len(set(free[own])) == 1 for own in several)
    assert np.sum(folds != free) <= 2 * confined


def test_rows_are_shuffled():
    codes = np.repeat([0, 1], 50)
    assert any(within_task_folds(codes, 5, 0) != within_task_folds(codes, 5, 1))
    generator = np.random.default_rng(0)
    folds = [within_task_folds(codes, 5, generator) for _ in range(2)]
    assert any(folds[0] != folds[1])


def test_tasks_of_one_row_are_spread_at_random():
    # 2,000 tasks that alternate: were they dealt by name, every even one would share a fold.
    even = within_task_folds(np.arange(2000), 2, seed=0)[::2]
    assert 400 < even.sum() < 600


def test_folds_know_nothing_of_classes():
    # Tasks of two rows, one of each class, and three folds: the classes fall where they may.
    codes, classes = np.repeat(np.arange(2000), 2), ["a", "b"] * 2000
    folds = within_task_folds(codes, 3, 0, classes)
    np.testing.assert_array_equal(folds, within_task_folds(codes, 3, 0))
    # Were ten rows of a task stratified, the shares of five rows in two folds would be equal.
    codes, y = np.repeat(np.arange(500), 10), np.random.default_rng(0).integers(2, size=5000)
    first = within_task_folds(codes, 2, 0, y) == 0
    halves = [np.bincount(codes[part], y[part]) for part in (first, ~first)]
    assert abs(np.corrcoef(*halves)[0, 1]) < 0.1


@pytest.mark.parametrize("n_splits", [1, 0, -2, 4, 2.5, "3", math.nan])
def test_number_of_splits_is_checked(n_splits):
    with pytest.raises(ValueError, match="whole number from 2 to the number of rows, 3"):
        within_task_folds([0, 0, 1], n_splits, seed=0)


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        ([[0], [1]], r"shape \(2, 1\)"),
        ([0.0, 1.0], "dtype float64"),
        ([], r"shape \(0,\)"),
        ([0, -1], "at least 0 per row"),
    ],
)
def test_codes_are_checked(codes, message):
    with pytest.raises(ValueError, match=message):
        within_task_folds(codes, 2, seed=0)


def test_classes_are_checked():
    with pytest.raises(ValueError, match="`classes` must hold one label per row; got 2 labels"):
        within_task_folds([0, 0, 1], 2, seed=0, classes=["x", "y"])
    with pytest.raises(ValueError, match="`classes` has no label in 1 row: 1"):
        within_task_folds([0, 0], 2, seed=0, classes=["x", None])
    with pytest.raises(ValueError, match=r"`classes` must .* got the string 'x'\.$"):
        within_task_folds([0, 0], 2, seed=0, classes="x")


def test_labels_of_several_columns_are_paths_and_have_parents():
    frame = pd.DataFrame({"school": [1, 1], "district": ["n", "s"]})
    assert paths_of(frame[["district", "school"]], 2) == [("n", 1), ("s", 1)]
    fitted = [("n", 1), ("n", 2), ("s", 1)]
    rows = paths_like(frame, 2, ["district", "school"], fitted)
    assert rows == [("n", 1), ("s", 1)]
    groups = groups_of(fitted)
    assert groups == [[("n",), ("s",)]]
    assert [parents.tolist() for parents in parents_of(fitted, groups)] == [[0, 0, 1], [0, 0]]
    new = [*rows, ("s", 7), ("w", 1)]
    assert codes_of(new, fitted, groups).tolist() == [0, 2, 4, -1]
