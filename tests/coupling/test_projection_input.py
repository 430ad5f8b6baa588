"""Bad input: a clear error that says the rule, the value and the way out."""

import numpy as np
import pytest

from crosslearning import Tether, project, prox

Z = np.arange(12.0).reshape(3, 4)


def spoiled(*tasks, value=np.nan):
    z = Z.copy()
    z[list(tasks), 1] = value
    return z


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros(3), 1.0), r"shape \(n_tasks, n_parameters\).*\(3,\)"),
        ((np.zeros((2, 3, 4)), 1.0), "shape"),
        (([], 1.0), "at least one"),
        ((np.zeros((0, 3)), 1.0), "at least one"),
        ((np.zeros((3, 0)), 1.0), "at least one"),
        (([[1.0, 2.0], [3.0]], 1.0), "different lengths"),
        (([["a", "b"]], 1.0), "real numbers"),
        ((np.ones((2, 2)) * 1j, 1.0), "real numbers"),
        ((spoiled(1), 1.0), r"parameters of task 1 are NaN or infinite\."),
        ((spoiled(0, 2, value=np.inf), 1.0), r"of task 0, task 2 are NaN"),
        ((spoiled(0, value=-np.inf), 1.0), r"of task 0 are NaN"),
        ((np.full((30, 2), np.nan), 1.0), r"task 0, task 1.*task 9, … are NaN"),
        ((spoiled(2, value=1e200), 1.0), "beyond 1e.150.*task 2"),
        ((spoiled(2, value=1e200), 1.0, np.zeros(4)), "of task 2 are so far .* overflow"),
        ((np.full((3, 4), 1e200), 1.0), "beyond 1e.150.*tasks 0, 1, 2"),
        ((spoiled(1), 1.0, np.zeros(4)), "of task 1 are NaN"),
        ((spoiled(1)[:, :2], 1.0), "of task 1 are NaN"),  # fewer parameters than tasks
        ((Z, -1.0), "`epsilon` is a distance.*got -1.0.*Use 0"),
        ((Z, np.nan), "`epsilon`.*got nan"),
        ((Z, "big"), "`epsilon` must be a number"),
        ((Z, None), "`epsilon` must be a number"),
        ((Z, [1.0, 2.0]), "needs 3 values here; got 2"),
        ((Z, [1.0, -2.0, 3.0]), "got -2.0 for task 1"),
    ],
)
def test_bad_tasks_and_radii(arguments, message):
    thetas, epsilon, *center = arguments
    with pytest.raises(ValueError, match=message):
        project(thetas, epsilon, center=center[0] if center else None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"center": np.zeros(3)}, r"shape \(4,\); got shape \(3,\)"),
        ({"center": np.zeros((1, 4))}, "one number per parameter"),
        ({"center": [0.0, np.nan, 0.0, 0.0]}, "`center` has NaN"),
        ({"center": list("abcd")}, "`center` must hold real numbers"),
        ({"center_weight": 1.0}, "without one"),
        ({"center": np.zeros(4), "center_weight": 0.0}, "center_weight.*got 0.0.*Omit `center`"),
        ({"center": np.zeros(4), "center_weight": -1.0}, "center_weight"),
        ({"center": np.zeros(4), "center_weight": np.inf}, "center_weight"),
        ({"center": np.zeros(4), "center_weight": "1"}, "center_weight"),
        ({"method": "magic"}, "'newton' or 'subgradient'; got 'magic'"),
        ({"tol": 0.0}, "`tol`"),
        ({"tol": np.nan}, "`tol`"),
        ({"tol": np.inf}, "`tol`"),
        ({"tol": "small"}, "`tol`"),
        ({"max_iter": 10.5}, "`max_iter`"),
        ({"max_iter": "many"}, "`max_iter`"),
        ({"center": np.zeros(4), "center_weight": 1e-12}, "at least 1e-09"),
        ({"method": ["newton"]}, "`method`"),
        ({"max_iter": 0}, "`max_iter`"),
        ({"start": [0.1]}, "`start`"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        project(Z, 1.0, **options)


def test_bad_prox_arguments():
    with pytest.raises(ValueError, match="must be a Tether"):
        prox(Z, 1.0)
    for step_size in (0.0, -1.0, np.nan, np.inf, "1"):
        with pytest.raises(ValueError, match="step_size"):
            prox(Z, Tether(1.0), step_size=step_size)
