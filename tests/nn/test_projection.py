"""`models.project()` is the projection of the core, in place and by block."""

import warnings

import numpy as np
import pytest

from crosslearning import ConvergenceWarning, Status, Tether, project, prox
from crosslearning.coupling import _inner_products
from crosslearning.coupling._gram import solve_gram
from crosslearning.exceptions import ResolutionWarning
from tests.support.networks import (
    TASKS,
    TaskModels,
    network,
    nn,
    scatter,
    snapshot,
    torch,
    vectors,
)

# Rounding of a stored parameter vector of norm 5, relative; bfloat16 holds 2 to 3 digits.
STORED = {torch.float64: 1e-10, torch.float32: 2e-6, torch.bfloat16: 5e-2}


@pytest.fixture(params=[None, 7], ids=["one chunk", "many chunks"])
def chunks(request, monkeypatch):
    """Cut the matrix into chunks of a few columns."""
    if request.param:
        monkeypatch.setattr("crosslearning.nn._members._NARROWEST", request.param)
        monkeypatch.setattr("crosslearning.nn._members._ELEMENTS", 1)


@pytest.mark.parametrize("dtype", STORED)
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0, np.inf])
@pytest.mark.usefixtures("chunks")
def test_agrees_with_the_core(dtype, epsilon):
    models = TaskModels(network().to(dtype), TASKS, epsilon=epsilon)
    for seed in range(3):
        scatter(models, seed=seed)
        thetas, center = vectors(models)
        expected = project(thetas, epsilon, center=center)
        certificate = models.project()
        moved, moved_center = vectors(models)
        np.testing.assert_allclose(moved, expected.thetas, rtol=0, atol=STORED[dtype] * 5)
        np.testing.assert_allclose(moved_center, expected.center, rtol=0, atol=STORED[dtype] * 5)
        np.testing.assert_allclose(certificate.pull, expected.pull, atol=1e-4)
        assert np.array_equal(certificate.active, expected.active)
        measured = np.linalg.norm(moved - moved_center, axis=1)
        np.testing.assert_allclose(certificate.distances, measured, rtol=1e-4, atol=1e-12)
        np.testing.assert_allclose(models.distances(), measured, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("dtype", STORED)
@pytest.mark.parametrize("bands", [False, True], ids=["whole", "bands"])
@pytest.mark.parametrize("n_tasks", [15, 16, 18])
def test_many_tasks_agree_with_the_core(dtype, bands, n_tasks, monkeypatch):
    monkeypatch.setattr(_inner_products, "_has_small_kernels", lambda: bands)
    monkeypatch.setattr("crosslearning.nn._members._ELEMENTS", 1)
    monkeypatch.setattr("crosslearning.nn._members._NARROWEST", 2048)
    module = nn.Linear(50, 41).to(dtype)
    models = TaskModels(module, range(n_tasks), epsilon=0.5)
    (work,) = models._members.local
    assert work.n_chunks == 2
    assert work.flat.shape[1] % work.wide > 0  # the last is narrower
    for seed in range(2):
        scatter(models, seed=seed)
        thetas, center = vectors(models)
        expected = project(thetas, 0.5, center=center)
        models.project()
        np.testing.assert_allclose(vectors(models)[0], expected.thetas, rtol=0, atol=STORED[dtype])


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e30])
@pytest.mark.parametrize("bands", [False, True], ids=["whole", "bands"])
def test_many_tasks_that_are_not_finite_are_refused(value, bands, monkeypatch):
    monkeypatch.setattr(_inner_products, "_has_small_kernels", lambda: bands)
    models = TaskModels(nn.Linear(60, 40), range(16), epsilon=0.5)
    with torch.no_grad():
        models[3].weight[7] = value
    with pytest.raises(ValueError, match="task 3"):
        models.project()


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0, 5.0])
def test_weight_of_the_centre(weight):
    models = TaskModels(network().double(), TASKS, epsilon=0.5, center_weight=weight)
    for seed in range(3):
        scatter(models, seed=seed)
        thetas, center = vectors(models)
        given = {"center": center, "center_weight": weight} if weight else {}
        expected = project(thetas, 0.5, **given)
        models.project()
        np.testing.assert_allclose(vectors(models)[0], expected.thetas, rtol=0, atol=1e-9)


def test_free_centre_follows_the_mean():
    models = TaskModels(network().double(), TASKS, epsilon=np.inf, center_weight=0)
    scatter(models)
    before = vectors(models)[0]
    models.project()
    thetas, center = vectors(models)
    assert np.array_equal(thetas, before)
    np.testing.assert_allclose(center, before.mean(axis=0), atol=1e-12)


@pytest.mark.parametrize("step_size", [1.0, 0.1])
def test_tether_with_spring_and_tension(step_size):
    tether = Tether(epsilon=2.0, stiffness=0.7, tension=0.2)
    models = TaskModels(network().double(), TASKS, tether=tether)
    scatter(models)
    thetas, center = vectors(models)
    expected = prox(thetas, tether, center=center, step_size=step_size)
    certificate = models.project(step_size=step_size)
    np.testing.assert_allclose(vectors(models)[0], expected.thetas, rtol=0, atol=1e-10)
    np.testing.assert_allclose(certificate["all"].multipliers, expected.multipliers, rtol=1e-9)


def test_step_size_is_required_with_a_spring():
    models = TaskModels(network(), TASKS, tether=Tether(stiffness=1.0))
    with pytest.raises(ValueError, match=r"project\(step_size=lr\)"):
        models.project()
    with pytest.raises(ValueError, match="positive"):
        models.project(step_size=0.0)


def test_one_radius_per_task():
    radii = np.array([0.1, 1.0, np.inf])
    models = TaskModels(network().double(), TASKS, epsilon=radii)
    scatter(models)
    thetas, center = vectors(models)
    models.project()
    expected = project(thetas, radii, center=center)
    np.testing.assert_allclose(vectors(models)[0], expected.thetas, rtol=0, atol=1e-10)


def test_blocks_are_projected_apart():
    models = TaskModels(network().double(), TASKS, epsilon={"0": 0.3, "1.weight": np.inf})
    scatter(models)
    before = {prefix: vectors(models, prefix) for prefix in ("0.", "1.weight", "1.bias")}
    certificate = models.project()
    expected = project(before["0."][0], 0.3, center=before["0."][1])
    np.testing.assert_allclose(vectors(models, "0.")[0], expected.thetas, rtol=0, atol=1e-10)
    for untouched in ("1.weight", "1.bias"):
        assert np.array_equal(vectors(models, untouched)[0], before[untouched][0])
    by_block = [models.distances(block) for block in ("0", "1.weight")]
    np.testing.assert_allclose(by_block[0], certificate["0"].distances)
    np.testing.assert_allclose(np.hypot(*by_block), models.distances())
    np.testing.assert_allclose(certificate.distances, models.distances())
    assert certificate.status is Status.CONVERGED
    assert certificate.kkt_residual < 1e-10
    with pytest.raises(ValueError, match=r"no block 'head'; the blocks are 0, 1.weight"):
        models.distances("head")


def test_projecting_twice_changes_nothing():
    models = TaskModels(network(), TASKS, epsilon=0.5)
    scatter(models)
    models.project()
    before = vectors(models)[0]
    certificate = models.project()
    np.testing.assert_allclose(vectors(models)[0], before, rtol=0, atol=1e-6)
    assert certificate.pull.max() < 1e-5


def test_radius_zero_keeps_all_rows_equal():
    models = TaskModels(network(), TASKS, epsilon=0)
    for seed in range(20):
        scatter(models, 0.1, seed)
        certificate = models.project()
        for task in models:
            for own, common in zip(
                models[task].parameters(), models.center.parameters(), strict=True
            ):
                assert torch.equal(own, common)
    assert not certificate.distances.any()
    assert not models.distances().any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_coefficients_sum_to_one_exactly(dtype):
    """A sum of 1 - 6e-8 would shrink the centre by 0.6 % in 100,000 steps."""
    from crosslearning.coupling._members import exact_combination

    rng = np.random.default_rng(0)
    for n_tasks in (1, 2, 4, 31):
        weights = rng.dirichlet(np.ones(n_tasks + 1))[:-1]
        coefficients = exact_combination(weights, torch.finfo(dtype).eps)
        stored = torch.from_numpy(coefficients).to(dtype).double().numpy()
        assert np.array_equal(stored, coefficients)
        assert stored.sum() == 1.0
        np.testing.assert_allclose(stored[:-1], weights, rtol=0, atol=torch.finfo(dtype).eps)


def test_nothing_happens_within_the_radius():
    models = TaskModels(network(), TASKS, epsilon=1e3)
    scatter(models)
    before = snapshot(models)
    certificate = models.project()
    after = snapshot(models)
    same = [name for name in before if name != "_extra_state"]
    assert all(torch.equal(before[name], after[name]) for name in same)
    assert not certificate.active.any()


def freeze(module, prefix):
    for name, parameter in module.named_parameters():
        parameter.requires_grad_(not name.startswith(prefix))


@pytest.mark.parametrize("prefix", ["0.0", "1.weight"], ids=repr)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("tether", [Tether(0.3), Tether(0.5, 0.7, 0.2)], ids=["bound", "spring"])
@pytest.mark.usefixtures("chunks")
def test_frozen_parameters_do_not_move(tether, dtype, prefix):
    module = network().to(dtype)
    freeze(module, prefix)
    models = TaskModels(module, TASKS, tether=tether)
    for seed in range(50):
        scatter(models, 0.1, seed)
        models.project(step_size=0.1)
    for task in (*models.per_task, models.center):
        for name, value in task.named_parameters():
            same = torch.equal(value, module.get_parameter(name))
            assert same == name.startswith(prefix)


def test_a_centre_that_starts_at_zero_has_the_frozen_parameters():
    module = network()
    module[0].requires_grad_(False)
    models = TaskModels(module, TASKS, epsilon=0.5, center_init="zero")
    np.testing.assert_array_equal(vectors(models, "0")[1], vectors(models, "0")[0][0])
    assert not vectors(models, "1")[1].any()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_broken_task_is_named_before_it_is_mixed(value):
    models = TaskModels(network(), TASKS, epsilon={"0": 0.1, "1": 0.1})
    scatter(models)
    models["clipart"][1].bias.data[1] = value
    before = snapshot(models)
    with pytest.raises(ValueError, match="parameters of task 'clipart' are NaN or infinite"):
        models.project()
    after = snapshot(models)
    assert all(torch.equal(before[n].nan_to_num(), after[n].nan_to_num()) for n in before)


def test_a_broken_centre_is_named():
    models = TaskModels(network(), TASKS, epsilon=0.1)
    models.center[1].weight[0, 0] = np.nan
    with pytest.raises(ValueError, match="parameters of the centre are NaN or infinite"):
        models.project()


def test_overflow_is_told_from_nan():
    models = TaskModels(network(), TASKS, epsilon=0.1)
    models["art"][1].weight.data[0, 0] = 1e25
    with pytest.raises(ValueError, match=r"task 'art' are so far .* overflow"):
        models.project()


def test_unresolved_radius_warns_once_and_tells_the_real_distances():
    torch.manual_seed(0)
    models = TaskModels(nn.Linear(1000, 100), TASKS, epsilon=3e-7)
    scatter(models, 1e-5)
    with pytest.warns(
        ResolutionWarning, match=r"float32 resolves .* Use float64 or a larger `epsilon`"
    ) as caught:
        certificate = models.project()
    assert caught[0].filename == __file__
    assert issubclass(ResolutionWarning, ConvergenceWarning)
    assert certificate.status is Status.UNRESOLVED
    assert certificate["all"].measured
    thetas, center = vectors(models)
    real = np.linalg.norm(thetas - center, axis=1)
    np.testing.assert_allclose(certificate.distances, real, rtol=1e-5)
    assert real.max() > 1.01 * 3e-7
    scatter(models, 1e-5)
    models.project()  # silent: it has been said
    models.double()
    scatter(models, 1e-5)
    assert models.project().status is Status.CONVERGED
    np.testing.assert_allclose(models.distances(), 3e-7, rtol=1e-6)


def test_resolved_radius_is_silent_and_kept():
    models = TaskModels(nn.Linear(1000, 100), TASKS, epsilon=2e-5)
    scatter(models, 1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        certificate = models.project()
    np.testing.assert_allclose(models.distances(), 2e-5, rtol=0.01)
    np.testing.assert_allclose(certificate.distances, models.distances(), rtol=1e-4)


def test_autocast_does_not_reach_the_projection():
    exact, cast = (TaskModels(network(), TASKS, epsilon=0.5) for _ in range(2))
    for models in (exact, cast):
        scatter(models)
    exact.project()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast.project()
    assert np.array_equal(vectors(exact)[0], vectors(cast)[0])


def test_backward_through_projected_parameters_is_refused():
    models = TaskModels(nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1)), TASKS, epsilon=0.1)
    loss = models["art"](torch.ones(2, 3)).sum()
    models["art"][1].weight.data.add_(1.0)  # which autograd does not see
    models.project()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_warm_start_from_the_previous_pulls(monkeypatch):
    starts = []

    def spy(gram, tether, weight, start, *rest):
        starts.append(start)
        return solve_gram(gram, tether, weight, start, *rest)

    monkeypatch.setattr("crosslearning.coupling._gram.solve_gram", spy)
    models = TaskModels(network(), TASKS, epsilon=0.5)
    scatter(models)
    first = models.project()
    models.project()
    assert starts[0] is None
    assert np.array_equal(starts[1], first.pull)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_many_tasks(dtype):
    models = TaskModels(network().to(dtype), range(20), epsilon=0.5)
    scatter(models)
    thetas, center = vectors(models)
    expected = project(thetas, 0.5, center=center)
    certificate = models.project()
    tolerance = 1e-5 if dtype is torch.float32 else 1e-10
    np.testing.assert_allclose(vectors(models)[0], expected.thetas, rtol=0, atol=tolerance)
    np.testing.assert_allclose(certificate.pull, expected.pull, rtol=0, atol=tolerance)
