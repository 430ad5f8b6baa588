"""Laplace's approximation of the evidence of a generalised linear model at given variances."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, cast

import numpy as np
from scipy.optimize import minimize

from crosslearning.convex.deadline import check_deadline
from crosslearning.convex.evidence._point import VariancePoint
from crosslearning.convex.evidence.marginal import Center, Marginal, times
from crosslearning.convex.evidence.posterior import task_covariances
from crosslearning.convex.evidence.search import Parameters
from crosslearning.convex.families import OneScore
from crosslearning.convex.sums.passes import Expansion
from crosslearning.convex.sums.rows import GLMRows
from crosslearning.tether import Array, Flags

INTERCEPT_VARIANCE = 100.0  # of the centre, around the pooled one, in squared scores

_SMALL, _MAX_STEPS, _MAX_HALVINGS = 1e-10, 100, 40
_ROUNDING = 1e-13
_LEAST_SHARE = 1e-6  # smallest dispersion, as a share of that without features and tasks
_SETTLED, _SHAPE_SETTLED = 1e-4, 1e-3  # last changes of the dispersion and of a family's shape


class Mode(NamedTuple):
    """The most likely parameters: the centre, the tasks as θ_i = β + L u_i, and their density."""

    beta: Array
    u: Array
    thetas: Array
    value: float


@dataclass(eq=False)
class LaplaceData:
    """Rows, weights of the tasks, intercepts (which have a wide prior), and the last mode."""

    rows: GLMRows | Expansion
    task_weights: Array
    intercept: Flags
    dispersion: float = 1.0
    least: float = 1e-8  # dispersion
    last: Mode | None = field(default=None, repr=False)

    @property
    def parameters(self) -> Parameters:
        squares = np.einsum("n,njj->j", self.task_weights, self.rows.at_zero)[:-1]
        columns = np.repeat(np.arange(len(self.rows.mean_squares)), self.rows.family.n_scores)
        mean_squares, intercept = self.rows.mean_squares, self.rows.intercept
        return Parameters(squares / self.dispersion, mean_squares, columns, intercept)

    def at(self, root: Array, ratio: Array | float) -> LaplacePoint:
        """Evaluate at Σ = root rootᵀ and τ² = ratio, for all parameters or for each."""
        precision = np.where(self.intercept, 1.0 / INTERCEPT_VARIANCE, np.divide(1.0, ratio))
        mode, marginal = self.climb(root, precision)
        self.last = mode
        center = Center.of(marginal.total, precision)  # its mean one more Newton step ahead
        logs = marginal.log_det + center.log_det - np.log(precision).sum()
        return LaplacePoint(
            marginal=marginal,
            precision=precision,
            coef=~self.intercept,
            center=center,
            noise=1.0,
            n_noise=np.inf,
            value=float(mode.value - 0.5 * logs),
            dispersion=self.dispersion,
            data=self,
            mode=mode,
        )

    def pearson(self, thetas: Array, n_parameters: float) -> float:
        """Dispersion by Pearson's squared errors; 1 for families that have none."""
        family = self.rows.family
        if not isinstance(family, OneScore) or not family.has_dispersion:
            return 1.0
        n_free = max(float(self.task_weights @ self.rows.counts) - n_parameters, 1.0)
        squares = float(self.task_weights @ self.rows.totals(thetas, family.squared_error))
        return max(squares / n_free, self.least, family.least_dispersion)

    def begin(self) -> None:
        """Take the dispersion without features and tasks, and a share of it as the smallest."""
        self.dispersion = self.pearson(np.zeros((self.rows.n_tasks, self.rows.n_parameters)), 0.0)
        self.least = _LEAST_SHARE * self.dispersion

    def settled(
        self, thetas: Array, n_effective: float, evidence: Callable[[GLMRows], float]
    ) -> bool:
        """Learn the dispersion, and the shape by evidence; return whether both hardly change."""
        before, rows = self.dispersion, cast("GLMRows", self.rows)
        self.dispersion = self.pearson(thetas, n_effective)
        family = rows.family

        def negative(shape: Array) -> float:
            return -evidence(rows.with_family(family.with_shape(shape)))

        if len(family.shape):
            best = minimize(
                negative, family.shape, method="BFGS", options={"gtol": 1e-3, "eps": 1e-4}
            )
            self.rows = rows.with_family(family.with_shape(best.x))
        moved = np.abs(self.rows.family.shape - family.shape).max(initial=0.0)
        return bool(abs(np.log(self.dispersion / before)) <= _SETTLED and moved <= _SHAPE_SETTLED)

    def evidence(self, root: Array, ratio: Array, last: Mode | None, rows: GLMRows) -> float:
        """Return the evidence of rows of a family with another shape, from the last mode."""
        self.rows, self.last = rows, last
        return self.at(root, ratio).value

    def climb(self, root: Array, precision: Array) -> tuple[Mode, Marginal]:
        """Damped Newton steps on all parameters jointly, from where the search was last.

        Or from the pooled model without features, if that is better. A precision of infinity
        holds the centre at 0.
        """
        p = len(precision)
        mode = self._mode(np.zeros(p), np.zeros((self.rows.n_tasks, p)), root, precision)
        last = self.last
        if last is None and (wider := self.rows.family.wider):
            easier = replace(self, rows=replace(self.rows, family=wider))
            last = easier.climb(root, precision)[0]
        if last is not None:
            last = self._mode(last.beta, last.u, root, precision)
            mode = max(mode, last, key=lambda mode: mode.value)

        def density(position: list[Array]) -> float:
            return self._mode(position[0], position[1], root, precision).value

        def newton(position: list[Array]) -> list[Array]:
            thetas = position[0] + times(position[1], root)
            center, u = self._marginal(thetas, root).solved(precision)
            return [center.beta, u]

        (beta, u), value = climb([mode.beta, mode.u], mode.value, density, newton)
        mode = Mode(beta, u, beta + times(u, root), value)
        return mode, self._marginal(mode.thetas, root)

    def _mode(self, beta: Array, u: Array, root: Array, precision: Array) -> Mode:
        """Add the log density of targets and parameters, but for the priors' normalisation."""
        thetas = beta + times(u, root)
        logs = self.rows.log_likelihood(thetas, self.dispersion)
        logs_with_prior = logs - 0.5 * np.einsum("np,np->n", u, u)
        free = precision < np.inf
        value = float(self.task_weights @ logs_with_prior - 0.5 * precision[free] @ beta[free] ** 2)
        return Mode(beta, u, thetas, value)

    def _marginal(self, thetas: Array, root: Array) -> Marginal:
        products = self.rows.products(thetas, self.dispersion)
        return Marginal(products, root, self.task_weights)


def climb(
    position: list[Array],
    value: float,
    density: Callable[[list[Array]], float],
    newton: Callable[[list[Array]], list[Array]],
) -> tuple[list[Array], float]:
    """Damped Newton steps from a position of some log density to its maximum, and that.

    A step is halved until it does not lead down; where that never happens, the position stays.
    """
    for _ in range(_MAX_STEPS):
        check_deadline()
        end, before = newton(position), value
        for size in 0.5 ** np.arange(_MAX_HALVINGS):
            trial = [a + size * (b - a) for a, b in zip(position, end, strict=True)]
            new = density(trial)
            if new >= value - _ROUNDING * abs(value):
                position, value = trial, new
                break
        if value - before <= _SMALL * max(1.0, 1e-3 * abs(value)):
            break
    return position, value


@dataclass(frozen=True, eq=False, kw_only=True)
class LaplacePoint(VariancePoint):
    """The quadratic model at the mode; the dispersion is in the products, and the noise 1."""

    data: LaplaceData
    mode: Mode

    @property
    def beta(self) -> Array:
        return self.mode.beta

    @property
    def thetas(self) -> Array:
        return self.mode.thetas

    @cached_property
    def task_posteriors(self) -> tuple[Array, Array]:
        """Posterior covariances of the θ_i, and I - V_i A_i."""
        root, C = self.marginal.root, self.center.covariance
        return task_covariances(self.marginal.products, root, C)

    @property
    def covariances(self) -> Array:
        """Posterior covariances of the θ_i."""
        return self.task_posteriors[0]

    @property
    def n_effective(self) -> float:
        """Effective number of parameters: how much targets move their own predictions."""
        n_each = np.einsum(
            "njk,nkj->n", self.marginal.products[:, :-1, :-1], self.task_posteriors[0]
        )
        return float(self.data.task_weights @ n_each)

    @cached_property
    def _response(self) -> tuple[Array, Array]:
        """How the mode moves (its residuals, its centre) where the determinants would push it."""
        K, rest = self.task_posteriors
        tilt = self.data.rows.tilt(self.thetas, K, self.dispersion)
        pushes = np.einsum("njk,nj->nk", rest, tilt)
        beta = self.center.covariance @ (self.data.task_weights @ pushes)
        return pushes - self.marginal.information[:, :-1, :-1] @ beta, beta

    @cached_property
    def slope_of_covariance(self) -> Array:
        moved = (self.data.task_weights[:, None] * self.residuals).T @ self._response[0]
        explicit = VariancePoint.slope_of_covariance.func(self)  # type: ignore[attr-defined]
        return np.asarray(explicit - 0.5 * (moved + moved.T))

    @cached_property
    def slope_of_ratio(self) -> Array:
        explicit = VariancePoint.slope_of_ratio.func(self)  # type: ignore[attr-defined]
        return np.asarray(explicit - self._response[1] * self.center.beta * self._prior**2)
