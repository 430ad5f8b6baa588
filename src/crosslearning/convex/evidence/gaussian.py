"""The hierarchical Gaussian model, fitted by maximising the evidence.

y = xᵀθ_i + noise of variance σ², θ_i = β + δ_i, δ_i ~ N(0, Σ), β ~ N(0, τ²) on the coefficients and
flat on the intercept. Σ, σ² and τ² maximise the probability of the targets with all parameters
integrated out (restricted maximum likelihood, where τ² is large).

With Student's t noise each row has a precision of its own, w = (ν + 1) / (ν + r²) for its squared
error r², averaged over the posterior, in units of σ². The slopes of the log density are those of
least squares with these weights, but its curvature is not: where an error decides its own weight,
this says less. The curvature is Fisher's information, k = (ν + 1) / (ν + 3) for a row, the variance
of its slope w r; so k is Σ w² r² / Σ w r², which makes Σ w r² the estimate of the noise. Working
responses m + (w / k) (y - m), around scores m, have these slopes and this curvature.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from crosslearning.convex.evidence.marginal import Hierarchy, Marginal, roots_of_levels, row_factors
from crosslearning.convex.evidence.point import EvidencePoint
from crosslearning.convex.evidence.posterior import EvidenceFit
from crosslearning.convex.evidence.search import Optimum, Search, SearchOptions
from crosslearning.convex.families import Student
from crosslearning.convex.sums.rows import GLMRows, Moments
from crosslearning.tether import Array, Flags, Indices

COVARIANCES = ("auto", "block", "diagonal", "full", "levels", "pooled", "separate")
_OF_LEVELS = ("auto", "block", "diagonal", "levels", "pooled")
_SAMPLE = 2**14  # tasks that are enough to begin with
_ROUNDING = 1e-13  # smallest noise, as a share of the variance of the targets
_MAX_ROUNDS, _TASK_ROUNDS = 200, 20
_PATIENT, _IDLE = 100, 0.03  # rounds after which such changes of the log evidence are idle
_LEAST_STEP, _CHECKED = 0.1, 10  # rounds after which steps may be halved
_STRUCTURE_ROUNDS = 3  # after which the structure of the covariance stays
_NORMAL = 1.4826  # standard deviation over median absolute deviation


@dataclass(frozen=True, eq=False)
class GaussianData:
    """Moments of the tasks, columns whose centre has a flat prior, and groups."""

    moments: Moments
    flat: Flags
    hierarchy: Hierarchy

    @classmethod
    def of(
        cls, moments: Moments, groups: Hierarchy | None = None, *, flat_center: bool = False
    ) -> "GaussianData":
        flat = np.full(moments.n_columns, flat_center)
        flat[moments.n_columns - moments.intercept :] = True
        return cls(moments, flat, groups or Hierarchy.flat(moments.n_tasks))

    def search(
        self, options: SearchOptions, start: Optimum[EvidencePoint] | None = None
    ) -> Search[EvidencePoint]:
        squares = np.einsum("njj->j", self.moments.products)[:-1]
        return Search(
            self.at,
            options,
            start,
            squares=squares,
            mean_squares=np.where(self.flat, 0.0, squares / max(self.moments.counts.sum(), 1)),
            columns=np.arange(self.moments.n_columns),
            intercept=self.moments.intercept,
            sizes=self.hierarchy.sizes_with(self.moments.counts > 0),
        )

    def at(self, root: Array, ratio: Array | float) -> EvidencePoint:
        """Evaluate at Σ = σ² root rootᵀ, all τ² = σ² ratio, and the best σ²."""
        precision = np.where(self.flat, 0.0, np.divide(1.0, ratio))
        products, roots = self.moments.products, roots_of_levels(root, len(self.flat))
        marginal = Marginal(products, self.hierarchy, roots, precision, factors=self._factors)
        center = marginal.center
        v = np.append(-center.beta, 1.0)
        squares = max(float(v @ marginal.total @ v + precision @ center.beta**2), 0.0)
        n_rows = float(self.moments.counts.sum())
        n_free = max(n_rows - center.n_flat, 1.0)
        targets = float(products[:, -1, -1].sum())
        smallest = _ROUNDING * (targets / max(n_rows, 1.0) or 1.0)
        noise = max(squares / n_free, smallest)
        logs = marginal.log_det + center.log_det - np.log(precision[~self.flat]).sum()
        logs -= float(self.moments.log_weights.sum())
        deviance = n_free * np.log(2.0 * np.pi * noise) + squares / noise
        return EvidencePoint(
            marginal=marginal,
            coef=~self.flat,
            noise=noise,
            n_noise=n_free if noise > smallest else np.inf,
            value=float(-0.5 * (deviance + logs)),
            dispersion=noise,
            noiseless=noise <= smallest,
        )

    @cached_property
    def _factors(self) -> Array | None:
        """Rows that stand for each task's, if they are fewer than half the columns."""
        most = int(self.moments.counts.max(initial=0))
        if not 0 < 2 * most <= self.moments.n_columns:
            return None
        return row_factors(self.moments.products, most)


def evidence_fit(
    moments: Moments,
    covariance: str = "auto",
    *,
    groups: Hierarchy | None = None,
    blocks: Indices | None = None,
    flat_center: bool = False,
    learn_from: int | None = None,
    tol: float = 1e-6,
    max_iter: int = 200,
) -> EvidenceFit:
    """Fit the hierarchical Gaussian model from the sums of products of each task.

    Options are those of `CrossBayesianRidge`. "auto" compares the log evidence minus ½ log(number
    of tasks) per parameter (BIC, with tasks as the sample), and takes a richer structure if that is
    higher by 1. A `flat_center` has an infinite τ². Variances are learned from `learn_from` evenly
    spaced tasks, or from all; one whose optimum is at 0 is exactly 0.

    Each of 5 to 20 evaluations takes O(N p³) operations for N tasks and p columns, or O(N m p²) if
    no task has more rows m than half the columns.
    """
    options = SearchOptions(covariance, blocks, tol, max_iter)
    check_covariance(options, groups)
    data = GaussianData.of(moments, groups, flat_center=flat_center)
    return _optimum(data, options, learn_from=learn_from).fit()


def _optimum(
    data: GaussianData,
    options: SearchOptions,
    start: Optimum[EvidencePoint] | None = None,
    learn_from: int | None = None,
) -> Optimum[EvidencePoint]:
    """Return the best variances, of many tasks from those of a sample."""
    n_tasks, structure = data.moments.n_tasks, options.covariance
    many = n_tasks > (learn_from or 2 * _SAMPLE) and len(data.hierarchy.parents) == 1
    if many and start is None:
        some = data.moments.take(slice(None, None, -(-n_tasks // (learn_from or _SAMPLE))))
        start = _optimum(GaussianData(some, data.flat, Hierarchy.flat(some.n_tasks)), options)
        if learn_from is not None:
            ratio = start.ratio if options.blocks is None else start.ratio[options.blocks]
            return replace(start, point=data.at(start.root, ratio))
        structure = start.structure
    return data.search(options, start).run(structure)


def check_covariance(options: SearchOptions, groups: Hierarchy | None = None) -> None:
    """Refuse structures that do not exist, or not of groups within groups."""
    structures = COVARIANCES if groups is None else _OF_LEVELS
    if options.covariance not in structures:
        of_groups = "" if groups is None else " of groups within groups"
        raise ValueError(
            f"`covariance`{of_groups} must be one of {structures}; got {options.covariance!r}."
        )


def robust_fit(
    rows: GLMRows, family: Student, options: SearchOptions, groups: Hierarchy | None = None
) -> Optimum[EvidencePoint]:
    """Fit rows with real targets and Student noise, by Laplace's approximation.

    Variances are searched for on working responses, of which each has the same information;
    parameters follow by weighted least squares, whose steps never go too far.
    """
    model, values = _Working.begun(rows, family), [-np.inf]
    last: Optimum[EvidencePoint] | None = None
    for n in range(_MAX_ROUNDS):
        optimum = last = _optimum(GaussianData.of(model.moments, groups), options, last)
        values.append(optimum.point.value + model.lacking)
        if n + 1 >= _STRUCTURE_ROUNDS:
            options = options._replace(covariance=optimum.structure)
        close = max(10.0 * options.tol, model.rounding / optimum.point.noise)
        close = max(close, _IDLE) if n >= _PATIENT else close
        before, change = np.diff(values[-3:]) if n else (0.0, np.inf)
        if n >= _STRUCTURE_ROUNDS and abs(change) <= close:
            break
        if n % _CHECKED == 0 and change * before < -0.5 * before**2:  # to and fro
            model = replace(model, step=max(0.5 * model.step, _LEAST_STEP))
        model = model.around(optimum.point)
    else:
        optimum = replace(optimum, converged=False)
    return replace(optimum, point=replace(optimum.point, value=values[-1]))


@dataclass(frozen=True, eq=False)
class _Working:
    """Working responses around scores, for which Student's noise is Gaussian."""

    rows: GLMRows
    family: Student
    weighted: Moments  # of the targets, by their precisions
    moments: Moments  # of the working responses
    responses: Array
    lacking: float = 0.0  # of log densities, in those of the working responses
    step: float = 1.0  # share of the way from one round's responses to the next

    @classmethod
    def begun(cls, rows: GLMRows, family: Student) -> "_Working":
        y = rows.y - rows.offset[:, 0]
        deviations = np.abs(y - np.median(y))
        unit = _NORMAL * np.median(deviations)
        squares = (deviations / unit) ** 2 if unit > 0 else np.ones(len(y))
        weighted = rows.moments(family.precisions(squares))
        return cls(rows, family, weighted, weighted, rows.y)

    @property
    def rounding(self) -> float:
        """Of sums of squares."""
        return float(np.finfo(np.float64).eps * self.moments.products[:, -1, -1].sum())

    def around(self, point: EvidencePoint) -> "_Working":
        """Return the model around the best parameters at the variances of a point."""
        rows, family, noise = self.rows, self.family, point.noise
        thetas = replace(point.marginal, products=self.weighted.products, factors=None).means[0]
        covariances = noise * point.marginal.task_posteriors[0]
        precisions = family.precisions(rows.expected_squares(thetas, covariances) / noise)
        squares = rows.expected_squares(thetas) / noise
        k = family.variance_of_slopes(precisions, squares)
        responses = rows.responses(thetas, precisions / k)
        responses = self.step * responses + (1.0 - self.step) * self.responses
        lacking = family.log_density_of(squares) + 0.5 * (
            np.log(2.0 * np.pi / k) + precisions**2 * squares / k
        )
        return replace(
            self,
            weighted=rows.moments(precisions),
            moments=replace(rows, y=responses).moments(k),
            responses=responses,
            lacking=float(lacking[rows.weights > 0].sum()),
        )


def robust_tasks(rows: GLMRows, family: Student, root: Array, noise: float) -> Marginal:
    """Quadratic model, as of `robust_fit`, of tasks whose noise and distribution are known."""
    hierarchy, certain = Hierarchy.flat(rows.n_tasks), np.full(rows.n_parameters, np.inf)

    def around(moments: Moments) -> Marginal:
        return Marginal(moments.products / noise, hierarchy, [root], certain)

    marginal, precisions = around(rows.moments()), np.ones(len(rows.y))
    covariances = around(rows.moments(family.information)).task_posteriors[0]
    for _ in range(_TASK_ROUNDS):
        squares = rows.expected_squares(marginal.means[0], covariances)
        precisions = family.precisions(squares / noise)
        marginal = around(rows.moments(precisions))
    responses = rows.responses(marginal.means[0], precisions / family.information)
    return around(replace(rows, y=responses).moments(family.information))
