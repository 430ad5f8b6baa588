"""The result of maximising the evidence: variances and posterior."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from crosslearning.convex.evidence.marginal import chunks
from crosslearning.convex.evidence.variance_law import VarianceLaw
from crosslearning.convex.sums.rows import Moments
from crosslearning.tether import Array


class EvidenceStatus(Enum):
    """How the search ended; the value is the sentence shown to the user."""

    CONVERGED = "The evidence is at its maximum to the tolerance."
    NOISELESS = (
        "The targets are fitted to rounding error: the noise is set to the smallest value "
        "distinguishable from 0."
    )
    MAX_ITER = (
        "The iteration limit was reached before the evidence was at its maximum. Raise `max_iter`."
    )
    MAX_PASSES = (
        "The parameters still moved after 30 passes over the rows: variances between the tasks are "
        "approximate. Fit a sample of the tasks in memory to check them."
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class Fit:
    """Variances at the maximum of the evidence, and the posterior of the centre.

    `noise_variance` is σ², `center_variances` are τ² of each parameter, infinite where the prior is
    flat; `center` and `center_covariance` are the posterior of β. `scores` holds the log evidence
    minus the penalty for parameters of each structure tried, `variance_law` tells how well the
    variances of units are determined, and `n_iter` is the number of evaluations.
    """

    structure: str
    noise_variance: float
    center_variances: Array
    center: Array
    center_covariance: Array
    log_evidence: float
    scores: dict[str, float]
    variance_law: VarianceLaw
    n_iter: int
    status: EvidenceStatus


@dataclass(frozen=True, eq=False, kw_only=True)
class EvidenceFit(Fit):
    """The fit of tasks of one level.

    With P parameters, `task_covariance` is Σ (P, P), and `thetas` (n_tasks, P) are the tasks'
    posterior means (of other families than the Gaussian, modes).
    """

    task_covariance: Array
    thetas: Array

    def task_posteriors(self, moments: Moments) -> tuple[Array, Array]:
        """Posterior covariances of the θ_i, and I - V_i A_i, from the moments of the fit.

        They take as much memory as the moments; ask for some tasks at a time if they are many.
        """
        root = symmetric_root(self.task_covariance / self.noise_variance)
        root = root[:, root.any(axis=0)]
        center = self.center_covariance / self.noise_variance
        covariances, gains = task_covariances(moments.products, root, center)
        return self.noise_variance * covariances, gains


def symmetric_root(covariance: Array) -> Array:
    """L with L Lᵀ = covariance."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def task_covariances(products: Array, root: Array, center: Array) -> tuple[Array, Array]:
    """Posterior covariances of the θ_i in units of the noise, and I - V_i A_i.

    They are V_i + (I - V_i A_i) C (I - V_i A_i)ᵀ with V_i = L (I + LᵀA_iL)⁻¹ Lᵀ and C the
    covariance of the centre.
    """
    n_tasks, p = len(products), len(center)
    L = np.diag(root)[:, root != 0.0] if root.ndim == 1 else root
    if not L.size:  # tasks are their centre
        return np.tile(center, (n_tasks, 1, 1)), np.tile(np.eye(p), (n_tasks, 1, 1))
    covariances, rests = np.empty((n_tasks, p, p)), np.empty((n_tasks, p, p))
    for part in chunks(n_tasks, p):
        A = products[part, :p, :p]
        V = L @ np.linalg.solve(L.T @ A @ L + np.eye(L.shape[1]), L.T)
        rests[part] = np.eye(p) - V @ A
        covariances[part] = V + rests[part] @ center @ rests[part].swapaxes(1, 2)
    return covariances, rests
