"""All runs of a training as arrays, and their accuracies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crosslearning.evaluation.scores import mean

_EXCESS = 1.01  # a realised distance above this multiple of the radius is due to rounding


@dataclass(frozen=True, eq=False)
class Runs:
    """Runs at several radii (first axis) and with several seeds (second axis).

    `images` counts the training, validation and test images of each domain for the first seed.
    `validation` and `test` are the confusion matrices of each domain (true category, prediction);
    `seconds` is the time of the epochs.
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
        """Convert tables of `crosslearning.nn.sweep`, with a row for each run and domain."""
        table = table.sort_values(["epsilon", "seed"], kind="stable")
        axes = [table[name].unique().tolist() for name in ("epsilon", "seed", "task")]
        epsilons, seeds, domains = axes

        def array(name: str) -> NDArray[Any]:
            values: NDArray[Any] = np.asarray(table[name].to_list())
            return values.reshape(*map(len, axes), *values.shape[1:])

        def counts(name: str) -> NDArray[np.int64]:
            dense = np.zeros((len(table), len(categories), len(categories)), np.int64)
            for row, triples in zip(dense, table[name], strict=True):
                truth, predicted, count = np.transpose(triples)
                row[truth, predicted] = count
            return dense.reshape(*map(len, axes), *dense.shape[1:])

        return cls(
            domains, categories, epsilons, seeds, array("images")[0, 0], counts("validation"),
            counts("test"), array("distance"), array("pull"), array("losses").mean(2),
            array("seconds")[..., 0],
        )  # fmt: skip

    @property
    def unresolved(self) -> NDArray[np.bool_]:
        """Runs whose radius is too small for the precision of the weights."""
        radii = np.array(self.epsilons)[:, None]
        return np.asarray((radii > 0) & (self.distances.max(-1) > _EXCESS * radii))

    def table(self) -> pd.DataFrame:
        """One row for each radius, seed, domain and category."""
        columns: dict[str, Any] = {}
        for part in ("validation", "test"):
            counts = getattr(self, part)
            columns[f"{part}_correct"] = np.diagonal(counts, axis1=-2, axis2=-1).ravel()
            columns[f"{part}_images"] = counts.sum(-1).ravel()
        columns["distance"] = self.distances.repeat(len(self.categories))
        columns["pull"] = self.pulls.repeat(len(self.categories))
        keys = self.epsilons, self.seeds, self.domains, self.categories
        names = ["epsilon", "seed", "domain", "category"]
        return pd.DataFrame(columns, pd.MultiIndex.from_product(keys, names=names)).reset_index()


def count(truth: Any, predicted: Any) -> list[list[int]]:
    """Return [truth, predicted, count] for every nonzero count."""
    pairs = np.stack([np.asarray(truth), np.asarray(predicted)])
    different, counts = np.unique(pairs, axis=1, return_counts=True)
    table: list[list[int]] = np.vstack([different, counts]).T.tolist()
    return table


def by_category(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Accuracy of each category; NaN without images."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.diagonal(counts, axis1=-2, axis2=-1) / counts.sum(-1))


def by_domain(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Mean accuracy over the categories of each domain that have images."""
    return mean(by_category(counts), 1.0, axis=-1)


def macro(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Mean over categories, then over domains, as in the paper."""
    return mean(by_domain(counts), 1.0, axis=-1)


def over_images(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Accuracy over all images, whatever their category."""
    return np.asarray(np.trace(counts, axis1=-2, axis2=-1) / counts.sum((-2, -1)))
