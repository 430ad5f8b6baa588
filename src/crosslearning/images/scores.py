"""Accuracies from counts: over categories, then domains; and over images.

An array of counts has the axes (..., domain, truth, predicted).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from crosslearning.images.record import Record

__all__ = ["Sweep", "by_category", "by_domain", "macro", "over_images", "spread"]


@dataclass(frozen=True, eq=False)
class Sweep:
    """Runs at several radii, each with the same seeds.

    Attributes
    ----------
    domains, categories : tuple of str
        Names of what was learned.
    grid : sequence of sequence of Record
        The runs of each radius, radii and seeds ascending.
    """

    domains: tuple[str, ...]
    categories: tuple[str, ...]
    grid: Sequence[Sequence[Record]]

    @property
    def radii(self) -> tuple[float, ...]:
        """Values of ε."""
        return tuple(row[0].epsilon for row in self.grid)

    @cached_property
    def validation(self) -> NDArray[np.int64]:
        """Counts with the axes (radius, seed, domain, truth, predicted)."""
        return np.array([[record.validation for record in row] for row in self.grid])

    @cached_property
    def test(self) -> NDArray[np.int64]:
        """Counts with the axes (radius, seed, domain, truth, predicted)."""
        return np.array([[record.test for record in row] for row in self.grid])


def by_category(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Share of each category's images that was recognised; NaN without images."""
    return _ratio(np.diagonal(counts, axis1=-2, axis2=-1), counts.sum(-1))


def by_domain(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Mean over the categories of each domain, of those that have images.

    Examples
    --------
    >>> by_domain(np.array([[[9, 0], [1, 1]]]))
    array([0.75])
    """
    return _mean_of_known(by_category(counts))


def macro(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Mean over categories, then over domains: the accuracy of the paper."""
    return _mean_of_known(by_domain(counts))


def over_images(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Share of the images of each domain that was recognised; NaN without images."""
    return _ratio(np.trace(counts, axis1=-2, axis2=-1), counts.sum((-2, -1)))


def spread(values: NDArray[np.float64]) -> dict[str, Any]:
    """Mean and standard deviation over seeds, the latter unknown for one seed."""
    std = float(values.std(ddof=1)) if values.size > 1 else None
    return {"mean": float(values.mean()), "std": std}


def _mean_of_known(values: NDArray[np.float64]) -> NDArray[np.float64]:
    known = ~np.isnan(values)
    return _ratio(np.where(known, values, 0.0).sum(-1), known.sum(-1))


def _ratio(part: NDArray[Any], whole: NDArray[Any]) -> NDArray[np.float64]:
    unknown = np.full(np.shape(whole), np.nan)
    return np.asarray(np.divide(part, whole, out=unknown, where=np.greater(whole, 0)))
