"""One coupling: members of every kind get the same step, and the same word when it goes wrong."""

import numpy as np
import pytest

from crosslearning import ConvergenceWarning, Status, Tether, project, prox
from crosslearning.coupling import Storage, couple
from crosslearning.exceptions import ResolutionWarning
from tests.support.networks import TaskModels, nn, torch

N, S = 3, 400


class Shards:
    """Members whose columns are in several places, none of which has a whole task."""

    tasks = ("task 0", "task 1", "task 2")
    groups = ("",)

    def __init__(self, thetas, center):
        self.parts = np.split(np.vstack([thetas, center]), [7, 90], axis=1)
        self.moves = 0

    def gram(self):
        differences = [part[:-1] - part[-1] for part in self.parts]
        return sum(one @ one.T for one in differences)[np.newaxis]

    def move(self, pull, weights):
        self.moves += 1
        for part in self.parts:
            part[-1] += weights[0] @ (part[:-1] - part[-1])
            part[:-1] += pull[0][:, None] * (part[-1] - part[:-1])

    def distances(self):
        return np.sqrt(sum(((p[:-1] - p[-1]) ** 2).sum(axis=1) for p in self.parts))[np.newaxis]

    def storage(self):
        return Storage(["float64"], np.array([2.0**-52]), np.array([1.0]), np.array([S]))

    def culprits(self):
        bad = ~np.isfinite(np.hstack(self.parts)).all(axis=1)
        return [[*self.tasks, "the centre"][row] for row in np.flatnonzero(bad)], ""


class Vector(nn.Module):
    def __init__(self):
        super().__init__()
        self.values = nn.Parameter(torch.zeros(S))


def of_arrays(thetas, center, tether):
    return prox(thetas, tether, center=center)


def of_models(thetas, center, tether):
    models = TaskModels(Vector(), range(N), tether=tether)
    with torch.no_grad():
        for task in models:
            models[task].values.copy_(torch.from_numpy(thetas[task]))
        models.center.values.copy_(torch.from_numpy(center))
    return models.project(step_size=1.0)["all"]


KINDS = pytest.mark.parametrize("step", [of_arrays, of_models])


@pytest.fixture
def vectors():
    rng = np.random.default_rng(0)
    return rng.normal(size=(N, S)).astype(np.float32), np.zeros(S, dtype=np.float32)


@pytest.mark.parametrize("tether", [Tether(3.0), Tether(5.0, 0.5, 0.2), Tether([0.0, 1.0, np.inf])])
def test_same_step(vectors, tether):
    exact = of_arrays(*vectors, tether)
    models = of_models(*vectors, tether)
    np.testing.assert_allclose(models.pull, exact.pull, atol=1e-6)
    np.testing.assert_allclose(models.distances, exact.distances, rtol=1e-5, atol=1e-5)


@KINDS
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_task_that_is_not_finite_is_named(vectors, step, value):
    thetas, center = vectors
    thetas[1, 5] = value
    message = r"^The parameters of task 1\b.* are NaN or infinite\b.*\. Nothing was moved\. "
    with pytest.raises(ValueError, match=message) as caught:
        step(thetas, center, Tether(1.0))
    assert "task 0" not in str(caught.value)


@KINDS
def test_a_radius_below_the_resolution_is_told(vectors, step):
    thetas, center = vectors
    message = r"`epsilon` = 1e-06.* below what float32 resolves .* norm .* Use float64 or a larger"
    with pytest.warns(ResolutionWarning, match=message):
        result = step(100 + thetas, 100 + center, Tether(1e-6))
    assert result.status is Status.UNRESOLVED
    assert result.measured


@KINDS
def test_a_solver_that_stops_early_is_told(vectors, step, monkeypatch):
    monkeypatch.setattr("crosslearning.coupling._newton._SMALLEST_STEP", 1.0)  # takes no step
    with pytest.warns(ConvergenceWarning, match=r"Rounding stopped .* KKT residual"):
        step(*vectors, Tether(3.0, 0.1, 0.1))


def test_members_without_local_parameters():
    rng = np.random.default_rng(1)
    thetas, center = rng.normal(size=(N, S)), rng.normal(size=S)
    shards = Shards(thetas, center)
    expected = project(thetas, 4.0, center=center, center_weight=2.0)
    (step,) = couple(shards, Tether(4.0), center_weight=2.0)
    moved = np.hstack(shards.parts)
    np.testing.assert_allclose(moved[:-1], expected.thetas, atol=1e-12)
    np.testing.assert_allclose(moved[-1], expected.center, atol=1e-12)
    np.testing.assert_allclose(step.pull, expected.pull, atol=1e-12)
    np.testing.assert_allclose(step.multipliers, expected.multipliers, rtol=1e-9)
    assert np.array_equal(step.active, expected.active)
    assert step.status is Status.CONVERGED
    assert step.kkt_residual < 1e-10
    again = couple(shards, Tether(4.0), center_weight=2.0, start=[step.pull])[0]
    assert again.pull.max() < 1e-10


def test_nothing_moves_if_a_member_is_not_finite():
    shards = Shards(np.ones((N, S)), np.zeros(S))
    shards.parts[2][-1, 0] = np.inf
    with pytest.raises(ValueError, match="of the centre are NaN or infinite"):
        couple(shards, Tether(1.0))
    shards.parts[2][-1, 0] = 0.0
    shards.parts[1][0, 0] = 1e200
    with (
        np.errstate(over="ignore"),
        pytest.raises(ValueError, match=r"task 0 are so far .* overflow"),
    ):
        couple(shards, Tether(1.0))
    assert shards.moves == 0
