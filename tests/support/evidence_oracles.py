"""The hierarchical Gaussian model written out densely: slow, short, independent of the library."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import block_diag, null_space
from scipy.stats import multivariate_normal

from crosslearning.convex.evidence.laplace import new_tasks
from crosslearning.convex.families import Gaussian
from crosslearning.convex.sums.rows import GLMRows


@dataclass(frozen=True)
class Rows:
    """Rows (columns with ones for the intercept last), targets, tasks and weights."""

    X: np.ndarray
    y: np.ndarray
    tasks: np.ndarray
    weights: np.ndarray

    @classmethod
    def random(cls, seed=0, n_tasks=6, p=3, n=40, spread=1.0, noise=0.5):
        rng = np.random.default_rng(seed)
        tasks = np.concatenate([np.arange(n_tasks), rng.integers(n_tasks, size=n - n_tasks)])
        X = np.column_stack([rng.normal(size=(n, p - 1)), np.ones(n)])
        theta = rng.normal(size=p) + spread * rng.normal(size=(n_tasks, p))
        y = np.sum(X * theta[tasks], axis=1) + noise * rng.normal(size=n)
        return cls(X, y, tasks, np.ones(n))

    @property
    def n_tasks(self):
        return int(self.tasks.max()) + 1

    @property
    def moments(self):
        weights = self.weights
        return glm_rows(
            self.X, self.y, self.tasks, self.n_tasks, Gaussian(), weights=weights
        ).moments()


def weighted_rows(seed, **kinds):
    """Random rows with random weights."""
    rows = Rows.random(seed, **kinds)
    weights = np.random.default_rng(seed + 1).uniform(0.2, 3.0, size=len(rows.y))
    return Rows(rows.X, rows.y, rows.tasks, weights)


def flat_columns(p, *, all_flat=False):
    return np.arange(p) >= (0 if all_flat else p - 1)


def log_evidence(rows, Sigma, sigma2, tau2, flat):
    """Density of contrasts that do not see the flat directions, times their volume."""
    X = rows.X
    same = rows.tasks[:, None] == rows.tasks
    V = np.diag(sigma2 / rows.weights) + same * (X @ Sigma @ X.T)
    V += (X * tau2)[:, ~flat] @ X[:, ~flat].T
    F = X[:, flat]
    B = null_space(F.T)
    volume = -0.5 * np.linalg.slogdet(F.T @ F)[1]
    return multivariate_normal.logpdf(B.T @ rows.y, np.zeros(B.shape[1]), B.T @ V @ B) + volume


def posterior(rows, Sigma, sigma2, tau2, flat):
    """Mean and covariance of (β, θ_1, …, θ_N), from the precision of (β, δ_1, …, δ_N)."""
    p, n_tasks = rows.X.shape[1], rows.n_tasks
    design = np.zeros((len(rows.X), p * (n_tasks + 1)))
    design[:, :p] = rows.X
    for r, task in enumerate(rows.tasks):
        design[r, p * (task + 1) : p * (task + 2)] = rows.X[r]
    prior = block_diag(np.diag(np.where(flat, 0, 1 / tau2)), *[np.linalg.inv(Sigma)] * n_tasks)
    weighted = design.T * (rows.weights / sigma2)
    covariance = np.linalg.inv(weighted @ design + prior)
    to_theta = np.eye(p * (n_tasks + 1))
    to_theta[p:, :p] = np.tile(np.eye(p), (n_tasks, 1))
    mean = to_theta @ covariance @ weighted @ rows.y
    return mean.reshape(-1, p), to_theta @ covariance @ to_theta.T


def em_step(rows, Sigma, sigma2, tau2, flat):
    """One step of expectation-maximisation with a diagonal Σ; τ² is left if all is flat."""
    p, n_tasks = rows.X.shape[1], rows.n_tasks
    means, covariance = posterior(rows, Sigma, sigma2, tau2, flat)
    blocks = covariance.reshape(n_tasks + 1, p, n_tasks + 1, p)
    center, C = means[0], blocks[0, :, 0]
    spread, error = np.zeros(p), 0.0
    for i in range(n_tasks):
        own, both = blocks[i + 1, :, i + 1], blocks[i + 1, :, 0]
        spread += (means[i + 1] - center) ** 2 + np.diag(own + C - both - both.T)
        x, w = rows.X[rows.tasks == i], rows.weights[rows.tasks == i]
        residual = rows.y[rows.tasks == i] - x @ means[i + 1]
        error += w @ (residual**2 + np.einsum("rp,pq,rq->r", x, own, x))
    if not flat.all():
        tau2 = np.mean(center[~flat] ** 2 + np.diag(C)[~flat])
    return np.diag(spread / n_tasks), error / len(rows.y), tau2


def new_tasks_of(rows, fit):
    """Posterior of tasks that were not in a fit by evidence."""
    unseen = fit.task_covariance + fit.posterior.center_covariance
    mode, _ = new_tasks(rows, fit.center, unseen, fit.noise_variance)
    return mode.means[0], mode.covariances[0]


def level_variances(fit):
    """Diagonals of the covariances of each level, tasks first."""
    return np.einsum("ljj->lj", fit.level_covariances)


def glm_rows(X, y, tasks, n_tasks, family, *, weights=None, offset=None, intercept=True):
    """Rows of a generalised linear model, of weight 1 and without offset by default."""
    return GLMRows(
        X=X,
        y=y,
        weights=np.ones(len(y)) if weights is None else np.asarray(weights, dtype=float),
        tasks=tasks,
        n_tasks=n_tasks,
        offset=np.zeros((len(y), family.n_scores))
        if offset is None
        else offset.reshape(len(y), -1),
        family=family,
        intercept=intercept,
    )
