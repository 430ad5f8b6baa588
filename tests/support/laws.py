"""The laws of the projection as assertions."""

import numpy as np

from crosslearning import Projection, Status, Tether
from tests.support.strategies import Case
from tests.support.tolerances import KKT, SUM


def assert_optimal(case: Case, result: Projection) -> None:
    """Check the optimality conditions from their definition, by other code than the library's."""
    z = case.thetas.astype(np.float64)
    base = case.base.astype(np.float64)
    epsilon = np.broadcast_to(case.tether.epsilon, len(z))
    difference = z - result.center
    wanted = np.linalg.norm(difference, axis=1)
    kept = case.tether.final_distance(wanted) / np.where(wanted > 0, wanted, 1.0)
    force = case.weight * (result.center - base) - (1.0 - kept) @ difference
    scale = max(
        float(np.max(epsilon, where=np.isfinite(epsilon), initial=0.0)),
        float(np.linalg.norm(z - base, axis=1).max()),
    )
    offset = np.linalg.norm(result.thetas - (result.center + kept[:, None] * difference), axis=1)
    rounding = 8 * np.finfo(result.thetas.dtype).eps * np.linalg.norm(z, axis=1).max()
    limit = KKT[result.thetas.dtype] * scale + rounding
    assert np.all(result.distances <= epsilon + limit)
    assert np.linalg.norm(force) / (case.weight + len(z)) <= limit
    assert np.all(offset <= limit)
    assert result.status is Status.CONVERGED


def assert_feasible(case: Case, result: Projection) -> None:
    slack = KKT[result.thetas.dtype] * case.scale
    measured = np.linalg.norm(result.thetas - result.center, axis=1)
    assert np.all(measured <= np.asarray(case.tether.epsilon) + slack)
    np.testing.assert_allclose(result.distances, measured, atol=slack)


def assert_complementary(case: Case, result: Projection) -> None:
    """Only tasks on their bound are moved."""
    slack = KKT[result.thetas.dtype] * case.scale
    on_bound = result.distances >= np.asarray(case.tether.epsilon) - slack
    assert np.all(on_bound | (result.pull == 0))
    assert np.array_equal(result.thetas[result.pull == 0], case.thetas[result.pull == 0])


def assert_total_preserved(case: Case, result: Projection) -> None:
    before = case.weight * case.base + case.thetas.sum(axis=0)
    after = case.weight * result.center + result.thetas.sum(axis=0)
    total = (case.weight + len(case.thetas)) * case.scale
    np.testing.assert_allclose(after, before, rtol=0, atol=KKT[result.thetas.dtype] * total)


def assert_same(case: Case, left: np.ndarray, right: np.ndarray, factor: float = 1.0) -> None:
    """Equal up to the accuracy of a projection of this case."""
    tolerance = factor * KKT[case.thetas.dtype] * case.scale
    np.testing.assert_allclose(left, right, rtol=0, atol=tolerance)


def assert_weighted_mean(case: Case, result: Projection) -> None:
    mean = (case.weight * case.base + case.thetas.sum(axis=0)) / (case.weight + len(case.thetas))
    tolerance = SUM[result.thetas.dtype] * case.scale
    np.testing.assert_allclose(result.center, mean, rtol=0, atol=tolerance)
    assert np.array_equal(result.thetas, np.broadcast_to(result.center, result.thetas.shape))


def weighted_distance(
    case: Case, left: tuple[np.ndarray, np.ndarray], right: tuple[np.ndarray, np.ndarray]
) -> float:
    """Distance of two (tasks, centre) pairs in the norm that the projection uses."""
    tasks = np.sum((left[0] - right[0]) ** 2)
    return float(np.sqrt(tasks + case.weight * np.sum((left[1] - right[1]) ** 2)))


def objective(
    case: Case, thetas: np.ndarray, center: np.ndarray, tether: Tether | None = None
) -> float:
    """Objective of the proximal problem at a feasible candidate."""
    tether = tether or case.tether
    d = np.linalg.norm(thetas - center, axis=1)
    coupling = np.sum(tether.tension * d + 0.5 * np.asarray(tether.stiffness) * d**2)
    moved = np.sum((thetas - case.thetas) ** 2)
    return float(0.5 * moved + 0.5 * case.weight * np.sum((center - case.base) ** 2) + coupling)
