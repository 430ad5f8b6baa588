"""The evidence for generalised linear models, by Laplace's approximation.

The model is that of `gaussian`, with y drawn from a family given the scores o + xᵀθ_i, where o is
an offset. The parameters are integrated out by a Gaussian approximation at their mode.

That is far too wide where classes can nearly be separated. Of classes and counts, slopes and
curvatures are therefore averaged over the Gaussian itself, so that it has the smallest
Kullback-Leibler divergence from the posterior (variational inference).
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np

from crosslearning.convex.deadline import check_deadline
from crosslearning.convex.evidence.gaussian import (
    check_covariance,
    evidence_fit,
    robust_fit,
    robust_tasks,
)
from crosslearning.convex.evidence.marginal import Hierarchy, Marginal, symmetric_root
from crosslearning.convex.evidence.mode import LaplaceData, LaplacePoint
from crosslearning.convex.evidence.posterior import EvidenceFit, Posterior
from crosslearning.convex.evidence.search import Optimum, SearchOptions
from crosslearning.convex.families import AVERAGED, Gaussian, Student
from crosslearning.convex.sums.rows import GLMRows
from crosslearning.tether import Array

Average = Callable[[Array, Array], Array]  # products, given means and covariances of parameters

_MAX_ROUNDS = 20
_AVERAGING_ROUNDS, _CLOSE = 10, 0.01  # and the last step, in standard deviations


def laplace_fit(rows: GLMRows, *, groups: Hierarchy | None = None, **options: Any) -> EvidenceFit:
    """Fit a hierarchical generalised linear model; options are those of :func:`evidence_fit`.

    Row weights are precisions, or counts if the family has no dispersion; a dispersion is estimated
    by Pearson's statistic with the effective number of parameters. An evaluation of the evidence
    takes a few Newton steps, each a pass over the rows and O(N p³) operations; its gradient is
    exact, including the change of the mode.
    """
    settings = SearchOptions(**options)
    check_covariance(settings, groups)
    rows.family.check(rows.y)
    rows, added = rows.around_pooled()
    if isinstance(rows.family, Student):
        return robust_fit(rows, rows.family, settings, groups).fit(rows.family).shifted(added)
    if type(rows.family) is Gaussian:
        return evidence_fit(rows.moments(), groups=groups, **options).shifted(added)
    if groups is not None and isinstance(rows.family, Gaussian):
        raise ValueError(
            f"Groups within groups need another family than {rows.family.name!r}. Use 'gaussian' "
            "for numbers or 'poisson' for counts, or name only the innermost groups as tasks."
        )
    data = LaplaceData.of(rows, groups)
    data.begin()
    search = data.search(settings)
    optimum = search.run(settings.covariance)
    for _ in range(_MAX_ROUNDS):  # variances, and dispersion and shape, in turn
        if data.settled(optimum, optimum.ratio[search.blocks[search.columns]]):
            break
        # One level keeps the structure that it has chosen at the first dispersion.
        structure = optimum.structure if groups is None else settings.covariance
        optimum = data.search(settings, optimum).run(structure)
    settled = cast("GLMRows", optimum.point.data.rows)
    average = partial(settled.products, dispersion=optimum.point.dispersion)
    return approximate(optimum, average, settings.tol, added)


def approximate(
    optimum: Optimum[LaplacePoint], average: Average, tol: float, added: Array
) -> EvidenceFit:
    """Return the fit at an optimum, moved by `added`; `average` is for posteriors of `AVERAGED`."""
    family, marginal = optimum.point.data.rows.family, optimum.point.marginal

    def averaged() -> Posterior:
        return Posterior.of(nearest_gaussians(marginal, average, tol)).shifted(added)

    fit = optimum.fit(family).shifted(added)
    return replace(fit, averaged=averaged) if isinstance(family, AVERAGED) else fit


def nearest_gaussians(marginal: Marginal, average: Average, tol: float = 1e-6) -> Marginal:
    """Step from the mode towards averaged products until no mean moves by 0.01 sds, or 10 √tol."""
    close = max(_CLOSE, 10.0 * tol**0.5)
    for _ in range(_AVERAGING_ROUNDS):
        check_deadline()
        before = marginal.means[0]
        averaged = average(before, marginal.task_posteriors[0])
        # Half the way: where classes are separable, all of it would overshoot.
        marginal = replace(marginal, products=0.5 * (marginal.products + averaged))
        variances = np.einsum("njj->nj", marginal.task_posteriors[0])
        if np.all((marginal.means[0] - before) ** 2 <= close**2 * variances):
            break
    return marginal


def new_tasks(
    rows: GLMRows, center: Array, covariance: Array, noise: float
) -> tuple[Posterior, Posterior]:
    """Posteriors of tasks that were not in a fit: around the mode, and averaged if that differs."""
    rows = replace(rows, offset=rows.offset + rows.X @ center.reshape(rows.X.shape[1], -1))
    root = symmetric_root(covariance)
    if isinstance(rows.family, Student):
        marginal = robust_tasks(rows, rows.family, root, noise)
    else:
        known = np.full(rows.n_parameters, np.inf)
        marginal = LaplaceData.of(rows, dispersion=noise).climb(root, known)[1]
    mode = Posterior.of(marginal).shifted(center)
    if not isinstance(rows.family, AVERAGED):
        return mode, mode
    nearest = nearest_gaussians(marginal, partial(rows.products, dispersion=noise))
    return mode, Posterior.of(nearest).shifted(center)
