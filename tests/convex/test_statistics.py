"""Additive statistics: exact sums, any order, any chunks, no digits lost."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crosslearning.convex.sums.columns import Scaling
from crosslearning.convex.sums.statistics import Statistics

FIELDS = ("counts", "weights", "log_weights", "means", "scatters")


def table(seed=0, n=200, p=3, n_tasks=7):
    rng = np.random.default_rng(seed)
    tasks = rng.integers(n_tasks, size=n)
    X = rng.normal(size=(n, p)) * 10.0 ** rng.integers(-3, 4, size=p) + rng.normal(size=p)
    return X, rng.normal(size=n), tasks, rng.uniform(0.5, 2.0, size=n)


def assert_same(one, other, rtol=1e-10):
    np.testing.assert_array_equal(one.labels, other.labels)
    assert one.n_folds == other.n_folds
    scale = np.sqrt(np.einsum("...jj->...j", other.cells.scatters).max(axis=(0, 1)) + 1e-300)
    for field in FIELDS:
        a, b = getattr(one.cells, field), getattr(other.cells, field)
        unit = {"means": scale, "scatters": np.outer(scale, scale)}.get(field, 1.0)
        np.testing.assert_allclose(a / unit, b / unit, rtol=rtol, atol=rtol)


def test_agree_with_sums_over_the_rows_of_each_task():
    X, y, tasks, weights = table()
    statistics = Statistics.of(X, y, tasks, sample_weight=weights)
    rows = np.column_stack([X, y])
    for i, label in enumerate(statistics.labels):
        own, w = rows[tasks == label], weights[tasks == label]
        mean = np.average(own, axis=0, weights=w)
        np.testing.assert_allclose(statistics.cells.means[i, 0], mean, rtol=1e-12)
        scatter = (own - mean).T @ (w[:, None] * (own - mean))
        np.testing.assert_allclose(statistics.cells.scatters[i, 0], scatter, rtol=1e-10, atol=1e-12)
        assert statistics.cells.counts[i, 0] == len(own)
        np.testing.assert_allclose(statistics.cells.log_weights[i, 0], np.log(w).sum())


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 4))
def test_chunks_in_any_order_and_any_partition_are_the_whole(seed, n_chunks, n_folds):
    X, y, tasks, weights = table(seed % 1000, n=60)
    rng = np.random.default_rng(seed)
    folds, chunk = rng.integers(n_folds, size=60), rng.integers(n_chunks, size=60)

    def some(rows):
        return Statistics.of(
            X[rows],
            y[rows],
            tasks[rows],
            sample_weight=weights[rows],
            folds=folds[rows],
            n_folds=n_folds,
        )

    whole = some(slice(None))
    parts = [some(chunk == k) for k in rng.permutation(n_chunks)]
    left = sum(parts[1:], parts[0])
    right = parts[0] + sum(parts[2:], parts[1]) if n_chunks > 1 else left
    streamed = Statistics(n_folds)
    for k in range(n_chunks):
        rows = chunk == k
        streamed.partial_fit(
            X[rows], y[rows], tasks[rows], sample_weight=weights[rows], folds=folds[rows]
        )
    for merged in (left, right, streamed):
        assert_same(merged, whole)


def test_total_minus_a_fold_is_the_rest():
    X, y, tasks, weights = table(1)
    folds = np.random.default_rng(1).integers(5, size=len(y))
    folds[tasks == 3] = 2  # a task that one fold holds alone
    statistics = Statistics.of(X, y, tasks, sample_weight=weights, folds=folds)
    for k in range(5):
        rest = statistics.total() - statistics.fold(k)
        rows = folds != k
        labels = np.unique(tasks)
        direct = Statistics.of(
            X[rows],
            y[rows],
            np.searchsorted(labels, tasks[rows]),
            labels=labels,
            sample_weight=weights[rows],
        )
        assert_same(rest, direct, rtol=1e-9)
        if k == 2:
            assert rest.cells.counts[3, 0] == 0
            assert not rest.cells.scatters[3].any()
            assert not rest.cells.means[3].any()


def test_parts_do_not_share_memory_with_the_whole():
    X, y, tasks, _ = table()
    statistics = Statistics.of(X, y, tasks, n_folds=2)
    before = statistics.cells.scatters.copy()
    for part in (statistics.fold(0), statistics.total(), statistics + Statistics(2)):
        folds = np.zeros(len(y), dtype=int)
        part.partial_fit(X, y, tasks, folds=folds)
    np.testing.assert_array_equal(statistics.cells.scatters, before)


def test_a_large_mean_costs_no_more_than_the_digits_of_the_data():
    rng = np.random.default_rng(0)
    spread = rng.normal(size=(300, 3))
    rows = spread + 1e8  # rounded here: these are the data
    tasks = rng.integers(4, size=300)
    parts = [Statistics.of(rows[k::3, :2], rows[k::3, 2], tasks[k::3]) for k in range(3)]
    merged = (parts[0] + parts[1] + parts[2]).cells.scatters[:, 0]
    once = Statistics.of(rows[:, :2], rows[:, 2], tasks).cells.scatters[:, 0]
    for i in range(4):
        exact = [[Fraction(float(v)) for v in row] for row in rows[tasks == i]]
        n = len(exact)
        mean = [sum(column) / n for column in zip(*exact, strict=True)]
        for j in range(3):
            for k in range(3):
                truth = sum((row[j] - mean[j]) * (row[k] - mean[k]) for row in exact)
                assert abs(once[i, j, k] - float(truth)) <= 1e-13 * n
                # As if every number of the data had been rounded once more.
                assert abs(merged[i, j, k] - float(truth)) <= np.spacing(1e8) * n


def test_moments_are_those_of_the_scaled_rows():
    X, y, tasks, weights = table(2)
    statistics = Statistics.of(X, y, tasks, sample_weight=weights, n_folds=3)
    scaling = statistics.scaling()
    direct = Scaling.of(X, weights, center=True, scale=True)
    np.testing.assert_allclose(scaling.mean, direct.mean, rtol=1e-10)
    np.testing.assert_allclose(scaling.scale, direct.scale, rtol=1e-10)
    for intercept in (True, False):
        moments = statistics.moments(scaling, intercept=intercept)
        shift = np.average(y, weights=weights) if intercept else 0.0
        assert moments.target_mean == pytest.approx(shift)
        rows = np.column_stack([direct.columns(X, intercept=intercept), y - shift])
        for i in range(7):
            own = rows[tasks == i]
            np.testing.assert_allclose(
                moments.products[i], own.T @ (weights[tasks == i, None] * own), atol=1e-9
            )


def test_constant_columns_keep_their_scale():
    X, y, tasks, _ = table()
    X = np.column_stack([X, np.full(len(X), 1e6 / 3)])
    scaling = Statistics.of(X, y, tasks, n_folds=3).scaling()
    assert scaling.scale[-1] == 1.0
    assert scaling.mean[-1] == pytest.approx(1e6 / 3)


@given(st.integers(0, 1000), st.integers(2, 6))
def test_dealt_folds_of_a_task_differ_by_at_most_one_row(seed, n_folds):
    X, y, tasks, _ = table(seed % 50, n=97)
    counts = Statistics.of(X, y, tasks, n_folds=n_folds, seed=seed).cells.counts
    assert np.all(np.ptp(counts, axis=1) <= 1)
    assert np.ptp(counts.sum(axis=0)) <= 1


def test_folds_follow_from_the_seed():
    X, y, tasks, _ = table()
    one, same, other = (Statistics.of(X, y, tasks, n_folds=4, seed=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(one.cells.scatters, same.cells.scatters)
    assert np.any(one.cells.scatters != other.cells.scatters)


def test_rows_of_weight_zero_are_not_there_but_their_tasks_are():
    X, y, tasks, weights = table()
    weights[tasks == 2] = 0.0
    statistics = Statistics.of(X, y, tasks, sample_weight=weights)
    assert statistics.n_tasks == 7
    assert statistics.cells.counts[2, 0] == 0
    assert np.isfinite(statistics.moments(statistics.scaling()).products).all()


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["b", "longer", "a"]),
        np.array(["b", "longer", "a"], dtype=object),
        np.array([3, -1, 7], dtype=np.int32),
        np.array([0.5, 2.5, 1e300]),
        np.array(["2020-01-01", "1999-05-01", "2021-01-01"], dtype="M8[D]"),
    ],
)
def test_survive_a_file_without_pickle(tmp_path, labels):
    X, y, tasks, weights = table(n_tasks=3)
    by_label = Statistics.of(X, y, labels[tasks], sample_weight=weights, n_folds=2)
    by_code = Statistics.of(X, y, tasks, labels=labels, sample_weight=weights, n_folds=2)
    by_label.save(tmp_path / "statistics.npz")
    loaded = Statistics.load(tmp_path / "statistics.npz")
    assert [path.name for path in tmp_path.iterdir()] == ["statistics.npz"]
    assert (loaded.n_folds, loaded.seed) == (2, 0)
    for other in (loaded, by_code):
        np.testing.assert_array_equal(other.labels, by_label.labels)
        for field in FIELDS if other is loaded else FIELDS[:1]:
            np.testing.assert_array_equal(
                getattr(other.cells, field), getattr(by_label.cells, field)
            )


def test_files_of_another_kind_are_refused(tmp_path):
    np.savez(tmp_path / "other.npz", a=np.zeros(2))
    with pytest.raises(ValueError, match="is not a statistics file"):
        Statistics.load(tmp_path / "other.npz")
    X, y, tasks, _ = table(n=6, n_tasks=2)
    labels = np.empty(2, dtype=object)
    labels[:] = [("a", 1), ("b", 2)]
    mixed = Statistics.of(X, y, labels[tasks])
    with pytest.raises(ValueError, match="strings, numbers or dates"):
        mixed.save(tmp_path / "no.npz")


def _raises(match, X=None, **changes):
    base_X, y, tasks, _ = table(n=8, n_tasks=2)
    arguments = {"y": y, "tasks": tasks} | changes
    with pytest.raises(ValueError, match=match):
        Statistics.of(base_X if X is None else X, **arguments)


def test_bad_input_is_named():
    nan = table(n=8)[0]
    nan[5, 1] = np.nan
    _raises("row 5", X=nan)
    _raises("one number for each", y=np.zeros(3))
    _raises("one label for each", tasks=np.zeros(3))
    _raises("number 1 is missing", tasks=np.array([1, np.nan] * 4))
    _raises("number 0 is missing", tasks=np.array([None, "a"] * 4, dtype=object))
    _raises("of one type", tasks=np.array([1, "a"] * 4, dtype=object))
    _raises("smallest value -1.0", sample_weight=np.full(8, -1.0))
    _raises("from 0 to 1 for each", folds=np.array([0, 2] * 4), n_folds=2)
    _raises("a whole number from 0 to 1", folds=np.zeros(8), n_folds=2)
    _raises("from 0 to 0", labels=["a"], tasks=np.array([0, 1] * 4))
    _raises("must be distinct; got 2, 1 distinct", labels=["a", "a"])
    _raises("at least 1", n_folds=0)


def test_what_does_not_fit_together_is_refused():
    X, y, tasks, _ = table()
    statistics = Statistics.of(X, y, tasks)
    with pytest.raises(ValueError, match="the same number of folds"):
        statistics + Statistics(2)
    with pytest.raises(ValueError, match="same features"):
        statistics + Statistics.of(X[:, :1], y, tasks)
    with pytest.raises(ValueError, match="one type"):
        statistics + Statistics.of(X, y, tasks.astype(str))
    with pytest.raises(ValueError, match="include their"):
        Statistics.of(X[:10], y[:10], tasks[:10]) - statistics
    with pytest.raises(ValueError, match="include their"):
        statistics - Statistics.of(X, y, tasks + 1)


def test_sum_adds_up_and_strangers_are_refused():
    rng = np.random.default_rng(0)
    X, y, tasks = rng.normal(size=(6, 2)), rng.normal(size=6), [0, 0, 1, 1, 2, 2]
    whole = Statistics.of(X, y, tasks)
    parts = sum(Statistics.of(X[k : k + 2], y[k : k + 2], tasks[k : k + 2]) for k in (0, 2, 4))
    np.testing.assert_allclose(parts.cells.scatters, whole.cells.scatters)
    assert repr(whole) == "Statistics(6 rows, 3 tasks, 2 features, 1 folds)"
    for wrong in (lambda: whole + 1, lambda: whole - "a", lambda: 1 + whole):
        with pytest.raises(TypeError, match="unsupported operand"):
            wrong()


def test_chunks_with_few_rows_of_a_cell_are_the_whole():
    rng = np.random.default_rng(0)
    X, y = 1e8 + rng.normal(size=(60, 3)), rng.normal(size=60)
    tasks, folds, weights = np.arange(60) % 7, rng.integers(2, size=60), rng.random(60)
    whole = Statistics.of(X, y, tasks, sample_weight=weights, folds=folds)
    in_chunks = Statistics.empty(np.arange(7), 3, 2)
    for part in np.array_split(rng.permutation(60), 12):
        rows = {"sample_weight": weights[part], "folds": folds[part]}
        in_chunks.partial_fit(X[part], y[part], tasks[part], **rows)
    for name in FIELDS:
        pair = getattr(in_chunks.cells, name), getattr(whole.cells, name)
        np.testing.assert_allclose(*pair, rtol=1e-7, atol=1e-7)


def test_chunks_with_cells_of_very_different_sizes_are_the_whole():
    rng = np.random.default_rng(0)
    n, n_tasks = 30_000, 3_000
    tasks = (n_tasks * rng.random(n) ** 6).astype(int)  # from no rows to thousands
    X, y, weights = rng.normal(5.0, 1.0, (n, 32)), rng.normal(size=n), rng.uniform(0.1, 2.0, n)
    folds = rng.integers(2, size=n)
    sums = Statistics.empty(np.arange(n_tasks), 32, 2)
    for part in np.array_split(np.arange(n), [100, 101, 9_000]):
        rows = {"sample_weight": weights[part], "folds": folds[part], "labels": sums.labels}
        sums.partial_fit(X[part], y[part], tasks[part], **rows)
    rows = np.column_stack([X, y])
    counts = np.bincount(2 * tasks + folds, minlength=2 * n_tasks).reshape(n_tasks, 2)
    np.testing.assert_array_equal(sums.cells.counts, counts)
    for i in [0, *rng.choice(np.flatnonzero(counts.min(axis=1)), 100)]:
        here = (tasks == i) & (folds == 1)
        mean = np.average(rows[here], axis=0, weights=weights[here])
        scatter = (rows[here] - mean).T @ (weights[here, None] * (rows[here] - mean))
        np.testing.assert_allclose(sums.cells.means[i, 1], mean, rtol=1e-12)
        np.testing.assert_allclose(sums.cells.scatters[i, 1], scatter, rtol=1e-8, atol=1e-11)


def test_a_difference_has_no_rounding_errors_in_columns_that_do_not_vary():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    X[20:, 1] = 0.3
    y, tasks = rng.normal(size=40), np.zeros(40, dtype=int)
    rest = Statistics.of(X, y, tasks) - Statistics.of(X[:20], y[:20], tasks[:20])
    exact = Statistics.of(X[20:], y[20:], tasks[20:])
    np.testing.assert_array_equal(rest.cells.scatters[..., 1, :], 0.0)
    np.testing.assert_allclose(rest.cells.scatters, exact.cells.scatters, atol=1e-12)
