"""Groups within groups for generalised linear models, by Laplace's approximation.

At the joint mode the log likelihood is expanded to second order, and the variances are searched for
on this quadratic model. Laplace's determinants change with the mode; to first order that is a push
on the parameters, which the quadratic model takes as a second target. Modes and variances take
turns until the gradient of the approximate evidence, which is exact at a mode, is negligible.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from crosslearning.convex.deadline import check_deadline
from crosslearning.convex.evidence._robust import Solved, reweighted
from crosslearning.convex.evidence.hierarchy import Hierarchy, NestedMarginal
from crosslearning.convex.evidence.mode import INTERCEPT_VARIANCE, LaplaceData, with_best_shape
from crosslearning.convex.evidence.nested import (
    NestedData,
    NestedFit,
    NestedPoint,
    check_structure,
    equal_shares,
    levels_fit,
    levels_of,
    nested_fit,
)
from crosslearning.convex.evidence.search import Optimum, Search, SearchOptions
from crosslearning.convex.families import AVERAGED, Gaussian, Student
from crosslearning.convex.sums.checks import checked_weights
from crosslearning.convex.sums.moments import Moments
from crosslearning.convex.sums.rows import GLMRows
from crosslearning.tether import Array, Indices

_MAX_ROUNDS, _MAX_STEPS, _MAX_HALVINGS = 60, 100, 40
_SMALL, _ROUNDING = 1e-10, 1e-13  # gains of the log density, relative ones
_SETTLED, _LEAST_SHARE = 1e-4, 1e-6  # of the dispersion: last change, and smallest value
_SHAPE_SETTLED = 1e-3  # last change of a family's shape
_AVERAGING_ROUNDS, _CLOSE = 10, 0.01  # and the last step, in standard deviations


@dataclass(eq=False, kw_only=True)
class QuadraticLevels(NestedData):
    """The log likelihood around the mode `thetas`, and the push of the determinants there."""

    thetas: Array
    log_likelihoods: Array
    slopes: Array
    push: Array

    def value(self, marginal: NestedMarginal) -> tuple[float, float, float]:
        p = self.thetas.shape[1]
        step = marginal.means[0][:, :, 0] - self.thetas
        bend = np.matmul(self.products[:, :p, :p], step[:, :, None])[:, :, 0]
        logs = np.einsum("np,np->n", self.slopes - 0.5 * bend - self.push, step)
        value = float(self.task_weights @ (self.log_likelihoods + logs)) + prior(marginal)
        determinants = marginal.log_det + marginal.center.log_det - np.log(marginal.precision).sum()
        return value - 0.5 * float(determinants), 1.0, np.inf


def prior(marginal: NestedMarginal) -> float:
    """Log prior density of the posterior means, but for its normalisation."""
    levels = zip(marginal.weights, marginal.residuals, marginal.variances, strict=True)
    squares = sum(float(w @ g[:, :, 0] ** 2 @ S) for w, g, S in levels)
    return -0.5 * (squares + float(marginal.precision @ marginal.center.beta**2))


def nested_laplace_fit(
    rows: GLMRows,
    hierarchy: Hierarchy,
    *,
    covariance: str = "auto",
    blocks: Indices | None = None,
    task_weights: ArrayLike | None = None,
    averaged: bool = True,
    tol: float = 1e-6,
    max_iter: int = 200,
) -> NestedFit:
    """Fit a generalised linear model of groups within groups; parameters as in `laplace_fit`.

    Of classes and counts the posterior is `averaged`, as by :func:`nearest_gaussians`; else means
    are modes.
    """
    check_structure(covariance)
    family = rows.family
    family.check(rows.y)
    weights = checked_weights(task_weights, rows.n_tasks, "task_weights")
    options = SearchOptions(covariance, blocks, tol, max_iter)
    if type(family) is Gaussian:
        return nested_fit(rows.moments(), hierarchy, task_weights=weights, **options._asdict())
    if isinstance(family, Student):
        return _robust(rows, family, hierarchy, weights, options)
    if isinstance(family, Gaussian):
        raise ValueError(
            f"Groups within groups need another family than {family.name!r}. Use 'gaussian' for "
            "numbers or 'poisson' for counts, or name only the innermost groups as tasks."
        )
    family = family.begun(rows.y, rows.weights)
    shift = family.start(rows.y, rows.weights) * rows.intercept
    rows = replace(rows, offset=rows.offset + shift, family=family)
    fit = _Rounds(rows, hierarchy, weights, options).fit(averaged=averaged)
    by = np.append(np.zeros(rows.n_parameters - len(shift)), shift)
    return replace(fit, center=fit.center + by, means=[means + by for means in fit.means])


def _robust(
    rows: GLMRows, family: Student, hierarchy: Hierarchy, weights: Array, options: SearchOptions
) -> NestedFit:
    """Fit real targets with outliers, by precisions of rows."""

    def solve(moments: Moments, options: SearchOptions, _: NestedFit | None) -> Solved[NestedFit]:
        fit = nested_fit(moments, hierarchy, task_weights=weights, **options._asdict())
        return Solved(fit, fit.means[0], fit.covariances[0])

    fit = reweighted(rows, family, weights, options, solve)[0]
    return replace(fit, family=family)


class _Rounds(Search[NestedPoint]):
    """Modes and variances in turn."""

    def __init__(
        self, rows: GLMRows, hierarchy: Hierarchy, weights: Array, options: SearchOptions
    ) -> None:
        self.rows, self.hierarchy, self.weights = rows, hierarchy, weights
        p, q = rows.n_parameters, rows.family.n_scores
        self.flat = np.arange(p) >= p - q * rows.intercept
        self.beta = np.zeros(p)
        self.offsets = [np.zeros((n, p)) for n in hierarchy.sizes]  # in standard deviations
        self.dispersed = LaplaceData(rows, weights, self.flat)
        none = np.zeros((rows.n_tasks, p))
        self.dispersion = self.dispersed.pearson(none, 0.0)
        self.least = _LEAST_SHARE * self.dispersion
        products = rows.at_zero / self.dispersion
        squares = np.einsum("n,njj->j", weights, products)[:-1]
        super().__init__(
            self._data(products, none, np.zeros(rows.n_tasks), none, none).at,
            options,
            squares=squares,
            mean_squares=rows.mean_squares,
            columns=np.repeat(np.arange(len(rows.mean_squares)), q),
            intercept=rows.intercept,
            **levels_of(hierarchy),
        )
        self.start = equal_shares(weights, squares, len(hierarchy.sizes))
        self.ends: dict[str, tuple[Array, list[Array], float, GLMRows]] = {}

    def fit(self, *, averaged: bool) -> NestedFit:
        """Search for the structure, and return the posterior averaged where that is better."""
        best, scores = self.run(self.options.covariance)
        self.beta, self.offsets, self.dispersion, self.rows = self.ends[best.structure]
        family = self.rows.family
        fit = replace(levels_fit(best, scores), noise_variance=self.dispersion, family=family)
        averaged &= isinstance(family, AVERAGED)
        return self._averaged(fit, best.point.marginal) if averaged else fit

    def best(
        self, structure: str, start: Optimum[NestedPoint] | None = None
    ) -> Optimum[NestedPoint]:
        """Let modes and variances take turns."""
        converged, n_iter = False, 0
        for _ in range(_MAX_ROUNDS):
            evaluate, variances, _ = self.space(structure, start)
            data = self._at_mode(evaluate(variances).point.marginal)
            self.at = data.at
            start = super().best(structure, start)
            n_iter, before = n_iter + start.n_iter, self.dispersion
            marginal = start.point.marginal
            effective = np.einsum("njk,nkj->n", data.products[:, :-2, :-2], marginal.covariances[0])
            n_effective = float(self.weights @ effective)
            self.dispersion = self.dispersed.pearson(data.thetas, n_effective, self.least)
            moved = self._learn_shape(marginal)
            settled = abs(np.log(self.dispersion / before)) <= _SETTLED and moved <= _SHAPE_SETTLED
            converged = start.n_iter == 1 and bool(settled)
            if converged:
                break
        assert start is not None
        self.ends[structure] = self.beta, self.offsets, self.dispersion, self.rows
        return replace(start, n_iter=n_iter, converged=converged)

    def _learn_shape(self, marginal: NestedMarginal) -> float:
        """Learn the shape of the family at given variances; return by how much it changed."""

        def evidence(rows: GLMRows) -> float:
            self.rows = rows
            data = self._at_mode(marginal)
            return data.value(replace(marginal, products=data.products))[0]

        self.rows, moved = with_best_shape(self.rows, evidence)
        return moved

    def _at_mode(self, marginal: NestedMarginal) -> QuadraticLevels:
        """Climb to the mode at given variances, and expand there."""
        roots, precision = np.sqrt(marginal.variances), marginal.precision
        value = self._density(self.beta, self.offsets, roots, precision)
        for _ in range(_MAX_STEPS):
            check_deadline()
            thetas = self._thetas(self.beta, self.offsets, roots)
            products = self.rows.products(thetas, self.dispersion)
            here = replace(marginal, products=products)
            towards = [root * g[:, :, 0] for root, g in zip(roots, here.residuals, strict=True)]
            for size in 0.5 ** np.arange(_MAX_HALVINGS):
                beta = self.beta + size * (here.center.beta - self.beta)
                offsets = [
                    offset + size * (end - offset)
                    for offset, end in zip(self.offsets, towards, strict=True)
                ]
                new = self._density(beta, offsets, roots, precision)
                if new >= value - _ROUNDING * abs(value):
                    self.beta, self.offsets = beta, offsets
                    break
            gain, value = new - value, max(new, value)
            if gain <= _SMALL * max(1.0, 1e-3 * abs(value)):
                break
        return self._expanded(replace(marginal, products=products), roots)

    def _expanded(self, marginal: NestedMarginal, roots: Array) -> QuadraticLevels:
        rows, thetas = self.rows, self._thetas(self.beta, self.offsets, roots)
        p = thetas.shape[1]
        push = rows.tilt(thetas, marginal.covariances[0], self.dispersion)
        products = np.zeros((rows.n_tasks, p + 2, p + 2))
        products[:, :-1, :-1] = rows.products(thetas, self.dispersion)
        products[:, :p, -1] = products[:, -1, :p] = -push
        likelihoods = rows.log_likelihood(thetas, self.dispersion)
        slopes = rows.slopes(thetas) / self.dispersion
        return self._data(products, thetas, likelihoods, slopes, push)

    def _data(
        self, products: Array, thetas: Array, log_likelihoods: Array, slopes: Array, push: Array
    ) -> QuadraticLevels:
        return QuadraticLevels(
            products=products,
            task_weights=self.weights,
            hierarchy=self.hierarchy,
            flat=self.flat,
            flat_precision=1.0 / INTERCEPT_VARIANCE,
            thetas=thetas,
            log_likelihoods=log_likelihoods,
            slopes=slopes,
            push=push,
        )

    def _thetas(self, beta: Array, offsets: list[Array], roots: Array) -> Array:
        thetas = np.tile(beta, (self.rows.n_tasks, 1))
        for level, (offset, root) in enumerate(zip(offsets, roots, strict=True)):
            thetas += (root * offset)[self.hierarchy.ancestors(level)]
        return thetas

    def _density(self, beta: Array, offsets: list[Array], roots: Array, precision: Array) -> float:
        """Log density of targets and parameters, but for the priors' normalisation."""
        logs = self.rows.log_likelihood(self._thetas(beta, offsets, roots), self.dispersion)
        logs -= 0.5 * np.sum(offsets[0] ** 2, axis=1)
        outer = sum(float(np.sum(offset**2)) for offset in offsets[1:])
        return float(self.weights @ logs) - 0.5 * (outer + float(precision @ beta**2))

    def _averaged(self, fit: NestedFit, marginal: NestedMarginal) -> NestedFit:
        """Take the Gaussian nearest to the posterior, as `nearest_gaussians` does."""
        p = len(marginal.precision)
        now = replace(marginal, products=marginal.products[:, : p + 1, : p + 1])
        for _ in range(_AVERAGING_ROUNDS):
            check_deadline()
            thetas, covariances = now.means[0][:, :, 0], now.covariances[0]
            averaged = self.rows.products(thetas, self.dispersion, covariances)
            now = replace(now, products=0.5 * (now.products + averaged))
            moved = (now.means[0][:, :, 0] - thetas) ** 2
            if np.all(moved <= _CLOSE**2 * np.einsum("njj->nj", now.covariances[0])):
                break
        return replace(
            fit,
            center=now.means[-1][0, :, 0],
            center_covariance=now.center.covariance,
            means=[means[:, :, 0] for means in now.means[:-1]],
            covariances=now.covariances[:-1],
            gains=now.gains,
        )
