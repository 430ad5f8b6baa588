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
from crosslearning.convex.evidence._nested_point import NestedData
from crosslearning.convex.evidence._robust import Solved, reweighted
from crosslearning.convex.evidence.hierarchy import Hierarchy, NestedMarginal
from crosslearning.convex.evidence.mode import INTERCEPT_VARIANCE, LaplaceData, with_best_shape
from crosslearning.convex.evidence.nested import (
    NestedFit,
    NestedOptimum,
    NestedSearch,
    check_structure,
    nested_fit,
)
from crosslearning.convex.evidence.scoring import promised
from crosslearning.convex.evidence.search import MENTION, ROOM, SearchOptions
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
    fit = _Rounds(rows, hierarchy, weights, options).run(averaged=averaged)
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


class _Rounds:
    """Modes and variances in turn."""

    def __init__(
        self, rows: GLMRows, hierarchy: Hierarchy, weights: Array, options: SearchOptions
    ) -> None:
        self.rows, self.hierarchy, self.weights, self.options = rows, hierarchy, weights, options
        p, q = rows.n_parameters, rows.family.n_scores
        self.flat = np.arange(p) >= p - q * rows.intercept
        self.beta = np.zeros(p)
        self.offsets = [np.zeros((n, p)) for n in hierarchy.sizes]  # in standard deviations
        self.dispersed = LaplaceData(rows, weights, self.flat)
        self.dispersion = self.dispersed.pearson(np.zeros((rows.n_tasks, p)), 0.0)
        self.least = _LEAST_SHARE * self.dispersion

    def run(self, *, averaged: bool) -> NestedFit:
        """Search for the structure, and return the posterior averaged where that is better."""
        covariance = self.options.covariance
        search = self._search()
        best = self._settle(search, "block" if covariance == "auto" else covariance)
        scores = {best.structure: best.score}
        if covariance == "auto":
            start, ratio = best.point.marginal.variances, search.ratio
            richer = search.point("diagonal", start, ratio)
            charge = search.charge(richer) - search.charge(best.point)
            if ROOM * promised(richer, np.zeros(len(richer.variances))) > charge:
                block, state = best, (self.beta, self.offsets, self.dispersion, self.rows)
                best = self._settle(search, "diagonal")
                scores["diagonal"] = best.score
                if best.score <= block.score + MENTION:
                    best = block
                    self.beta, self.offsets, self.dispersion, self.rows = state
        fit = replace(best.fit(scores, self.dispersion), family=self.rows.family)
        averaged &= isinstance(self.rows.family, AVERAGED)
        return self._averaged(fit, best.point.marginal) if averaged else fit

    def _search(self) -> NestedSearch:
        rows = self.rows
        bends = np.einsum("njj->nj", rows.at_zero)[:, :-1] / self.dispersion
        data = QuadraticLevels(
            products=rows.at_zero / self.dispersion,
            task_weights=self.weights,
            hierarchy=self.hierarchy,
            flat=self.flat,
            flat_precision=1.0 / INTERCEPT_VARIANCE,
            thetas=np.zeros((rows.n_tasks, rows.n_parameters)),
            log_likelihoods=np.zeros(rows.n_tasks),
            slopes=np.zeros((rows.n_tasks, rows.n_parameters)),
            push=np.zeros((rows.n_tasks, rows.n_parameters)),
        )
        return NestedSearch(
            data,
            self.options,
            squares=self.weights @ bends,
            mean_squares=rows.mean_squares,
            columns=np.repeat(np.arange(len(rows.mean_squares)), rows.family.n_scores),
            intercept=rows.intercept,
        )

    def _settle(self, search: NestedSearch, structure: str) -> NestedOptimum:
        converged, n_iter = False, 0
        for _ in range(_MAX_ROUNDS):
            first = search.point(structure, search.start)
            data = self._at_mode(first.marginal)
            search.data = data
            optimum = search.best(structure, search.start)
            search.start = optimum.point.marginal.variances
            search.ratio = optimum.point.variances[-len(search.ratio) :]
            n_iter, before = n_iter + optimum.n_iter, self.dispersion
            marginal = optimum.point.marginal
            effective = np.einsum("njk,nkj->n", data.products[:, :-2, :-2], marginal.covariances[0])
            n_effective = float(self.weights @ effective)
            self.dispersion = self.dispersed.pearson(data.thetas, n_effective, self.least)
            moved = self._learn_shape(marginal)
            settled = abs(np.log(self.dispersion / before)) <= _SETTLED and moved <= _SHAPE_SETTLED
            converged = optimum.n_iter == 1 and bool(settled)
            if converged:
                break
        return replace(optimum, n_iter=n_iter, converged=converged)

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
        return QuadraticLevels(
            products=products,
            task_weights=self.weights,
            hierarchy=self.hierarchy,
            flat=self.flat,
            flat_precision=1.0 / INTERCEPT_VARIANCE,
            thetas=thetas,
            log_likelihoods=rows.log_likelihood(thetas, self.dispersion),
            slopes=rows.slopes(thetas) / self.dispersion,
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
