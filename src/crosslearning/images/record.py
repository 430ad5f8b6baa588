"""What one run leaves behind: which images were taken for what, and where the models ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

__all__ = ["Record"]

_EXCESS = 1.01  # a realised distance above so many radii is due to rounding


@dataclass(frozen=True, eq=False)
class Record:
    """One finished run.

    Attributes
    ----------
    epsilon, seed : float, int
        Which run it is.
    images : array of int of shape (n_domains, 3)
        Images to train on, to validate on and to test on.
    validation, test : array of int of shape (n_domains, n_categories, n_categories)
        Number of images of a category (second axis) that were taken for another (third).
    distances, pulls : array of shape (n_domains,)
        Distances to the centre at the end, and how strongly the last projection pulled.
    loss : list of float
        Training loss of each epoch.
    seconds : float
        Time of the epochs; starting, saving and evaluating the networks are not in it.
    """

    epsilon: float
    seed: int
    images: NDArray[np.int64]
    validation: NDArray[np.int64]
    test: NDArray[np.int64]
    distances: NDArray[np.float64]
    pulls: NDArray[np.float64]
    loss: list[float]
    seconds: float

    @classmethod
    def of(cls, rows: pd.DataFrame, n_categories: int) -> Record:
        """Gather the rows of a run in the table of a sweep, one for each domain."""
        counts = {part: [_dense(c, n_categories) for c in rows[part]] for part in _JUDGED}
        return cls(
            epsilon=float(rows["epsilon"].iloc[0]),
            seed=int(rows["seed"].iloc[0]),
            images=np.array(rows["images"].to_list()),
            **{part: np.stack(tables) for part, tables in counts.items()},
            distances=rows["distance"].to_numpy(),
            pulls=rows["pull"].to_numpy(),
            loss=np.mean(rows["losses"].to_list(), axis=0).tolist(),
            seconds=float(rows["seconds"].iloc[0]),
        )

    @property
    def unresolved(self) -> bool:
        """Whether the radius is below what the numbers of the network resolve."""
        farthest = self.distances.max()
        return bool(0 < self.epsilon < np.inf and farthest > _EXCESS * self.epsilon)


_JUDGED = ("validation", "test")


def _dense(pairs: list[list[int]], n_categories: int) -> NDArray[np.int64]:
    """Table of counts from [truth, predicted, count]."""
    table = np.zeros((n_categories, n_categories), dtype=np.int64)
    for truth, predicted, count in pairs:
        table[truth, predicted] = count
    return table
