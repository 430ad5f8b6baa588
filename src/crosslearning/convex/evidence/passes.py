"""The evidence for generalised linear models whose rows are passed over a few times.

Between passes a quadratic model stands for the rows: variances are searched for on it, and its
optimum is where the next pass looks.
"""

from dataclasses import replace

import numpy as np

from crosslearning.convex.evidence.laplace import approximate
from crosslearning.convex.evidence.marginal import Marginal, times
from crosslearning.convex.evidence.mode import LaplaceData, LaplacePoint, Mode
from crosslearning.convex.evidence.posterior import EvidenceFit, EvidenceStatus
from crosslearning.convex.evidence.search import Optimum, SearchOptions
from crosslearning.convex.families import Family, Multinomial
from crosslearning.convex.sums.columns import Scaling
from crosslearning.convex.sums.passes import Expansion, Pass, Passed
from crosslearning.convex.sums.statistics import Statistics
from crosslearning.tether import Array

_MAX_PASSES = 50
_CLOSE = 1e-6  # largest step of a parameter at the end, relative to the largest parameter
_NEAR, _UNDECIDED = 0.5, 3  # step below which structures are compared, and for how many passes


def laplace_passes(
    passed: Passed,
    statistics: Statistics,
    scaling: Scaling,
    family: Family,
    options: SearchOptions,
    *,
    intercept: bool,
    learn_from: int | None = None,
) -> tuple[EvidenceFit, Expansion, Pass]:
    """Fit as :func:`laplace_fit` does, from 10 to 20 passes; also returns the last one."""
    start, shift = _start(passed, statistics, scaling, family, intercept=intercept)
    q, p = family.n_scores, start.thetas.shape[1]
    added = np.append(np.zeros(p - q * intercept), shift[: q * intercept])
    moments = statistics.moments(scaling, intercept=intercept)
    squares = np.einsum("njj->j", moments.products)[:-1] / statistics.task_weights.sum()
    squares[len(squares) - intercept :] = 0.0
    step = -(-statistics.n_tasks // learn_from) if learn_from else 1
    climb = _Climb(options, slice(None, None, step), start.thetas)
    while not climb.converged and climb.n_passes < _MAX_PASSES:
        sums = passed(replace(start, thetas=climb.thetas + added))
        climb.take(Expansion(climb.thetas, sums, family, intercept, squares))
        start = replace(start, covariances=climb.optimum.point.marginal.task_posteriors[0])
    status = EvidenceStatus.CONVERGED if climb.converged else EvidenceStatus.MAX_PASSES
    around = replace(climb.expansion, thetas=climb.expansion.thetas + added)

    def average(thetas: Array, covariances: Array) -> Array:
        at = replace(start, thetas=thetas + added, covariances=covariances, averaged=True)
        sums = Expansion(thetas, passed(at), family, intercept, squares)
        return sums.products(thetas, dispersion=climb.dispersion)

    fit = approximate(climb.optimum, average, options.tol, added)
    fit = replace(fit, n_iter=climb.n_passes, status=status)
    return fit, around, replace(start, thetas=fit.thetas, dispersion=climb.dispersion)


def _start(
    passed: Passed, statistics: Statistics, scaling: Scaling, family: Family, *, intercept: bool
) -> tuple[Pass, Array]:
    """Where to begin, and the pooled scores from which intercepts are measured."""
    n, q = statistics.n_tasks, family.n_scores
    p = (statistics.n_features + intercept) * q
    point = Pass(family, scaling, intercept, np.zeros((n, p)), np.zeros((n, p, p)), 1.0)
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
        tilts = np.vdot(self.rows.sums.tilts, point.thetas - self.rows.thetas)
        drift = float(tilts) / self.dispersion
        return replace(point, value=point.value - drift)

    def climb(self, root: Array, precision: Array) -> tuple[Mode, Marginal]:
        marginal = self._marginal(self.rows.thetas, [root], precision)
        position = [marginal.center.beta, times(marginal.residuals[0], root.T)]
        return self._mode(position, [root], precision), marginal


class _Climb:
    """Parameters and variances on their way up; the latter are learned from the tasks `few`."""

    expansion: Expansion
    optimum: Optimum[LaplacePoint]

    def __init__(self, options: SearchOptions, few: slice, thetas: Array) -> None:
        self.options, self.few, self.thetas = options, few, thetas
        self.structure = "block" if options.covariance == "auto" else options.covariance
        # Steps of tasks whose last one went too far are shortened.
        self.damping, self.dispersion = np.ones(len(thetas)), 1.0
        self.n_passes, self.n_near, self.converged = 0, 0, False

    def take(self, around: Expansion) -> None:
        """Take in a pass, but for tasks that went too far; search for variances and parameters."""
        if self.n_passes:
            around, good = around.unless_worse(self.expansion)
            self.damping = np.where(good, np.minimum(2.0 * self.damping, 1.0), 0.25 * self.damping)
        self.expansion = around
        data = _PassData.of(around)
        if self.n_passes:
            self.dispersion = data.pearson(self.thetas, self.optimum.point.n_effective)
        if self.n_near == 1:
            self.structure = self.options.covariance
        few = _PassData.of(around.take(self.few))
        data.dispersion = few.dispersion = self.dispersion
        search = few.search(self.options, self.optimum if self.n_passes else None)
        optimum = search.run(self.structure)
        if self.n_near == _UNDECIDED:
            self.structure = optimum.structure
        point = data.at(optimum.root, optimum.ratio[search.blocks[search.columns]])
        self.optimum = replace(optimum, point=point)
        self.n_passes += 1
        step, size = point.thetas - around.thetas, max(1.0, np.abs(point.thetas).max())
        largest = np.abs(step).max()
        settled = self.n_near >= _UNDECIDED and self.damping.min() == 1.0
        self.converged = bool(settled and largest <= _CLOSE * size)
        self.n_near += bool(self.n_near or largest < _NEAR)
        self.thetas = around.thetas + self.damping[:, None] * step
