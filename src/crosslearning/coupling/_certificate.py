"""Certificate of optimality: how far a candidate is from solving the projection."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from crosslearning.coupling._checks import check_center, check_problem, check_vectors
from crosslearning.tether import Array, Flags, Reals, Tether

BLOCK = 1 << 18  # elements of a temporary that stays in the second-level cache
_NARROWEST = 256  # narrower products are slow


@dataclass(frozen=True, eq=False)
class Certificate:
    """Residuals of the optimality conditions, relative to the size of the problem.

    Attributes
    ----------
    infeasibility, imbalance, misplacement : float
        Largest excess of a distance over its radius; net force on the centre per unit of weight;
        and largest distance of a task from its optimum, given the candidate's centre.
    distances, taut : array of shape (n_tasks,)
        Distances of the tasks to the centre (not relative), and whether their bounds are active.
    rounding : float
        Residual that rounding to the dtype alone may cause.
    """

    infeasibility: float
    imbalance: float
    misplacement: float
    distances: Array
    taut: Flags
    rounding: float

    @property
    def kkt_residual(self) -> float:
        """The largest of the three; 0 if and only if the candidate is optimal."""
        return max(self.infeasibility, self.imbalance, self.misplacement)


def certificate(
    candidate_thetas: ArrayLike,
    candidate_center: ArrayLike,
    thetas: ArrayLike,
    tether: Tether,
    *,
    center: ArrayLike | None = None,
    center_weight: float | None = None,
) -> Certificate:
    r"""Check a candidate for the proximal step of a tether, however it was computed.

    With :math:`p_i` the pull of task :math:`z_i` towards the candidate's centre, the conditions
    are :math:`\|\theta_i - \theta_g\| \le \varepsilon`,
    :math:`w_g(\theta_g - z_g) + \sum_i p_i (\theta_g - z_i) = 0` and
    :math:`\theta_i = (1 - p_i) z_i + p_i \theta_g`. Their residuals, the second divided by
    :math:`w_g + N`, are relative to :math:`\max_i \|z_i - z_g\|`; for a free centre, :math:`z_g` is
    the mean of the tasks.

    Parameters
    ----------
    candidate_thetas, candidate_center : array of shape (n_tasks, n_parameters), (n_parameters,)
        The candidate.
    thetas, tether, center, center_weight
        The problem, as in :func:`prox`.

    Examples
    --------
    >>> from crosslearning import Tether
    >>> tasks = [[3.0, 0.0], [-3.0, 0.0]]
    >>> proof = certificate([[1.0, 0.0], [-1.0, 0.0]], [0.0, 0.0], tasks, Tether(1.0))
    >>> proof.kkt_residual < 1e-15
    True
    >>> round(certificate(tasks, [0.0, 0.0], tasks, Tether(1.0)).kkt_residual, 3)
    0.667
    """
    check_vectors(thetas)
    z, tether, base, weight = check_problem(thetas, tether, center, center_weight)
    candidate = check_vectors(candidate_thetas, "candidate_thetas")
    if candidate.shape != z.shape:
        raise ValueError(
            f"`candidate_thetas` must have the shape of `thetas`, {z.shape}; got {candidate.shape}."
        )
    around = check_center(candidate_center, z.shape[1], "candidate_center")
    return certify(candidate, around, z, tether, base, weight)


def certify(
    candidate: Reals, candidate_center: Reals, z: Reals, tether: Tether, base: Reals, weight: float
) -> Certificate:
    """Certify checked arrays; `base` is the given centre, or the mean of the tasks (weight 0)."""
    initial, wanted, final, size = np.zeros((4, len(z)))
    columns = list(blocks(z.shape[1], block_width(len(z))))
    for b in columns:
        c = candidate_center[b].astype(np.float64)
        initial += _squares(z[:, b] - base[b].astype(np.float64))
        wanted += _squares(z[:, b] - c)
        final += _squares(candidate[:, b] - c)
        size += _squares(z[:, b])
    wanted, final = np.sqrt(wanted), np.sqrt(final)
    pull = tether.pull(wanted)
    force, misplaced = 0.0, np.zeros(len(z))
    for b in columns:
        c = candidate_center[b].astype(np.float64)
        difference = z[:, b] - c
        net = weight * (c - base[b]) - pull @ difference
        force += float(net @ net)
        difference *= 1.0 - pull[:, None]
        misplaced += _squares(candidate[:, b] - c - difference)
    scale = float(initial.max()) ** 0.5 or 1.0
    return Certificate(
        infeasibility=float(np.maximum(final - tether.epsilon, 0.0).max()) / scale,
        imbalance=force**0.5 / (weight + len(z)) / scale,
        misplacement=float(misplaced.max()) ** 0.5 / scale,
        distances=final,
        taut=tether.is_taut(wanted),
        rounding=4.0 * float(np.finfo(candidate.dtype).eps) * float(size.max()) ** 0.5 / scale,
    )


def _squares(rows: Reals) -> Array:
    return np.asarray(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))


def block_width(n_rows: int) -> int:
    """Return how many columns of `n_rows` rows fit in a temporary."""
    return max(_NARROWEST, BLOCK // n_rows)


def blocks(n: int, width: int) -> Iterator[slice]:
    """Divide rows or columns into blocks of this width."""
    return (slice(start, min(start + width, n)) for start in range(0, n, width))
