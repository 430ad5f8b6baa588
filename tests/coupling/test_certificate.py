"""The certificate judges any candidate."""

import numpy as np
import pytest

from crosslearning import Tether, project
from crosslearning.coupling import certificate


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    return rng.normal(size=(5, 8)), rng.normal(size=8)


def test_wrong_candidates_are_told_apart(problem):
    z, z_g = problem
    tether = Tether(1.0)
    best = project(z, 1.0, center=z_g)

    def judge(thetas, center):
        return certificate(thetas, center, z, tether, center=z_g)

    good = judge(best.thetas, best.center)
    assert good.kkt_residual <= 1e-14
    infeasible = judge(z, best.center)
    assert infeasible.infeasibility > 0.1
    assert infeasible.imbalance <= 1e-14
    off_balance = judge(best.thetas, best.center + 0.1)
    assert off_balance.imbalance > 1e-3
    collapsed = judge(np.broadcast_to(best.center, z.shape), best.center)
    assert collapsed.infeasibility == 0
    assert collapsed.imbalance <= 1e-14
    assert collapsed.misplacement > 0.1


def test_residual_is_relative(problem):
    z, z_g = problem
    left = certificate(z, z_g, z, Tether(1.0), center=z_g)
    right = certificate(1e8 * z, 1e8 * z_g, 1e8 * z, Tether(1e8), center=1e8 * z_g)
    assert left.kkt_residual == pytest.approx(right.kkt_residual, rel=1e-12)


def test_one_large_radius_does_not_hide_the_others(problem):
    z, z_g = problem
    radii = Tether([1e9, 1.0, 1.0, 1.0, 1.0])
    assert certificate(z, z_g, z, radii, center=z_g).infeasibility > 0.1


def test_known_value():
    proof = certificate([[3.0]], [0.0], [[3.0]], Tether(1.0), center=[0.0], center_weight=2.0)
    assert proof.infeasibility == pytest.approx(2 / 3)
    assert proof.imbalance == pytest.approx((2 / 3) * 3 / (2 + 1) / 3)
    assert proof.misplacement == pytest.approx(2 / 3)
    assert proof.distances.tolist() == [3.0]
    assert proof.taut.tolist() == [True]


def test_all_at_the_centre():
    assert certificate([[1.0]], [1.0], [[1.0]], Tether(0.0)).kkt_residual == 0.0


def test_bad_candidates(problem):
    z, z_g = problem
    with pytest.raises(ValueError, match="shape of `thetas`"):
        certificate(z[:3], z_g, z, Tether(1.0))
    with pytest.raises(ValueError, match="`candidate_center` must have one number"):
        certificate(z, None, z, Tether(1.0))
    with pytest.raises(ValueError, match="without one"):
        certificate(z, z_g, z, Tether(1.0), center_weight=1.0)
    bad = z.copy()
    bad[2, 1] = np.nan
    with pytest.raises(ValueError, match=r"`candidate_thetas` has NaN.*task 2"):
        certificate(bad, z_g, z, Tether(1.0))
