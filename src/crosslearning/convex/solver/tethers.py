"""The coupling of tasks and centre: a tether per block of parameters, and metrics."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from crosslearning.tether import Array, Tether

_RIGID = 1.0 - 1e-8  # a share of the way that stands for all of it
_LEAST = 1e-2  # standard deviation that stands for none, relative to the largest
_ZERO = 1e-13  # variances below this share of the largest are 0


@dataclass(frozen=True, eq=False)
class BlockTethers:
    """Disjoint ranges of parameters that together are all of them, and the tether of each."""

    blocks: tuple[slice, ...]
    tethers: tuple[Tether, ...]

    def scaled(self, strength: Array) -> "BlockTethers":
        """Divide springs and tensions by a strength per task; bounds stay what they are."""
        if all(tether.is_ball for tether in self.tethers):
            return self
        laws = [(t.epsilon, t.stiffness / strength, t.tension / strength) for t in self.tethers]
        return BlockTethers(self.blocks, tuple(Tether(*law) for law in laws))

    def distances(self, offsets: Array) -> Array:
        """Length of each block of each offset θ_i - c, shape (n_blocks, n_tasks)."""
        return np.stack([_lengths(offsets[:, b]) for b in self.blocks])

    def clipped(self, offsets: Array) -> Array:
        """Offsets shortened to the radii, where rounding left them longer."""
        result = offsets.copy()
        for b, tether in zip(self.blocks, self.tethers, strict=True):
            d = _lengths(offsets[:, b])
            share = np.divide(tether.epsilon, d, out=np.ones_like(d), where=d > tether.epsilon)
            result[:, b] *= share[:, None]
        return result

    def penalty(self, offsets: Array) -> float:
        """Σ h(‖θ_i - c‖) over tasks and blocks, for offsets within the radii."""
        pairs = zip(self.tethers, self.distances(offsets), strict=True)
        return float(sum(np.sum(t.tension * d + 0.5 * t.stiffness * d**2) for t, d in pairs))

    def hold(self, offsets: Array) -> "Hold":
        """Envelope of the coupling at offsets that want to be there, and its derivatives."""
        value, moves, radial = np.zeros(len(offsets)), np.empty_like(offsets), []
        for b, tether in zip(self.blocks, self.tethers, strict=True):
            d = _lengths(offsets[:, b])
            pull, slope, envelope = tether.law(d)
            value += envelope
            moves[:, b] = pull[:, None] * offsets[:, b]
            radial.append((b, d, pull, slope))
        return Hold(offsets, value, moves, radial)


@dataclass(frozen=True, eq=False)
class Hold:
    """Value of the envelope per task, how far each task is moved, and the way to the Hessian."""

    offsets: Array
    value: Array
    moves: Array
    radial: list[tuple[slice, Array, Array, Array]]

    def hessian(self) -> Array:
        return self._tensor(lambda share: share)

    def release(self) -> Array:
        """(I - Hessian)⁻¹: how offsets follow where they want to be; cut off at a bound."""
        return self._tensor(lambda share: 1.0 / (1.0 - np.minimum(share, _RIGID)))

    def _tensor(self, function: Callable[[Array], Array]) -> Array:
        """Build a function of pull I + (slope - pull) v vᵀ in each block."""
        n_tasks, n_parameters = self.offsets.shape
        result = np.zeros((n_tasks, n_parameters, n_parameters))
        for b, d, pull, slope in self.radial:
            across, along = function(pull), function(slope)
            if b.stop - b.start == 1:  # a number has no other directions
                result[:, b.start, b.start] = along
                continue
            v = self.offsets[:, b] / np.where(d > 0, d, 1.0)[:, None]
            block = (along - across)[:, None, None] * v[:, :, None] * v[:, None, :]
            diagonal = np.arange(v.shape[1])
            block[:, diagonal, diagonal] += across[:, None]
            result[:, b, b] = block
        return result


def _lengths(rows: Array) -> Array:
    if rows.shape[1] == 1:
        return np.abs(rows[:, 0])
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", rows, rows)))


@dataclass(frozen=True, eq=False)
class Metric:
    """Variables u = M⁻¹θ in which a covariance is the identity."""

    matrix: Array
    n_free: int  # columns before those that span the directions in which it is 0

    @classmethod
    def of(cls, covariance: Array) -> "Metric":
        """Eigenvectors, times standard deviations where those are not 0."""
        variances = np.diagonal(covariance)
        if np.array_equal(covariance, np.diag(variances)):
            values, vectors = variances, np.eye(len(variances))
        else:
            values, vectors = np.linalg.eigh(covariance)
        order = np.argsort(-values, kind="stable")
        values, vectors = values[order], vectors[:, order]
        free = values > _ZERO * values[0]
        return cls(vectors * np.sqrt(np.where(free, values, 1.0)), int(np.count_nonzero(free)))

    @cached_property
    def inverse(self) -> Array:
        return np.asarray(np.linalg.inv(self.matrix))

    def distances(self, offsets: Array) -> Array:
        """Lengths of offsets, in the directions that have a length."""
        return np.asarray(np.linalg.norm((offsets @ self.inverse.T)[..., : self.n_free], axis=-1))


def learned_root(covariance: Array, variance: float) -> Array:
    """Root of a covariance, raised (by `variance` if it is 0) so that no direction is tied."""
    largest = float(np.diagonal(covariance).max())
    least = _LEAST**2 * largest if largest > 0.0 else variance
    return np.asarray(np.linalg.cholesky(covariance + least * np.eye(len(covariance))))


def root_of(metric: ArrayLike, n_columns: int, n_scores: int) -> Array:
    """Root of a metric that users give: deviations of the columns, or their covariance."""
    array = np.asarray(metric, dtype=np.float64)
    if array.shape not in ((n_columns,), (n_columns, n_columns)):
        raise ValueError(
            f"`metric` must hold a standard deviation for each of the {n_columns} parameters (the "
            f"intercept last), or their covariance; got shape {array.shape}."
        )
    covariance = array if array.ndim == 2 else np.diag(array**2)
    try:
        symmetric = np.allclose(covariance, covariance.T)
        root = np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        symmetric = False
    if not symmetric or not np.isfinite(covariance).all():
        raise ValueError(
            "`metric` must be positive standard deviations or a symmetric, positive definite "
            "covariance. Use a small standard deviation for a parameter that tasks share."
        )
    return np.asarray(np.kron(root, np.eye(n_scores)))
