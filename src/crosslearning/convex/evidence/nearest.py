"""The Gaussian nearest to the posterior of a generalised linear model, at given variances.

A Gaussian around the mode is far too wide where classes can nearly be separated: much of it lies
where the targets are impossible. Here slopes and curvatures are averaged over the Gaussian itself,
so that it has the smallest Kullback-Leibler divergence from the posterior (variational inference).
Averaged predictions of the rows of the fit then add up to the targets, but for the prior.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from crosslearning.convex.deadline import check_deadline
from crosslearning.convex.evidence.marginal import Marginal, times
from crosslearning.convex.evidence.posterior import EvidenceFit, task_covariances
from crosslearning.convex.sums.rows import Moments
from crosslearning.tether import Array

_MAX_ROUNDS, _CLOSE = 10, 0.01


class Gaussians(NamedTuple):
    """Means and covariances of the centre and of the tasks.

    A task's covariance with the centre is gains_i C: gains_i is I - V_i A_i.
    """

    center: Array
    center_covariance: Array
    thetas: Array
    covariances: Array
    gains: Array

    @classmethod
    def of(cls, marginal: Marginal, precision: Array) -> Gaussians:
        """Solve a quadratic model."""
        (center, u), root = marginal.solved(precision), marginal.root
        posteriors = task_covariances(marginal.products, root, center.covariance)
        return cls(center.beta, center.covariance, center.beta + times(u, root), *posteriors)

    @classmethod
    def exact(cls, fit: EvidenceFit, moments: Moments) -> Gaussians:
        """Return the posterior of a Gaussian model, from the moments of its fit."""
        posteriors = fit.task_posteriors(moments)
        return cls(fit.center, fit.center_covariance, fit.thetas, *posteriors)

    def shifted(self, by: Array) -> Gaussians:
        """Add to the means."""
        return self._replace(center=self.center + by, thetas=self.thetas + by)


def nearest_gaussians(
    marginal: Marginal,
    precision: Array,
    average: Callable[[Array, Array], Array],
    tol: float = 1e-6,
) -> Gaussians:
    """Step from the mode towards averaged products until the means stay.

    That is, until none moves by more than 0.01 standard deviations, or 10 √tol. `average` returns
    the products of the tasks, given the means and covariances of their parameters. Steps go half
    the way: where classes are separable, all of it would overshoot.
    """
    now, close = Gaussians.of(marginal, precision), max(_CLOSE, 10.0 * tol**0.5)
    for _ in range(_MAX_ROUNDS):
        check_deadline()
        averaged = average(now.thetas, now.covariances)
        marginal = replace(marginal, products=0.5 * (marginal.products + averaged))
        before, now = now, Gaussians.of(marginal, precision)
        variances = np.einsum("njj->nj", now.covariances)
        if np.all((now.thetas - before.thetas) ** 2 <= close**2 * variances):
            break
    return now
