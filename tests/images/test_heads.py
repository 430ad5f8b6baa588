"""The solver of linear heads against the exact solver of the estimators."""

import math

import numpy as np
import pytest

from crosslearning import CrossLogisticRegression
from crosslearning.exceptions import ConvergenceWarning

torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")

from crosslearning.images import heads  # noqa: E402
from crosslearning.images.heads import fit_heads  # noqa: E402


def problem(n_tasks=3, n_features=6, n_classes=4, seed=0):
    """Tasks of different sizes with labels that partly follow from the features."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(n_features, n_classes))
    data = []
    for k in range(n_tasks):
        x = rng.normal(size=(40 + 25 * k, n_features)) + 0.2
        of_task = common + 0.7 * rng.normal(size=common.shape)
        y = (x @ of_task + rng.gumbel(size=(len(x), n_classes))).argmax(1)
        data.append((torch.from_numpy(x), torch.from_numpy(y)))
    return data


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, math.inf])
def test_heads_are_those_of_the_exact_solver(epsilon):
    data, ridge = problem(), 0.02
    start = torch.zeros(3, 7, 4, dtype=torch.float64)
    fitted = fit_heads(data, start, epsilon, ridge, tol=1e-12)
    assert fitted.gap <= 1e-12
    # The estimator has sums over rows where heads have means.
    x, y = (np.concatenate(one) for one in zip(*data, strict=True))
    x = np.column_stack([x, np.ones(len(x))])  # an intercept with a ridge term as the others
    tasks = np.repeat(range(3), [len(one) for _, one in data])
    model = CrossLogisticRegression(
        epsilon=epsilon, alpha=len(x) * ridge, standardize=False, task_weights="equal",
        fit_intercept=False,
    ).fit(x, y, tasks=tasks)  # fmt: skip
    exact = model.coef_.transpose(0, 2, 1)
    # Scores of all classes may shift together without a difference: compare what is not that.
    free = fitted.thetas.numpy() - fitted.thetas.numpy().mean(2, keepdims=True)
    np.testing.assert_allclose(free, exact - exact.mean(2, keepdims=True), atol=2e-5)


def test_the_default_tolerance_is_close_in_value():
    data = [(x.float(), y) for x, y in problem(n_features=30)]
    start = torch.zeros(3, 31, 4)
    for epsilon in (0.0, 0.5, math.inf):
        rough = fit_heads(data, start, epsilon, 1e-2)
        fine = fit_heads([(x.double(), y) for x, y in data], start.double(), epsilon, 1e-2, 1e-10)
        values = [heads.objective(data, one.thetas.float(), 1e-2)[0] for one in (rough, fine)]
        assert 0 <= values[0] - values[1] + 1e-6 < 1e-3 * values[1]
        gaps = (rough.thetas - rough.center).flatten(1).norm(dim=1)
        assert (gaps <= epsilon * (1 + 1e-5) + 1e-6).all()


def test_weakly_penalised_heads_do_not_stay_at_their_start():
    """More features than rows: at pooled heads, the gradient is small long before the minimum."""
    data = [(x.float(), y) for x, y in problem(n_features=150)]
    pooled = fit_heads(data, torch.zeros(3, 151, 4), 0.0, 1e-4)
    warm, cold = (
        fit_heads(data, start, math.inf, 1e-4) for start in (pooled.thetas, 0 * pooled.thetas)
    )
    far = [(one.thetas - one.center).flatten(1).norm(dim=1) for one in (warm, cold)]
    torch.testing.assert_close(far[0], far[1], rtol=0.03, atol=0)


@pytest.mark.filterwarnings("error")  # of a radius that the dtype does not resolve
@pytest.mark.parametrize(("shift", "epsilon"), [(0.0, 1e-8), (10.0, 1e-8), (10.0, 1e-3)])
def test_small_radii_hold_on_unscaled_float32_features(shift, epsilon):
    data, start = problem(), torch.zeros(3, 7, 4)
    shifted = [(x + shift, y) for x, y in data]
    fitted = fit_heads([(x.float(), y) for x, y in shifted], start, epsilon, 0.1)
    exact = fit_heads(shifted, start.double(), epsilon, 0.1, tol=1e-8)
    values = [heads.objective(shifted, one.thetas.double(), 0.1)[0] for one in (fitted, exact)]
    assert values[0] - values[1] < 1e-3 * values[1]
    distances = (fitted.thetas - fitted.center).flatten(1).norm(dim=1)
    assert distances.max() <= epsilon * (1 + 1e-6)


def test_heads_that_do_not_converge_say_so(monkeypatch):
    monkeypatch.setattr(heads, "_MOST_STEPS", 2)
    with pytest.warns(ConvergenceWarning, match=r"ε = 0.1 have a gap of .* after 2 steps"):
        fit_heads(problem(), torch.zeros(3, 7, 4, dtype=torch.float64), 0.1, 1e-3)
