"""The smallest enclosing ball."""

import numpy as np
import pytest
from hypothesis import given
from scipy.optimize import nnls

from crosslearning import smallest_enclosing_ball
from tests.support.strategies import vectors


@given(vectors())
def test_encloses_and_is_supported(points):
    """Optimal if and only if the centre is a convex combination of the farthest points."""
    center, radius = smallest_enclosing_ball(points)
    distance = np.linalg.norm(points - center, axis=1)
    rounding = 1e-9 * max(radius, 1e-6 * np.abs(points).max())
    assert np.all(distance <= radius + rounding)
    if radius <= 1e-14 * np.abs(points).max():
        return
    unit = (points[distance >= radius - rounding] - center) / radius
    _, residual = nnls(
        np.vstack([unit.T, np.ones(len(unit))]), np.append(np.zeros(unit.shape[1]), 1)
    )
    assert residual <= 1e-6


@pytest.mark.parametrize(
    ("points", "center", "radius"),
    [
        ([[2.0, 5.0]], [2.0, 5.0], 0.0),
        ([[0, 0], [2, 0]], [1, 0], 1.0),
        ([[0, 0], [1, 0], [2, 0], [1, 0]], [1, 0], 1.0),
        ([[0, 0], [1, 0], [0, 1], [1, 1]], [0.5, 0.5], np.sqrt(0.5)),
        (np.ones((5, 3)), [1, 1, 1], 0.0),
        (list(np.ndindex(3, 3, 3)), [1, 1, 1], np.sqrt(3)),
        (np.eye(4), [0.25] * 4, np.sqrt(0.75)),
        ([[0, 0], [6, 0], [3, 1]], [3, 0], 3.0),
    ],
)
def test_known_balls(points, center, radius):
    computed, measured = smallest_enclosing_ball(points)
    np.testing.assert_allclose(computed, center, atol=1e-12)
    assert measured == pytest.approx(radius, abs=1e-12)


@pytest.mark.parametrize("shape", [(5000, 3), (2000, 60), (300, 5000), (20_000, 4)])
def test_thousands_of_points_on_a_sphere_and_inside(shape):
    rng = np.random.default_rng(0)
    points = rng.normal(size=shape)
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    points[shape[0] // 4 :] *= rng.random((shape[0] - shape[0] // 4, 1))
    points[1] = -points[0]  # the unit ball is the smallest one
    center, radius = smallest_enclosing_ball(7.0 + 3.0 * points)
    np.testing.assert_allclose(center, 7.0, atol=1e-9)
    assert radius == pytest.approx(3.0, rel=1e-12)


def test_bad_points():
    with pytest.raises(ValueError, match=r"`points` has NaN.*point 1"):
        smallest_enclosing_ball([[0.0], [np.nan]])
    with pytest.raises(ValueError, match="n_points"):
        smallest_enclosing_ball([])
