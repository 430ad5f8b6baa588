"""Linear models in one round: as from all rows."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("flwr", reason="the extra `flower` is not installed")

from flwr.app import Array
from sklearn.model_selection import PredefinedSplit

from crosslearning import CrossBayesianRidge, CrossRidgeCV, Statistics
from crosslearning.federated import collect_statistics, statistics_app
from tests.support.flower_grid import LocalGrid, Node

rng = np.random.default_rng(0)
TASKS = np.repeat(["art", "clip", "photo", "real"], [30, 20, 40, 10])
X = rng.normal(size=(100, 3)) + 5.0
Y = X @ [1.0, 2.0, 3.0] + rng.normal(size=100) + (TASKS == "art")


def node(rows, fault=None):
    def summarise(settings):
        assert settings["partition-id"] == 0
        return Statistics.of(X[rows], Y[rows], TASKS[rows])

    faults = {("query.statistics", 0): fault} if fault else None
    return Node(statistics_app(summarise), {"partition-id": 0}, faults=faults)


def changed(name, change):
    def fault(content):
        content["sums"][name] = Array(change(content["sums"][name].numpy()))
        return content

    return fault


def assert_same_models(statistics, rows):
    model = CrossBayesianRidge().fit_statistics(statistics)
    whole = CrossBayesianRidge().fit(X[rows], Y[rows], tasks=TASKS[rows])
    assert model.tasks_.tolist() == whole.tasks_.tolist()
    np.testing.assert_allclose(model.coef_, whole.coef_, rtol=1e-7)
    np.testing.assert_allclose(model.task_sd_, whole.task_sd_, rtol=1e-5, atol=1e-12)


def test_sums_of_clients_are_as_good_as_all_rows():
    parts = np.array_split(rng.permutation(100), 3)  # clients share tasks
    grid = LocalGrid([node(rows) for rows in parts])
    assert_same_models(collect_statistics(grid), slice(None))
    # 4 tasks with 3 features and a target: counts, weights, means, scatter; no row.
    assert grid.bytes["up"] < 3 * 2000


def test_sums_of_clients_with_folds_choose_and_fit_the_same():
    folds = np.arange(100) % 3
    parts = np.array_split(rng.permutation(100), 3)

    def part(rows):
        sums = Statistics.of(X[rows], Y[rows], TASKS[rows], folds=folds[rows], n_folds=3)
        return Node(statistics_app(lambda _: sums))

    sums = collect_statistics(LocalGrid([part(rows) for rows in parts]))
    for metric in ("standard", "learned"):
        options = {"n_epsilons": 3, "metric": metric}
        model = CrossRidgeCV(**options).fit_statistics(sums)
        whole = CrossRidgeCV(cv=PredefinedSplit(folds), **options).fit(X, Y, tasks=TASKS)
        for name in ("epsilon_", "best_score_", "coef_"):
            np.testing.assert_allclose(getattr(model, name), getattr(whole, name), rtol=1e-8)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (changed("means", lambda a: a * np.nan), "`means` is NaN or infinite"),
        (changed("scatters", lambda a: a[..., :2]), "`scatters` is float64"),
        (changed("means", lambda a: np.asarray(a[0, 0, 0])), "tuple index out of range"),
        (changed("counts", lambda a: a.astype(float)), "`counts` is float64"),
        (lambda content: content.clear() or content, "'header'"),
    ],
)
def test_a_client_that_sends_rubbish_is_named_and_left_out(fault, words, caplog):
    bad = node(np.flatnonzero(TASKS == "clip"), fault)
    rest = np.flatnonzero(TASKS != "clip")
    grid = LocalGrid([node(rest[::2]), bad, node(rest[1::2])])
    assert_same_models(collect_statistics(grid), rest)
    assert f"Node {bad.id} is left out" in caplog.text
    assert words in caplog.text
    with pytest.raises(RuntimeError, match=r"at least 3 clients are needed; got those of 2 of 3"):
        collect_statistics(LocalGrid([node(rest[::2]), node(rest), Node(None)]), min_nodes=3)


def test_other_features_cannot_be_added(caplog):
    other = Node(statistics_app(lambda _: Statistics.of(X[:, :2], Y, TASKS)))
    grid = LocalGrid([node(slice(None)), other])
    assert_same_models(collect_statistics(grid, min_nodes=1), slice(None))
    assert "All rows must have the same features" in caplog.text


def test_nodes_are_waited_for_until_the_time_is_up():
    with pytest.raises(RuntimeError, match="got those of 0 of 0"):
        collect_statistics(LocalGrid([]), timeout=0.01)
