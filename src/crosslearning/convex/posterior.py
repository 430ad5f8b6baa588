"""What the evidence says of the tasks: variances, and the posterior of all parameters."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from crosslearning.convex._marginal import chunks, responses

if TYPE_CHECKING:
    from crosslearning.convex._arrays import Array, Indices
    from crosslearning.convex.moments import Moments

__all__ = [
    "EvidenceFit",
    "EvidenceStatus",
    "posterior_means",
    "quadratic_forms",
    "score_covariances",
    "task_covariances",
]

_AT_ONCE = 2**21  # numbers in the temporary arrays of a piece of rows


class EvidenceStatus(Enum):
    """How the search ended; the value is the sentence shown to the user."""

    CONVERGED = "The evidence is at its maximum to the tolerance."
    NOISELESS = (
        "The targets are fitted to rounding error: the noise is set to the smallest that can be "
        "told from 0."
    )
    MAX_ITER = (
        "The iteration limit was reached before the evidence was at its maximum. Raise `max_iter`."
    )


@dataclass(frozen=True, eq=False)
class EvidenceFit:
    """Variances at the maximum of the evidence, and the posterior of all parameters.

    Attributes
    ----------
    structure : {"block", "diagonal", "full"}
        Structure of the covariance of tasks.
    noise_variance : float
        σ².
    task_covariance : array of shape (n_columns, n_columns)
        Σ.
    center_variances : array of shape (n_columns,)
        τ² of each column; infinite where the prior is flat.
    center : array of shape (n_columns,)
        Posterior mean of β.
    center_covariance : array of shape (n_columns, n_columns)
        Posterior covariance of β.
    thetas : array of shape (n_tasks, n_columns)
        Posterior means of the tasks' parameters.
    log_evidence : float
        Logarithm of the evidence.
    scores : dict
        Log evidence less the charge for parameters of each structure that was tried.
    n_iter : int
        Number of evaluations of the evidence.
    status : EvidenceStatus
        How the search ended.
    """

    structure: str
    noise_variance: float
    task_covariance: Array
    center_variances: Array
    center: Array
    center_covariance: Array
    thetas: Array
    log_evidence: float
    scores: dict[str, float]
    n_iter: int
    status: EvidenceStatus

    def covariances(self, moments: Moments) -> Array:
        """Posterior covariances of the θ_i, from the moments of the fit or some of its tasks.

        They take as much memory as the moments; ask for some tasks at a time if they are many.
        """
        root = self._root(self.task_covariance)
        center = self.center_covariance / self.noise_variance
        return self.noise_variance * task_covariances(moments.products, root, center)[0]

    def new_tasks(self, moments: Moments) -> tuple[Array, Array]:
        """Posterior means and covariances of tasks that were not in the fit."""
        root = self._root(self.task_covariance + self.center_covariance)
        none = np.zeros_like(self.center_covariance)
        covariances = task_covariances(moments.products, root, none)[0]
        thetas = posterior_means(moments.products, root, self.center)
        return thetas, self.noise_variance * covariances

    def predict(self, columns: Array, tasks: Indices) -> Array:
        """Predictive means of rows, less the mean of the targets; -1 is a task never seen."""
        thetas = np.where((tasks >= 0)[:, None], self.thetas[tasks], self.center)
        means: Array = np.einsum("rp,rp->r", columns, thetas)
        return means

    def predict_variance(self, columns: Array, tasks: Indices, covariances: Array) -> Array:
        """Predictive variances of rows of weight 1, given :meth:`covariances`."""
        unseen = tasks < 0
        variances = np.empty(len(columns))
        spread = self.center_covariance + self.task_covariance
        x = columns[unseen]
        variances[unseen] = np.einsum("rp,pq,rq->r", x, spread, x, optimize=True)
        variances[~unseen] = quadratic_forms(columns[~unseen], tasks[~unseen], covariances)
        return variances + self.noise_variance

    def _root(self, covariance: Array) -> Array:
        """Square root of a covariance in units of the noise."""
        values, vectors = np.linalg.eigh(covariance / self.noise_variance)
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def posterior_means(products: Array, root: Array, center: Array) -> Array:
    """Posterior mean of θ_i around a given centre, where Σ = σ² root rootᵀ."""
    thetas = np.empty((len(products), len(center)))
    v = np.append(-center, 1.0)
    for part in chunks(len(products), len(center)):
        u = responses(products[part], root)[0] @ v
        thetas[part] = center + (u * root if root.ndim == 1 else u @ root.T)
    return thetas


def task_covariances(products: Array, root: Array, center: Array) -> tuple[Array, Array]:
    """Posterior covariances of the θ_i in units of the noise, and I - V_i A_i.

    They are V_i + (I - V_i A_i) C (I - V_i A_i)ᵀ with V_i = L (I + LᵀA_iL)⁻¹ Lᵀ and C the
    covariance of the centre.
    """
    n_tasks, p = len(products), len(center)
    L = np.diag(root) if root.ndim == 1 else root
    covariances, rests = np.empty((n_tasks, p, p)), np.empty((n_tasks, p, p))
    for part in chunks(n_tasks, p):
        A = products[part, :p, :p]
        V = L @ np.linalg.solve(L.T @ A @ L + np.eye(p), np.broadcast_to(L.T, A.shape))
        rests[part] = np.eye(p) - V @ A
        covariances[part] = V + rests[part] @ center @ rests[part].swapaxes(1, 2)
    return covariances, rests


def quadratic_forms(columns: Array, tasks: Indices, covariances: Array) -> Array:
    """xᵀK_ix of rows of known tasks."""
    forms = np.empty(len(columns))
    size = max(_AT_ONCE // max(columns.shape[1], 1) ** 2, 1)
    for start in range(0, len(columns), size):
        rows = slice(start, start + size)
        x = columns[rows]
        forms[rows] = np.einsum("rp,rp->r", (x[:, None] @ covariances[tasks[rows]])[:, 0], x)
    return forms


def score_covariances(columns: Array, tasks: Indices, covariances: Array, unseen: Array) -> Array:
    """Covariances of the scores of rows, (n_rows, n_scores, n_scores).

    Parameters
    ----------
    columns : array of shape (n_rows, n_columns)
        Columns of the rows.
    tasks : array of int of shape (n_rows,)
        Task of each row; -1 is a task never seen.
    covariances : array of shape (n_tasks, P, P)
        Of the tasks' parameters, matrices (columns, scores), flattened.
    unseen : array of shape (P, P)
        Of the parameters of a task never seen.
    """
    p = columns.shape[1]
    q, new = len(unseen) // p, tasks < 0
    result = np.empty((len(columns), q, q))
    own, x = covariances.reshape(-1, p, q, p, q), columns[new]
    for k in range(q):
        for m in range(q):
            block = unseen.reshape(p, q, p, q)[:, k, :, m]
            result[new, k, m] = np.einsum("rp,rp->r", x @ block, x)
            result[~new, k, m] = quadratic_forms(columns[~new], tasks[~new], own[:, :, k, :, m])
    return result
