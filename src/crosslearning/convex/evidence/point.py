"""A model evaluated at variances: log evidence, slopes and curvatures."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from crosslearning.convex.evidence.marginal import AT_ONCE, Center, Marginal, chunks, symmetric_root
from crosslearning.tether import Array, Flags, Indices

_NO_INFORMATION = 1e-10  # share that rounding may leave
_MANY = 1000  # tasks whose common uncertainty about the centre is negligible


class Sums(NamedTuple):
    """Sums over units of P = W - W K W: what each says of its offset from a parent N(., K)."""

    linear: Array  # P
    squared: Array  # its entries squared,
    shared: Array  # and those shared with the level above
    explained: Array  # entries of W K W squared
    paired: Array  # products of the diagonal of P


@dataclass(frozen=True, eq=False, kw_only=True)
class EvidencePoint:
    """Log evidence and its derivatives by S of each level, tasks first, and by t of the centre.

    `group` holds the number of each parameter's variance by level, and last that of its t.
    """

    marginal: Marginal
    coef: Flags  # where t is 1 / precision of the centre's prior
    noise: float  # σ²
    n_noise: float  # its degrees of freedom if it is at its best for S and t, else infinite
    value: float
    dispersion: float  # σ² too, unless the products are in units of it
    noiseless: bool = False  # whether σ² is the smallest value distinguishable from 0

    @property
    def center(self) -> Center:
        return self.marginal.center

    @property
    def beta(self) -> Array:
        return self.center.beta

    @property
    def thetas(self) -> Array:
        return self.marginal.means[0]

    @property
    def response(self) -> tuple[list[Array], Array] | None:
        """How the mode, if it moves with the variances, changes residuals and centre."""
        return None

    @cached_property
    def sums(self) -> list[Sums]:
        marginal, p, result = self.marginal, len(self.coef), []
        for level, parents in enumerate(marginal.hierarchy.parents):
            sums = Sums(*np.zeros((5, p, p)))
            for part in chunks(len(parents), p):
                K = marginal.parent_covariances(level, part)
                W, WK, explained = marginal.levels[level].products_with(part, K)
                P, shared = W - explained, WK * self._prior
                if level + 1 < len(marginal.roots):
                    above = marginal.levels[level + 1].products[parents[part], :p, :p]
                    shared = W - WK @ above
                diagonals = np.einsum("njj->nj", P)
                sums.linear[:] += P.sum(axis=0)
                sums.paired[:] += diagonals.T @ diagonals
                pairs = (sums.squared, P), (sums.shared, shared), (sums.explained, explained)
                for total, each in pairs:
                    total[:] += np.einsum("njk,njk->jk", each, each)
            result.append(sums)
        return result

    @property
    def informed(self) -> Flags:
        """Parameters of which units say more than that their parents explain it, by level."""
        about = np.array([np.diagonal(sums.linear) for sums in self.sums])
        return np.asarray(about > _NO_INFORMATION * np.diagonal(self.marginal.total)[:-1])

    @cached_property
    def slopes(self) -> list[Array]:
        """Derivatives by the entries of S of each level: finite where S is 0."""
        result = []
        for level, (g, sums) in enumerate(zip(self.marginal.residuals, self.sums, strict=True)):
            slope = 0.5 * (g.T @ g / self.noise - sums.linear)
            if self.response is not None:
                moved = g.T @ self.response[0][level]
                slope -= 0.5 * (moved + moved.T)
            result.append(slope)
        return result

    @cached_property
    def slope_of_ratio(self) -> Array:
        """Derivative by each t; 0 for parameters that have none."""
        h, beta = self._prior, self.center.beta
        slope = 0.5 * ((beta * h) ** 2 / self.noise - np.diagonal(self._about_prior))
        if self.response is not None:
            slope = slope - self.response[1] * beta * h**2
        return np.asarray(slope)

    @cached_property
    def expected_parts(self) -> tuple[Array, Array]:
        """Twice the expected curvature with the noise as it is, and what it shares with log σ²."""
        p, prior, n = len(self.coef), self._about_prior, len(self.sums) + 1
        K = np.zeros((n * p, n * p))
        for level, sums in enumerate(self.sums):
            at, above = (slice(k * p, (k + 1) * p) for k in (level, level + 1))
            K[at, at], K[at, above], K[above, at] = sums.squared, sums.shared, sums.shared.T
        K[-p:, -p:] = prior**2
        informations = *(sums.linear for sums in self.sums), prior
        return K, np.concatenate(list(map(np.diagonal, informations)))

    def expected(self, group: Indices) -> Array:
        """Return the expected curvature of each unit for itself, with the noise at its best."""
        K, k = self.expected_parts
        return self._with_best_noise(grouped(K, group), k @ members(group))

    def observed(self, group: Indices) -> Array:
        """Return the observed curvature; its mean with the expected one, of several levels."""
        marginal, n, p = self.marginal, int(group.max()) + 1, len(self.coef)
        j, pull, levels = np.arange(p), self.center.beta * self._prior, range(len(self.sums))
        ancestors = [marginal.hierarchy.ancestors(level) for level in levels]

        def vectors(part: slice) -> Array:
            result = np.zeros((len(ancestors[0][part]), p, n))
            for level in levels:
                result[:, j, group[level]] = marginal.residuals[level][ancestors[level][part]]
            result[:, j, group[-1]] = pull
            return result

        K = marginal.average_information(vectors, n) / self.noise
        if len(levels) == 1:
            K = 2.0 * K - grouped(self.expected_parts[0], group)
        squares = np.append([np.sum(g**2, axis=0) for g in marginal.residuals], pull**2)
        return self._with_best_noise(K, squares / self.noise @ members(group))

    def between(self, group: Indices) -> Array:
        """Return the expected curvature that comes from the centre which tasks share."""
        n, p, size = int(group[0].max()) + 1, len(self.coef), int(group.max()) + 1
        between, marginal = np.zeros((size, size)), self.marginal
        # Negligible where tasks are many, and costly where groups are.
        few = len(marginal.products) <= _MANY and n * p**2 <= AT_ONCE
        if few and len(self.sums) == 1:
            root = symmetric_root(self.center.covariance)
            moments = marginal.levels[0].between(root, group[0])
            explained = grouped(self.sums[0].explained, group[0])
            between[:n, :n] = 0.5 * (moments @ moments.T - explained)
        return between

    def promise_of_full(self, free: Indices) -> float:
        """Score test of the covariances between some parameters: gain in log evidence."""
        pairs, sums = np.ix_(free, free), self.sums[0]
        curvature = np.maximum(sums.paired + sums.squared, np.finfo(np.float64).tiny)
        gains = self.slopes[0][pairs] ** 2 / curvature[pairs]
        return float(2.0 * np.triu(gains, 1).sum())

    @property
    def _prior(self) -> Array:
        """1 / t of coefficients, else 0."""
        return np.where(self.coef, self.marginal.precision, 0.0)

    @property
    def _about_prior(self) -> Array:
        """H - H C H for H = diag(1 / t); on the diagonal H C W, which does not cancel."""
        h, C, W = self._prior, self.center.covariance, self.marginal.total[:-1, :-1]
        information = -C * np.outer(h, h)
        np.fill_diagonal(information, h * np.sum(C * W, axis=1))
        return np.asarray(information)

    def _with_best_noise(self, K: Array, k: Array) -> Array:
        return np.asarray(0.5 * (K - np.outer(k, k) / self.n_noise))


def members(group: Indices) -> Array:
    """Matrix of ones where a parameter (row) belongs to a group (column)."""
    return np.eye(int(group.max()) + 1)[group.ravel()]


def grouped(K: Array, group: Indices) -> Array:
    """Sum rows and columns by the numbers of their groups."""
    return np.asarray(members(group).T @ K @ members(group))
