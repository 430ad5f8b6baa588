"""Training loops: Algorithm 1, its two ends, and the optimizers of torch."""

import numpy as np
import pytest

from crosslearning import CrossLogisticRegression, CrossRidge
from tests.support.networks import (
    TASKS,
    TaskModels,
    assert_equal_states,
    network,
    nn,
    torch,
    vectors,
)

SAME = 1e-6  # what the paper's algorithm must be met to
RATE = 0.1


def regressions(n_tasks: int = 4, n_rows: int = 12, n_features: int = 3, seed: int = 0):
    """Least squares problems that have something in common."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=n_features)
    X = rng.normal(size=(n_tasks, n_rows, n_features))
    coefficients = common + 0.5 * rng.normal(size=(n_tasks, n_features))
    noise = 0.1 * rng.normal(size=(n_tasks, n_rows))
    return X, np.einsum("tij,tj->ti", X, coefficients) + noise


def projection(z: np.ndarray, center: np.ndarray, epsilon: float) -> tuple[np.ndarray, np.ndarray]:
    """Minimise the function of the centre by plain gradient steps; slow and independent."""
    c = center.copy()
    for _ in range(300):
        d = np.linalg.norm(z - c, axis=1)
        share = np.zeros(len(z))
        np.divide(np.maximum(d - epsilon, 0.0), d, out=share, where=d > 0)
        c -= ((c - center) + share @ (c - z)) / (1 + len(z))
    return z + share[:, None] * (c - z), c


def algorithm_1(X, y, theta, epsilon, center, n_steps):
    """Run the paper's Algorithm 1 for least squares: a gradient step per task, then project."""
    theta = np.repeat(theta[None], len(X), axis=0)
    for _ in range(n_steps):
        for i in range(len(X)):
            A = np.column_stack([X[i], np.ones(len(y[i]))])
            theta[i] -= RATE * 2 * A.T @ (A @ theta[i] - y[i]) / len(y[i])
        theta, center = projection(theta, center, epsilon)
    return theta, center


@pytest.mark.parametrize("center_init", ["mean", "zero"])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, np.inf])
def test_algorithm_1(epsilon, center_init):
    X, y = regressions()
    torch.manual_seed(0)
    net = nn.Linear(3, 1).double()
    start = torch.cat([net.weight[0], net.bias]).detach().numpy()
    models = TaskModels(net, range(4), epsilon=epsilon, center_init=center_init)
    optimizer = torch.optim.SGD(models.parameters(), lr=RATE)
    for _ in range(25):
        optimizer.zero_grad()
        for task in models:
            prediction = models[task](torch.from_numpy(X[task])).squeeze(1)
            nn.functional.mse_loss(prediction, torch.from_numpy(y[task])).backward()
        optimizer.step()
        models.project()
    center = start if center_init == "mean" else np.zeros(4)
    expected, expected_center = algorithm_1(X, y, start, epsilon, center, 25)
    thetas, center = vectors(models)
    np.testing.assert_allclose(thetas, expected, rtol=0, atol=SAME)
    np.testing.assert_allclose(center, expected_center, rtol=0, atol=SAME)


def test_zero_centre_shrinks_the_first_step():
    models = TaskModels(network().double(), range(4), epsilon=0, center_init="zero")
    before = vectors(models)[0]
    models.project()
    np.testing.assert_allclose(vectors(models)[0], 0.8 * before, rtol=0, atol=1e-12)


def batches(seed: int, tasks=TASKS):
    generator = torch.Generator().manual_seed(seed)
    return {
        task: (
            torch.randn(8, 4, generator=generator) + k,
            torch.randint(2, (8,), generator=generator),
        )
        for k, task in enumerate(tasks)
    }


def test_the_three_lines_of_the_readme():
    net, domains, loss = network(), TASKS, nn.CrossEntropyLoss()
    loader = [batches(seed) for seed in range(5)]

    models = TaskModels(net, tasks=domains, epsilon=0.01)
    optimizer = torch.optim.SGD(models.parameters(), lr=1e-1)
    for batch in loader:
        optimizer.zero_grad()
        for task, (x, y) in batch.items():
            loss(models[task](x), y).backward()
        optimizer.step()
        models.project()

    np.testing.assert_allclose(models.distances(), 0.01, rtol=1e-4)
    assert models.center.eval()(torch.zeros(1, 4)).shape == (1, 2)


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=1e-4),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01, fused=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, foreach=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01),
}


def dropout_network():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.5), nn.Linear(6, 2))


def train(models, modules, optimizer, tasks, project, clip=None):
    loss = nn.CrossEntropyLoss()
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=3, gamma=0.5)
    for seed in range(8):
        optimizer.zero_grad()
        for task in tasks:
            torch.manual_seed(100 * seed + TASKS.index(task))  # of dropout
            x, y = batches(seed)[task]
            loss(modules[task](x), y).backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(
                [p for m in modules.values() for p in m.parameters()], clip
            )
        optimizer.step()
        schedule.step()
        if project:
            models.project()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_infinite_radius_is_separate_training(name):
    models = TaskModels(dropout_network(), TASKS, epsilon=np.inf)
    train(models, dict(models.items()), OPTIMIZERS[name](models.parameters()), TASKS, True)
    for task in TASKS:
        alone = dropout_network()
        train(None, {task: alone}, OPTIMIZERS[name](alone.parameters()), [task], False)
        assert_equal_states(models[task].state_dict(), alone.state_dict())


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_schedulers_and_clipping(name):
    models = TaskModels(dropout_network(), TASKS, epsilon=0.02)
    optimizer = OPTIMIZERS[name](models.parameters())
    train(models, dict(models.items()), optimizer, TASKS, True, clip=1.0)
    assert np.all(models.distances() <= 0.02 * 1.0001)
    assert models.distances().max() > 0.019


def test_zero_radius_keeps_rows_equal_in_training():
    models = TaskModels(dropout_network(), TASKS, epsilon=0)
    train(models, dict(models.items()), OPTIMIZERS["adam"](models.parameters()), TASKS, True)
    for a, b in zip(models["art"].parameters(), models["product"].parameters(), strict=True):
        assert torch.equal(a, b)


def minimise(models, X, y, loss, lr):
    """Run full-batch gradient steps until nothing moves."""
    optimizer = torch.optim.SGD(models.parameters(), lr=lr)
    for _ in range(100):
        optimizer.zero_grad()
        for task in models:
            score = models[task](torch.from_numpy(X[task])).squeeze(1)
            loss(score, torch.from_numpy(y[task])).backward()
        optimizer.step()
        models.project()


@pytest.mark.parametrize("kind", ["ridge", "logistic"])
def test_convex_training_finds_the_exact_solution(kind):
    X, y = regressions(n_rows=30)
    X -= X.mean(axis=(0, 1))
    loss, estimator = nn.MSELoss(), CrossRidge
    if kind == "logistic":
        y = (y > np.random.default_rng(1).logistic(size=y.shape)).astype(float)
        loss, estimator = nn.BCEWithLogitsLoss(), CrossLogisticRegression
    models = TaskModels(nn.Linear(3, 1).double(), range(4), epsilon=0.3)
    minimise(models, X, y, loss, lr=0.4 if kind == "ridge" else 4.0)
    exact = estimator(epsilon=0.3, alpha=0.0, standardize=False)
    exact.fit(X.reshape(-1, 3), y.ravel(), tasks=np.repeat(range(4), 30))
    expected = np.column_stack([exact.coef_.reshape(4, 3), exact.intercept_.reshape(4)])
    thetas, _ = vectors(models)
    np.testing.assert_allclose(thetas, expected, rtol=0, atol=1e-6)
    assert np.isclose(models.distances(), 0.3).any()
