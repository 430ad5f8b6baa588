"""Tasks that do not differ: no table may make cross-learning look better than pooling."""

import numpy as np
import pytest
from scipy.stats import binom

from crosslearning.evaluation.comparison import Effect
from crosslearning.linear import CrossLogisticRegressionCV, CrossRidgeCV

LEVEL = 0.05  # of false verdicts, "helps" and "hurts" together, by Student's t test
N_COINS, N_SHOPS = 10, 100


def permuted(seed, n_classes):
    """A table of 6-20 tasks with 5-40 rows each, whose task labels are permuted."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(5, 41, size=rng.integers(6, 21))
    X = rng.normal(size=(sizes.sum(), 2))
    signal = X @ [1.0, -0.5]
    if n_classes is None:
        y = signal + rng.normal(size=len(signal))
    else:
        scores = np.outer(signal, np.arange(n_classes))
        y = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    return X, y, rng.permutation(np.repeat(np.arange(len(sizes)), sizes))


def verdict(seed, n_classes, metric):
    """Whether cross-learning seems to help against pooling."""
    kind = CrossRidgeCV if n_classes is None else CrossLogisticRegressionCV
    radii = [0.0, 0.1, 0.3, 1.0, np.inf]
    model = kind(radii, alphas=[1.0], cv=3, metric=metric, random_state=seed)
    X, y, tasks = permuted(seed, n_classes)
    return model.fit(X, y, tasks=tasks).comparison_.verdict("pooled")


def assert_seldom_better(n_classes, n_tables, metric):
    verdicts = np.array([verdict(seed, n_classes, metric) for seed in range(n_tables)])
    assert np.sum(verdicts > 0) <= binom.ppf(0.95, n_tables, LEVEL)


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["standard", "learned"])
@pytest.mark.parametrize(("n_classes", "n_tables"), [(None, 50), (2, 30), (3, 20)])
def test_permuted_tasks_seldom_seem_to_gain(n_classes, n_tables, metric):
    assert_seldom_better(n_classes, n_tables, metric)


@pytest.mark.parametrize(
    ("n_classes", "metric"), [(None, "standard"), (None, "learned"), (2, "standard")]
)
def test_permuted_tasks_seldom_seem_to_gain_in_a_few_tables(n_classes, metric):
    assert_seldom_better(n_classes, 8, metric)


def random_labels(seed, classes):
    """One linear model, and 40 tasks of 6-39 rows that are labels only."""
    rng = np.random.default_rng(seed)
    tasks = np.repeat(np.arange(40), rng.integers(6, 40, size=40))
    X = rng.normal(size=(len(tasks), 3))
    signal = X @ [1.0, -0.5, 0.25]
    if classes:
        return X, rng.uniform(size=len(X)) < 1 / (1 + np.exp(-signal)), tasks
    return X, signal + rng.normal(size=len(X)), tasks


SEEDS = {CrossRidgeCV: (4, 15, 27, 31, 32, 33, 38), CrossLogisticRegressionCV: (11, 18)}


@pytest.mark.parametrize(
    ("kind", "seed"),
    [
        pytest.param(kind, seed, marks=[pytest.mark.slow] * (seed != seeds[0]))
        for kind, seeds in SEEDS.items()
        for seed in seeds
    ],
)
def test_what_is_pooled_ties_with_pooled(kind, seed):
    """The rival has the same ridge strengths; if no radius but 0 pays, it is the same model."""
    model = kind(n_epsilons=6)
    X, y, tasks = random_labels(seed, kind is CrossLogisticRegressionCV)
    comparison = model.fit(X, y, tasks=tasks).comparison_
    assert model.epsilon_ == 0.0
    assert comparison.ties("pooled")
    assert comparison.effect is Effect.POOL
    assert "exactly as good, and better than separate models" in comparison.sentence()


def test_what_is_separate_ties_with_separate():
    rng = np.random.default_rng(0)
    tasks = np.repeat(np.arange(8), 40)
    X = rng.normal(size=(320, 1))
    y = 10.0 * rng.normal(size=8)[tasks] * X[:, 0] + rng.normal(size=320)
    model = CrossRidgeCV([0.0, np.inf], cv=3).fit(X, y, tasks=tasks)
    assert model.epsilon_ == np.inf
    assert model.comparison_.ties("separate")
    assert model.comparison_.effect is Effect.HURTS
    assert model.comparison_.sentence().startswith("Sharing does not help: cross-learning is exact")


def coins(seed):
    """Coins tossed in shops: no shop differs, and nothing can be predicted."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=N_SHOPS * N_COINS)
    return rng.normal(size=(len(y), 1)), y, np.repeat(np.arange(N_SHOPS), N_COINS)


def tossed(seed, cv):
    """Loss on held-out coins, its standard error over shops, and the verdict over pooling."""
    metric = [0.1, 1.0]  # lets levels differ more than slopes
    model = CrossLogisticRegressionCV(
        n_epsilons=6, alphas=[1.0], cv=cv, metric=metric, random_state=seed
    )
    X, y, tasks = coins(seed)
    comparison = model.fit(X, y, tasks=tasks).comparison_
    losses = -comparison.tasks["cross"]
    return losses.mean(), losses.std() / np.sqrt(N_SHOPS), comparison.verdict("pooled")


@pytest.mark.parametrize("n_seeds", [3, pytest.param(8, marks=pytest.mark.slow)])
def test_coins_cannot_be_predicted(n_seeds):
    runs = np.array([tossed(seed, cv=5) for seed in range(n_seeds)])
    loss, error, verdicts = runs.T
    assert all(loss > np.log(2) - 3 * error)
    assert loss.mean() > np.log(2) - 2 * loss.std(ddof=1) / np.sqrt(len(loss))
    assert not any(verdicts > 0)


def test_stratifying_within_tasks_would_leak():
    """The tests above can fail: held-out coins that mirror the others make shops look different."""
    y = coins(0)[1].reshape(N_SHOPS, N_COINS)
    fold = np.empty_like(y)
    np.put_along_axis(fold, y.argsort(axis=1), np.tile(np.arange(N_COINS) % 5, (N_SHOPS, 1)), 1)
    held_out = [fold.ravel() == k for k in range(5)]
    loss, _, helps = tossed(0, [(np.flatnonzero(~h), np.flatnonzero(h)) for h in held_out])
    assert loss < np.log(2)
    assert helps == 1
