"""Groups within groups, fitted by maximising the evidence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from crosslearning.convex.evidence._point import NO_INFORMATION, EvidencePoint
from crosslearning.convex.evidence.gaussian import GaussianData
from crosslearning.convex.evidence.hierarchy import Hierarchy, NestedMarginal
from crosslearning.convex.evidence.marginal import chunks
from crosslearning.convex.evidence.posterior import EvidenceStatus, Fit
from crosslearning.convex.evidence.search import Optimum, Parameters, Search, SearchOptions
from crosslearning.convex.families import Family, Gaussian
from crosslearning.convex.sums.rows import Moments
from crosslearning.tether import Array, Flags, Indices

STRUCTURES = ("auto", "block", "diagonal", "levels", "pooled")


@dataclass(frozen=True, eq=False, kw_only=True)
class NestedData:
    """Products of the tasks, and where they belong.

    The centre of `flat` parameters has no variance to learn, but this precision. `value` returns
    the log evidence, the variance of the noise, and its degrees of freedom if it is at its best.
    """

    products: Array
    task_weights: Array
    hierarchy: Hierarchy
    flat: Flags
    flat_precision: float = 0.0
    value: Callable[[NestedMarginal], tuple[float, float, float]]

    def at(self, roots: Array, ratio: Array) -> NestedPoint:
        """Evaluate at the roots of S of each level, one after the other, and t of the centre."""
        precision = np.where(self.flat, self.flat_precision, np.divide(1.0, ratio))
        variances = roots.reshape(-1, len(self.flat)) ** 2
        marginal = NestedMarginal(
            self.products, self.task_weights, self.hierarchy, variances, precision
        )
        value, noise, n_noise = self.value(marginal)
        return NestedPoint(
            precision=precision,
            coef=~self.flat,
            center=marginal.center,
            noise=noise,
            n_noise=n_noise,
            value=value,
            marginal=marginal,
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class NestedPoint(EvidencePoint):
    """Units of several levels; a second target is a push, whose work is subtracted."""

    marginal: NestedMarginal

    @cached_property
    def slope_of_variances(self) -> Array:
        slopes, marginal = [], self.marginal
        pairs = zip(marginal.residuals, marginal.weights, self._unit_information, strict=True)
        for residuals, weights, (information, _, _) in pairs:
            g, *pushed = np.moveaxis(residuals, -1, 0)
            slope = 0.5 * (weights @ g**2 / self.noise - np.diagonal(information))
            slopes.append(slope + sum(weights @ (g * push) for push in pushed))
        return np.concatenate(slopes)

    @cached_property
    def slope_of_ratio(self) -> Array:
        beta, *pushed = self.marginal.means[-1][0].T
        explicit = EvidencePoint.slope_of_ratio.func(self)  # type: ignore[attr-defined]
        return np.asarray(explicit + sum(self._prior**2 * beta * push for push in pushed))

    @property
    def informed(self) -> Flags:
        in_all = np.diagonal(self.marginal.total)[: len(self.coef)]
        about = np.array([np.diagonal(linear) for linear, _, _ in self._unit_information])
        return np.asarray(about > NO_INFORMATION * in_all).ravel()

    @cached_property
    def expected_parts(self) -> tuple[Array, Array]:
        p, n_levels = len(self.coef), len(self.marginal.variances)
        K = np.zeros(((n_levels + 1) * p, (n_levels + 1) * p))
        for level, (_, squares, shared) in enumerate(self._unit_information):
            at, above = (slice(k * p, (k + 1) * p) for k in (level, level + 1))
            K[at, at], K[at, above] = squares, shared
            K[above, at] = K[at, above].T
        prior = self._prior_information
        K[-p:, -p:] = prior**2
        informations = *(linear for linear, _, _ in self._unit_information), prior
        return K, np.concatenate([np.diagonal(information) for information in informations])

    def observed(self, group: Indices) -> Array:
        """Average of observed and expected curvature (AI-REML)."""
        marginal, n = self.marginal, int(group.max()) + 1
        j, squares = np.arange(len(self.coef)), np.zeros(n)
        vectors = np.zeros((len(marginal.products), len(j), n))
        for level, residuals in enumerate(marginal.residuals):
            g = residuals[:, :, 0]
            vectors[:, j, group[level]] = g[marginal.hierarchy.ancestors(level)]
            squares += np.bincount(group[level], marginal.weights[level] @ g**2, n)
        pull = self.center.beta * self._prior
        vectors[:, j, group[-1]] = pull
        squares += np.bincount(group[-1], pull**2, n)
        information = marginal.average_information(vectors)
        return self._with_best_noise(information / self.noise, squares / self.noise)

    @cached_property
    def _unit_information(self) -> list[tuple[Array, Array, Array]]:
        """Σ P, Σ P∘P and Σ (W (I - K Z))∘² over the units of each level.

        P = W - W K W with K of the parent, and Z its products; the last is what levels share.
        """
        p, marginal, sums = len(self.coef), self.marginal, []
        for level, parents in enumerate(marginal.hierarchy.parents):
            linear, squared, shared = np.zeros((3, p, p))
            for part in chunks(len(parents), p):
                weights, above = marginal.weights[level][part], parents[part]
                W = marginal.information[level][part, :p, :p]
                WK = W @ marginal.covariances[level + 1][above]
                P, both = W - WK @ W, WK * self._prior
                if level + 1 < len(marginal.variances):
                    both = W - WK @ marginal.level_products(level + 1)[above, :p, :p]
                linear += np.tensordot(weights, P, 1)
                squared += np.einsum("n,njk,njk->jk", weights, P, P)
                shared += np.einsum("n,njk,njk->jk", weights, both, both)
            sums.append((linear, squared, shared))
        return sums


@dataclass(frozen=True, eq=False, kw_only=True)
class NestedFit(Fit):
    """The fit of units of several levels; lists and first axes go by level, tasks first.

    `level_variances` are the diagonals of Σ, `means` and `covariances` those of the units'
    parameters, and `gains` I - V A of each unit. `variance_law` goes level by level.
    """

    hierarchy: Hierarchy
    level_variances: Array
    means: list[Array]
    covariances: list[Array]
    gains: list[Array]
    family: Family = field(default_factory=Gaussian)  # with the shape that was learned


class NestedSearch(Search[NestedPoint]):
    """Begins with equal shares of the levels."""

    def __init__(self, data: NestedData, options: SearchOptions, parameters: Parameters) -> None:
        sizes = np.array(data.hierarchy.sizes, dtype=np.float64)
        # A level with one unit, or as many as the level below, has nothing to tell.
        alone = (sizes < 2) | np.append(False, sizes[1:] == sizes[:-1])
        super().__init__(data.at, options, parameters, sizes=sizes, alone=alone)
        total, none = data.task_weights.sum(), np.zeros(len(self.squares))
        each = np.divide(total, self.squares, out=none, where=self.squares > 0) / len(sizes)
        self.start = np.tile(each, (len(sizes), 1))


def levels_fit(optimum: Optimum[NestedPoint], scores: dict[str, float]) -> NestedFit:
    """Return variances and posterior."""
    point, marginal = optimum.point, optimum.point.marginal
    return NestedFit(
        hierarchy=marginal.hierarchy,
        noise_variance=point.noise,
        level_variances=point.noise * marginal.variances,
        center_variances=np.where(point.coef, optimum.center_variances, np.inf),
        center=point.center.beta,
        means=[means[:, :, 0] for means in marginal.means[:-1]],
        covariances=[point.noise * covariances for covariances in marginal.covariances[:-1]],
        gains=marginal.gains,
        **optimum.results(scores),
    )


def nested_fit(
    moments: Moments,
    hierarchy: Hierarchy,
    covariance: str = "auto",
    *,
    task_weights: ArrayLike | None = None,
    **options: Any,
) -> NestedFit:
    """Fit Gaussian targets of groups within groups; options as in :func:`evidence_fit`.

    Covariances are diagonal at each level. Every evaluation takes little more than one of
    :func:`evidence_fit`, since all but the first level have few units.
    """
    check_structure(covariance)
    tasks = GaussianData.of(moments, task_weights)
    data = NestedData(
        products=moments.products,
        task_weights=tasks.task_weights,
        hierarchy=hierarchy,
        flat=tasks.flat,
        value=lambda marginal: tasks.value(marginal, marginal.center, marginal.precision),
    )
    search = NestedSearch(data, SearchOptions(covariance, **options), tasks.parameters)
    optimum, scores = search.run(covariance)
    fit = levels_fit(optimum, scores)
    noiseless = optimum.converged and np.isinf(optimum.point.n_noise)
    return replace(fit, status=EvidenceStatus.NOISELESS) if noiseless else fit


def check_structure(covariance: str) -> None:
    """Refuse structures that groups within groups do not have."""
    if covariance not in STRUCTURES:
        raise ValueError(
            f"`covariance` of groups within groups must be one of {STRUCTURES}; got "
            f"{covariance!r}. Use 'auto'."
        )
