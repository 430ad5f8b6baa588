"""The evidence for generalised linear models whose rows are passed over a few times.

A pass sums the log likelihood of each task and its derivatives at given parameters. Until the next
pass a quadratic model stands for the rows, as in iteratively reweighted least squares: variances
are searched for on it, and its optimum is where the next pass looks.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from crosslearning.convex.evidence.laplace import GLMFit
from crosslearning.convex.evidence.marginal import Marginal, symmetric_root, times
from crosslearning.convex.evidence.mode import LaplaceData, LaplacePoint, Mode
from crosslearning.convex.evidence.posterior import EvidenceStatus
from crosslearning.convex.evidence.search import Optimum, SearchOptions
from crosslearning.convex.families import Family, Multinomial
from crosslearning.convex.sums.columns import Scaling
from crosslearning.convex.sums.passes import Expansion, Pass, Passed
from crosslearning.convex.sums.statistics import Statistics
from crosslearning.tether import Array

_MAX_PASSES = 30
_CLOSE = 1e-6  # largest step of a parameter at the end, relative to the largest parameter
_NEAR, _UNDECIDED = 0.5, 3  # step below which structures are compared, and for how many passes
_DEPTH, _CUTOFF = 6, 1e-2  # passes to extrapolate from, and singular values that count
_AHEAD, _FARTHEST = 4.0, 4.0  # times the last change, and times a variance: how far at most


def laplace_passes(
    passed: Passed,
    statistics: Statistics,
    scaling: Scaling,
    family: Family,
    options: SearchOptions,
    task_weights: Array,
    *,
    intercept: bool,
    learn_from: int | None = None,
) -> tuple[GLMFit, Pass]:
    """Fit as :func:`laplace_fit` does, from 10 to 20 passes; also returns the last one.

    `passed` sums all rows at the parameters of a pass, and `statistics` are those of the rows. With
    `learn_from`, variances are learned from at most that many evenly spaced tasks.
    """
    start, shift = _start(passed, statistics, scaling, family, intercept=intercept)
    q, p = family.n_scores, start.thetas.shape[1]
    added = np.append(np.zeros(p - q * intercept), shift[: q * intercept])
    moments = statistics.moments(scaling, intercept=intercept)
    squares = np.einsum("njj->j", moments.products)[:-1] / statistics.task_weights.sum()
    squares[len(squares) - intercept :] = 0.0
    step = -(-len(task_weights) // learn_from) if learn_from else 1
    climb = _Climb(options, task_weights, slice(None, None, step), start.thetas)
    for n_passes in range(1, _MAX_PASSES + 1):  # noqa: B007
        sums = passed(replace(start, thetas=climb.thetas + added))
        climb.expand(Expansion(climb.thetas, sums, family, intercept, squares))
        climb.search()
        if climb.converged:
            break
        start = replace(start, covariances=climb.point.marginal.task_posteriors[0])
    status = EvidenceStatus.CONVERGED if climb.converged else EvidenceStatus.MAX_PASSES
    assert climb.expansion is not None
    around = replace(climb.expansion, thetas=climb.expansion.thetas + added)

    def average(thetas: Array, covariances: Array) -> Array:
        at = replace(start, thetas=thetas + added, covariances=covariances, averaged=True)
        sums = Expansion(thetas, passed(at), family, intercept, squares)
        return sums.products(thetas, climb.dispersion)

    optimum, moments = climb.optimum, around.moments
    fit = GLMFit.of(optimum, climb.scores, moments, average, options.tol).shifted(added)
    fit = fit._replace(posterior=replace(fit.posterior, n_iter=n_passes, status=status))
    return fit, replace(start, thetas=fit.posterior.thetas, dispersion=climb.dispersion)


def _start(
    passed: Passed, statistics: Statistics, scaling: Scaling, family: Family, *, intercept: bool
) -> tuple[Pass, Array]:
    """Where to begin, and the pooled scores from which intercepts are measured."""
    n, q = statistics.n_tasks, family.n_scores
    p = (statistics.n_features + intercept) * q
    point = Pass(
        family=family,
        scaling=scaling,
        intercept=intercept,
        thetas=np.zeros((n, p)),
        covariances=np.zeros((n, p, p)),
        dispersion=1.0,
    )
    total, weights = statistics.task_weights.sum(), statistics.task_weights
    if isinstance(family, Multinomial):
        slope = passed(point).slopes[:, p - q :].sum(axis=0) if intercept else np.zeros(q)
        shares = 1.0 / family.n_classes + family.basis @ slope / total
        return point, family.start(np.arange(1.0 * family.n_classes), shares * total)
    mean = statistics.pooled_means()[-1:]
    if family.has_dispersion and intercept:  # a logarithmic link, along which Newton is slow
        task_means = statistics.total().cells.means[:, 0, -1]
        point.thetas[:, -1] = np.log((weights * task_means / mean + 1.0) / (weights + 1.0))
    return point, family.start(mean, np.array([total]))


class _PassData(LaplaceData):
    """Laplace's approximation for a quadratic model, whose mode is one step away."""

    rows: Expansion

    def at(self, root: Array, ratio: Array | float) -> LaplacePoint:
        point = super().at(root, ratio)
        # How the determinants change with the parameters, to first order.
        tilts = np.einsum("np,np->n", self.rows.sums.tilts, point.thetas - self.rows.thetas)
        drift = float(self.task_weights @ tilts) / self.dispersion
        return replace(point, value=point.value - drift)

    def climb(self, root: Array, precision: Array) -> tuple[Mode, Marginal]:
        marginal = self._marginal(self.rows.thetas, [root], precision)
        position = [marginal.center.beta, times(marginal.residuals[0], root.T)]
        return self._mode(position, [root], precision), marginal


class _Climb:
    """Parameters and variances on their way up.

    `damping` shortens the steps of tasks whose last one went too far, and variances are learned
    from the tasks `few`.
    """

    def __init__(
        self, options: SearchOptions, task_weights: Array, few: slice, thetas: Array
    ) -> None:
        self.options, self.task_weights, self.few, self.thetas = options, task_weights, few, thetas
        self.structure = "block" if options.covariance == "auto" else options.covariance
        self.damping, self.dispersion = np.ones(len(thetas)), 1.0
        self.mixing, self.n_near, self.converged = _Mixing(), 0, False
        self.scores: dict[str, float] = {}
        self.expansion: Expansion | None = None
        self.last: Optimum[LaplacePoint] | None = None

    @property
    def optimum(self) -> Optimum[LaplacePoint]:
        """The variances of the present parameters."""
        assert self.last is not None
        return self.last

    @property
    def point(self) -> LaplacePoint:
        """The posterior on the last quadratic model."""
        return self.optimum.point

    def expand(self, around: Expansion) -> None:
        """Take in a pass, but for tasks that went too far."""
        if self.expansion is not None:
            around, good = around.unless_worse(self.expansion)
            self.damping = np.where(good, np.minimum(2.0 * self.damping, 1.0), 0.25 * self.damping)
        self.expansion = around

    def search(self) -> None:
        """Search for the variances, and for the parameters of the next pass."""
        assert self.expansion is not None
        data = self._data(self.expansion, self.task_weights)
        if self.last is not None:
            self.dispersion = data.pearson(self.thetas, self.point.n_effective)
        if self.n_near == 1:
            self.structure = self.options.covariance
        few = self._data(self.expansion.take(self.few), self.task_weights[self.few])
        search = few.search(self.options, self.last)
        optimum, self.scores = search.run(self.structure)
        if self.n_near == _UNDECIDED:
            self.structure = optimum.structure
        root, ratio = optimum.root, optimum.ratio
        if self.n_near:
            root, ratio, self.dispersion = self.mixing.next(optimum, self.dispersion)
        data.dispersion = self.dispersion
        point = data.at(root, ratio[search.blocks[search.columns]])
        self.last = replace(optimum, point=point, root=root, ratio=ratio)
        self._step(self.point.thetas - self.expansion.thetas)

    def _step(self, step: Array) -> None:
        assert self.expansion is not None
        largest, size = np.abs(step).max(), max(1.0, np.abs(self.point.thetas).max())
        settled = self.n_near >= _UNDECIDED and self.damping.min() == 1.0
        self.converged = bool(settled and largest <= _CLOSE * size)
        self.n_near += bool(self.n_near or largest < _NEAR)
        self.thetas = self.expansion.thetas + self.damping[:, None] * step

    def _data(self, expansion: Expansion, task_weights: Array) -> LaplaceData:
        data = _PassData.of(expansion, task_weights)
        data.dispersion = self.dispersion
        return data


class _Mixing:
    """Anderson's acceleration of the fixed-point iteration for variances."""

    def __init__(self) -> None:
        self.structure = ""
        self.used: list[Array] = []
        self.images: list[Array] = []

    def next(self, optimum: Optimum[LaplacePoint], dispersion: float) -> tuple[Array, Array, float]:
        """Root, ratio and dispersion to use, given what came of those used before."""
        variances, unit = optimum.root**2, optimum.root**2
        if variances.ndim > 1:
            variances, size = optimum.covariance, np.sqrt(np.diagonal(optimum.covariance))
            unit = np.outer(size, size)
        rest = np.append(optimum.ratio, dispersion)
        new, unit = (np.append(part.ravel(), rest) for part in (variances, unit))
        if optimum.structure != self.structure:
            self.structure, self.used, self.images = optimum.structure, [], []
        mixed = self._mixed(new, np.where(unit > 0, unit, 1.0))
        ratio = mixed[variances.size : -1]
        variances = mixed[: variances.size].reshape(variances.shape)
        root = np.sqrt(variances) if variances.ndim == 1 else symmetric_root(variances)
        return root, ratio, float(mixed[-1])

    def _mixed(self, new: Array, unit: Array) -> Array:
        """Extrapolate by the shares of earlier steps that leave the smallest change."""
        mixed = new
        if self.used:
            self.images, self.used = [*self.images, new][-_DEPTH:], self.used[-_DEPTH:]
            images = np.array(self.images)
            changes = (images - np.array(self.used)) / unit
            shares = np.linalg.lstsq(np.diff(changes, axis=0).T, changes[-1], rcond=_CUTOFF)[0]
            ahead = -shares @ np.diff(images, axis=0)
            size, most = np.linalg.norm(ahead / unit), _AHEAD * np.linalg.norm(changes[-1])
            mixed = new + ahead * (most / size if size > most else 1.0)
            within = np.clip(mixed, new / _FARTHEST, new * _FARTHEST)
            mixed = np.where(new >= 0, within, mixed)
        self.used.append(mixed)
        return mixed
