"""All runs of a training as arrays, and the accuracies in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from crosslearning.evaluation.scores import mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from numpy.typing import NDArray

__all__ = ["Runs", "by_category", "by_domain", "macro", "over_images"]

_EXCESS = 1.01  # a realised distance above so many radii is due to rounding


@dataclass(frozen=True, eq=False)
class Runs:
    """Runs at several radii (first axis) from several seeds (second axis).

    `images` are those of each domain to train on, to validate on and to test on, as the first seed
    divides them. `validation` and `test` count, for each domain, the images of a category (last
    axis but one) that were taken for another (last axis). `seconds` is the time of the epochs.
    """

    domains: Sequence[str]
    categories: Sequence[str]
    epsilons: Sequence[float]
    seeds: Sequence[int]
    images: NDArray[np.int64]
    validation: NDArray[np.int64]
    test: NDArray[np.int64]
    distances: NDArray[np.float64]
    pulls: NDArray[np.float64]
    losses: NDArray[np.float64]
    seconds: NDArray[np.float64]

    @classmethod
    def of(cls, table: pd.DataFrame, categories: Sequence[str]) -> Runs:
        """Gather the tables of `crosslearning.nn.sweep`: a row for each run and domain."""
        table = table.sort_values(["epsilon", "seed"], kind="stable")
        names = [table[name].unique().tolist() for name in ("task", "epsilon", "seed")]
        domains, epsilons, seeds = names

        def array(rows: Any) -> NDArray[Any]:
            values: NDArray[Any] = np.asarray(rows)
            return values.reshape(len(epsilons), len(seeds), len(domains), *values.shape[1:])

        size = len(categories)
        counts = {part: np.zeros((len(table), size, size), np.int64) for part in _JUDGED}
        for part, dense in counts.items():
            for row, triples in zip(dense, table[part], strict=True):
                truth, predicted, count = np.transpose(triples)
                row[truth, predicted] = count
        return cls(
            domains,
            categories,
            epsilons,
            seeds,
            images=array(table["images"].to_list())[0, 0],
            **{part: array(dense) for part, dense in counts.items()},
            distances=array(table["distance"]),
            pulls=array(table["pull"]),
            losses=array(table["losses"].to_list()).mean(2),
            seconds=array(table["seconds"])[..., 0],
        )

    @property
    def unresolved(self) -> NDArray[np.bool_]:
        """Runs whose radius is below what the numbers of the network resolve."""
        radii = np.array(self.epsilons)[:, None]
        return np.asarray((radii > 0) & (self.distances.max(-1) > _EXCESS * radii))

    def table(self) -> pd.DataFrame:
        """One row for each radius, seed, domain and category."""
        import pandas as pd

        columns: dict[str, Any] = {}
        for part in _JUDGED:
            counts = getattr(self, part)
            columns[f"{part}_correct"] = np.diagonal(counts, axis1=-2, axis2=-1).ravel()
            columns[f"{part}_images"] = counts.sum(-1).ravel()
        columns["distance"] = self.distances.repeat(len(self.categories))
        columns["pull"] = self.pulls.repeat(len(self.categories))
        keys = self.epsilons, self.seeds, self.domains, self.categories
        names = ["epsilon", "seed", "domain", "category"]
        index = pd.MultiIndex.from_product(keys, names=names)
        return pd.DataFrame(columns, index=index).reset_index()


_JUDGED = ("validation", "test")


def by_category(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Share of each category's images that was recognised; NaN without images."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.diagonal(counts, axis1=-2, axis2=-1) / counts.sum(-1))


def by_domain(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Mean over the categories of each domain, of those that have images.

    >>> by_domain(np.array([[[9, 0], [1, 1]]]))
    array([0.75])
    """
    return mean(by_category(counts), 1.0, axis=-1)


def macro(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Mean over categories, then over domains: the accuracy of the paper."""
    return mean(by_domain(counts), 1.0, axis=-1)


def over_images(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Share of the images that was recognised, whatever their category."""
    return np.asarray(np.trace(counts, axis1=-2, axis2=-1) / counts.sum((-2, -1)))
