"""Laplace's approximation of the evidence of a generalised linear model at given variances."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, Self, cast

import numpy as np
from scipy.optimize import minimize

from crosslearning.convex.deadline import check_deadline
from crosslearning.convex.evidence.marginal import Hierarchy, Marginal, roots_of_levels, times
from crosslearning.convex.evidence.point import EvidencePoint
from crosslearning.convex.evidence.search import FREE, Optimum, Search, SearchOptions
from crosslearning.convex.families import OneScore
from crosslearning.convex.sums.passes import Expansion
from crosslearning.convex.sums.rows import GLMRows
from crosslearning.tether import Array, Flags

_INTERCEPT_VARIANCE = 100.0  # of the centre, around the pooled one, in squared scores
_FREE_SCORE = 10.0  # variance of intercepts of separate models of classes around the pooled ones
_SMALL, _MAX_STEPS, _MAX_HALVINGS = 1e-10, 100, 40
_ROUNDING = 1e-13
_LEAST_SHARE = 1e-6  # smallest dispersion, as a share of that without features and tasks
_SETTLED, _SHAPE_SETTLED = 1e-4, 1e-3  # last changes of the dispersion and of a family's shape


class Mode(NamedTuple):
    """The most likely parameters, and their density."""

    position: list[Array]  # of the centre, and offsets of each level in roots of S
    thetas: Array
    value: float


@dataclass(eq=False)
class LaplaceData:
    """Rows, intercepts (whose prior is wide), groups, and the last mode."""

    rows: GLMRows | Expansion
    intercept: Flags
    hierarchy: Hierarchy
    dispersion: float = 1.0
    least: float = 1e-8  # dispersion
    last: Mode | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls, rows: GLMRows | Expansion, groups: Hierarchy | None = None, dispersion: float = 1.0
    ) -> Self:
        p = rows.n_parameters
        intercept = np.arange(p) >= p - rows.family.n_scores * rows.intercept
        return cls(rows, intercept, groups or Hierarchy.flat(rows.n_tasks), dispersion)

    def search(
        self, options: SearchOptions, start: "Optimum[LaplacePoint] | None" = None
    ) -> "Search[LaplacePoint]":
        rows, at_zero = self.rows, self.rows.at_zero
        return Search(
            self.at,
            options,
            start,
            squares=np.einsum("njj->j", at_zero)[:-1] / self.dispersion,
            mean_squares=rows.mean_squares,
            columns=np.repeat(np.arange(len(rows.mean_squares)), rows.family.n_scores),
            intercept=rows.intercept,
            sizes=self.hierarchy.sizes_with(np.einsum("njj->n", at_zero[:, :-1, :-1]) > 0),
            free=_FREE_SCORE if rows.family.link == "logit" else FREE,
        )

    def at(self, root: Array, ratio: Array | float) -> "LaplacePoint":
        """Evaluate at Σ = root rootᵀ and τ² = ratio, for all parameters or for each."""
        precision = np.where(self.intercept, 1.0 / _INTERCEPT_VARIANCE, np.divide(1.0, ratio))
        mode, marginal = self.climb(root, precision)
        self.last = mode
        # The centre's mean is one more Newton step ahead.
        logs = marginal.log_det + marginal.center.log_det - np.log(precision).sum()
        return LaplacePoint(
            marginal=marginal,
            coef=~self.intercept,
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
        n_free = max(self.rows.counts.sum() - n_parameters, 1.0)
        squares = float(self.rows.totals(thetas, family.squared_error).sum())
        return float(max(squares / n_free, self.least, family.least_dispersion))

    def begin(self) -> None:
        """Take the dispersion without features and tasks, and a share of it as the smallest."""
        self.dispersion = self.pearson(np.zeros((self.rows.n_tasks, self.rows.n_parameters)), 0.0)
        self.least = _LEAST_SHARE * self.dispersion

    def settled(self, optimum: "Optimum[LaplacePoint]", ratio: Array) -> bool:
        """Learn dispersion and, by evidence, shape; return whether both hardly change."""
        before, rows, last = self.dispersion, cast("GLMRows", self.rows), self.last
        self.dispersion = self.pearson(optimum.point.thetas, optimum.point.n_effective)
        family = rows.family

        def negative(shape: Array) -> float:
            self.rows, self.last = rows.with_family(family.with_shape(shape)), last
            return -self.at(optimum.root, ratio).value

        if len(family.shape):
            best = minimize(
                negative, family.shape, method="BFGS", options={"gtol": 1e-3, "eps": 1e-4}
            )
            self.rows = rows.with_family(family.with_shape(best.x))
        moved = np.abs(self.rows.family.shape - family.shape).max(initial=0.0)
        return bool(abs(np.log(self.dispersion / before)) <= _SETTLED and moved <= _SHAPE_SETTLED)

    def climb(self, root: Array, precision: Array) -> tuple[Mode, Marginal]:
        """Damped Newton steps on all parameters, from the last mode or, if better, the pooled one.

        A precision of infinity holds the centre at 0.
        """
        p, n_units = len(precision), self.hierarchy.sizes[:-1]
        roots = roots_of_levels(root, p)
        mode = self._mode([np.zeros(p), *(np.zeros((n, p)) for n in n_units)], roots, precision)
        last = self.last
        if last is None and (wider := self.rows.family.wider):
            easier = replace(self, rows=replace(self.rows, family=wider))
            last = easier.climb(root, precision)[0]
        if last is not None:
            last = self._mode(last.position, roots, precision)
            mode = max(mode, last, key=lambda mode: mode.value)
        for _ in range(_MAX_STEPS):
            check_deadline()
            marginal, before = self._marginal(mode.thetas, roots, precision), mode
            steps = zip(marginal.residuals, roots, strict=True)
            end = [marginal.center.beta, *(times(g, root.T) for g, root in steps)]
            pairs = list(zip(before.position, end, strict=True))
            for size in 0.5 ** np.arange(_MAX_HALVINGS):
                trial = self._mode([a + size * (b - a) for a, b in pairs], roots, precision)
                if trial.value >= before.value - _ROUNDING * abs(before.value):
                    mode = trial
                    break
            if mode.value - before.value <= _SMALL * max(1.0, 1e-3 * abs(mode.value)):
                break
        return mode, self._marginal(mode.thetas, roots, precision)

    def _mode(self, position: list[Array], roots: list[Array], precision: Array) -> Mode:
        """Add the log density of targets and parameters, but for the priors' normalisation."""
        beta, *offsets = position
        thetas = beta + times(offsets[0], roots[0])
        for level in range(1, len(roots)):
            thetas += times(offsets[level], roots[level])[self.hierarchy.ancestors(level)]
        logs, free = self.rows.log_likelihood(thetas, self.dispersion), precision < np.inf
        squares = precision[free] @ beta[free] ** 2 + sum(np.sum(u**2) for u in offsets)
        return Mode(position, thetas, float(logs.sum() - 0.5 * squares))

    def _marginal(self, thetas: Array, roots: list[Array], precision: Array) -> Marginal:
        products = self.rows.products(thetas, dispersion=self.dispersion)
        return Marginal(products, self.hierarchy, roots, precision)


@dataclass(frozen=True, eq=False, kw_only=True)
class LaplacePoint(EvidencePoint):
    """The quadratic model at the mode; the dispersion is in the products, and the noise 1."""

    data: LaplaceData
    mode: Mode

    @property
    def beta(self) -> Array:
        return self.mode.position[0]

    @property
    def thetas(self) -> Array:
        return self.mode.thetas

    @property
    def n_effective(self) -> float:
        """Effective number of parameters: how much targets move their own predictions."""
        A, K = self.marginal.products[:, :-1, :-1], self.marginal.task_posteriors[0]
        return float(np.einsum("njk,nkj->", A, K))

    @cached_property
    def response(self) -> tuple[list[Array], Array]:
        """How the mode moves where the determinants would push it."""
        covariances = self.marginal.task_posteriors[0]
        return self.marginal.response(
            self.data.rows.tilt(self.thetas, covariances, self.dispersion)
        )
