"""Laplace's approximation of the evidence of a generalised linear model at given variances."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from crosslearning.convex._marginal import Center, Marginal
from crosslearning.convex._variance_point import VariancePoint
from crosslearning.convex.families import OneScore
from crosslearning.convex.posterior import task_covariances

if TYPE_CHECKING:
    from crosslearning.convex._arrays import Array, Flags
    from crosslearning.convex._working import GLMRows

_INTERCEPT = 100.0  # variance of the centre's intercept around the pooled one, in squared scores
_SMALL, _MAX_STEPS, _MAX_HALVINGS = 1e-10, 100, 40
_LEAST_DISPERSION, _ROUNDING = 1e-8, 1e-13


class Mode(NamedTuple):
    """The most likely parameters: the centre, the tasks as θ_i = β + L u_i, and their density."""

    beta: Array
    u: Array
    value: float


@dataclass(eq=False)
class LaplaceData:
    """Rows of the tasks, the weights of the tasks, and where the search was last.

    Parameters
    ----------
    rows : GLMRows
        Rows and their family.
    task_weights : array of shape (n_tasks,)
        How many tasks each stands for.
    intercept : array of bool of shape (n_parameters,)
        Parameters whose centre has a wide prior of its own.
    dispersion : float
        Factor of the variance of the targets.
    """

    rows: GLMRows
    task_weights: Array
    intercept: Flags
    dispersion: float = 1.0
    last: tuple[Array, Array] | None = field(default=None, repr=False)

    def at(self, root: Array, ratio: Array | float) -> LaplacePoint:
        """Evaluate at Σ = root rootᵀ and τ² = ratio, for all parameters or for each."""
        precision = np.where(self.intercept, 1.0 / _INTERCEPT, np.divide(1.0, ratio))
        mode, marginal = self.climb(root, precision)
        self.last = (mode.beta, mode.u)
        return LaplacePoint(self, marginal, precision, root, mode, self.dispersion)

    def pearson(
        self, thetas: Array, n_parameters: float, least: float = _LEAST_DISPERSION
    ) -> float:
        """Dispersion by Pearson's squared errors; 1 for families that have none."""
        family = self.rows.family
        if not isinstance(family, OneScore) or not family.has_dispersion:
            return 1.0
        counts = np.bincount(self.rows.tasks[self.rows.weights > 0], minlength=self.rows.n_tasks)
        n_free = max(float(self.task_weights @ counts) - n_parameters, 1.0)
        squares = float(self.task_weights @ self.rows.totals(thetas, family.squared_error))
        return max(squares / n_free, least, family.least_dispersion)

    def thetas(self, beta: Array, u: Array, root: Array) -> Array:
        """β + L u_i."""
        return np.asarray(beta + (u * root if root.ndim == 1 else u @ root.T))

    def _value(self, beta: Array, u: Array, root: Array, precision: Array) -> float:
        """Log density of targets and parameters, without the normalisation of the priors."""
        logs = self.rows.log_likelihood(self.thetas(beta, u, root), self.dispersion)
        own = logs - 0.5 * np.einsum("np,np->n", u, u)
        free = precision < np.inf
        return float(self.task_weights @ own - 0.5 * precision[free] @ beta[free] ** 2)

    def climb(self, root: Array, precision: Array) -> tuple[Mode, Marginal]:
        """Damped Newton steps on all parameters jointly, from where the search was last.

        A precision of infinity holds the centre at 0.
        """
        mode = self._first(root, precision)
        for _ in range(_MAX_STEPS):
            marginal = self._marginal(mode, root)
            center = Center.of(marginal.total, precision)
            g = marginal.residuals(center.beta)
            step = center.beta - mode.beta, (g * root if root.ndim == 1 else g @ root) - mode.u
            new = self._along(mode, step, root, precision)
            gain, mode = new.value - mode.value, new
            if gain <= _SMALL * max(1.0, 1e-3 * abs(mode.value)):
                break
        return mode, self._marginal(mode, root)

    def _first(self, root: Array, precision: Array) -> Mode:
        """Return the better of where the search was last and the pooled model without features."""
        zero = (np.zeros(len(precision)), np.zeros((self.rows.n_tasks, len(precision))))
        starts = [zero] if self.last is None else [zero, self.last]
        modes = [Mode(*start, self._value(*start, root, precision)) for start in starts]
        return max(modes, key=lambda mode: mode.value)

    def _along(self, mode: Mode, step: tuple[Array, Array], root: Array, precision: Array) -> Mode:
        """Halve a step until it does not lead down; stay if that never happens."""
        size, rounding = 1.0, _ROUNDING * abs(mode.value)
        for _ in range(_MAX_HALVINGS):
            beta, u = mode.beta + size * step[0], mode.u + size * step[1]
            value = self._value(beta, u, root, precision)
            if value >= mode.value - rounding:
                return Mode(beta, u, value)
            size *= 0.5
        return mode

    def _marginal(self, mode: Mode, root: Array) -> Marginal:
        products = self.rows.products(self.thetas(mode.beta, mode.u, root), self.dispersion)
        return Marginal(products, root, self.task_weights)


@dataclass(frozen=True, eq=False)
class LaplacePoint(VariancePoint):
    """The quadratic model at the most likely parameters for given S and t."""

    data: LaplaceData
    marginal: Marginal
    precision: Array
    root: Array
    mode: Mode
    dispersion: float

    noise = 1.0  # the dispersion is in the products
    n_noise = np.inf

    @property
    def coef(self) -> Flags:
        """All but the intercepts."""
        return ~self.data.intercept

    @cached_property
    def center(self) -> Center:
        """Posterior of the centre, its mean one more Newton step ahead."""
        return Center.of(self.marginal.total, self.precision)

    @cached_property
    def thetas(self) -> Array:
        """Most likely parameters of the tasks."""
        return self.data.thetas(self.mode.beta, self.mode.u, self.root)

    @cached_property
    def value(self) -> float:
        """Log evidence."""
        logs = self.marginal.log_det + self.center.log_det - np.log(self.precision).sum()
        return float(self.mode.value - 0.5 * logs)

    @cached_property
    def _own(self) -> tuple[Array, Array]:
        return task_covariances(self.marginal.products, self.root, self.center.covariance)

    @property
    def covariances(self) -> Array:
        """Posterior covariances of the θ_i."""
        return self._own[0]

    @property
    def n_effective(self) -> float:
        """Effective number of parameters: how much targets move their own predictions."""
        p = len(self.precision)
        own = np.einsum("njk,nkj->n", self.marginal.products[:, :p, :p], self.covariances)
        return float(self.data.task_weights @ own)

    @cached_property
    def _response(self) -> tuple[Array, Array]:
        """How the mode moves (its residuals, its centre) where the determinants would push it."""
        K, rest = self._own
        tilt = self.data.rows.tilt(self.thetas, K, self.dispersion)
        own = np.einsum("njk,nj->nk", rest, tilt)
        beta = self.center.covariance @ (self.data.task_weights @ own)
        p = len(beta)
        return own - self.marginal.information[:, :p, :p] @ beta, beta

    @cached_property
    def slope_of_covariance(self) -> Array:
        """Derivative by the entries of S, the mode's own among it."""
        moved = (self.data.task_weights[:, None] * self.residuals).T @ self._response[0]
        explicit = VariancePoint.slope_of_covariance.func(self)  # type: ignore[attr-defined]
        return np.asarray(explicit - 0.5 * (moved + moved.T))

    @cached_property
    def slope_of_ratio(self) -> Array:
        """Derivative by each t, the mode's own among it."""
        explicit = VariancePoint.slope_of_ratio.func(self)  # type: ignore[attr-defined]
        return np.asarray(explicit - self._response[1] * self.center.beta * self._prior**2)
