"""The table of scores: settings × splits × tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from crosslearning.tether import Array


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores on held-out rows; greater is better.

    Parameters
    ----------
    settings : sequence
        What was scored: radii, candidates of a search, names of methods.
    values, weights : array of shape (n_settings, n_splits, n_tasks), (n_splits, n_tasks)
        Scores (NaN or infinite if undefined), and the number or total weight of their rows.
    by_rows : bool, default=False
        Whether averages weight tasks by their rows, or equally.

    >>> scores = Scores(["pooled", "separate"], [[[-1.0, -3.0]], [[-2.0, -1.0]]], [[3, 1]])
    >>> scores.means
    array([-2. , -1.5])
    """

    settings: Sequence[Any]
    values: Array
    weights: Array
    by_rows: bool = False

    def of(self, settings: Sequence[Any]) -> Scores:
        """Return the scores of some of the settings."""
        at = [self.settings.index(setting) for setting in settings]
        return replace(self, settings=settings, values=np.asarray(self.values)[at])

    @property
    def n_splits(self) -> int:
        """Number of splits."""
        return len(self.weights)

    @property
    def by_split(self) -> Array:
        """Mean over the tasks of each split, NaN if undefined: (n_settings, n_splits)."""
        weights = np.asarray(self.weights)
        return mean(self.values, weights if self.by_rows else weights > 0, axis=2)

    @property
    def by_task(self) -> Array:
        """Mean over the rows of each task, NaN if undefined: (n_settings, n_tasks)."""
        return mean(self.values, self.weights, axis=1)

    @property
    def means(self) -> Array:
        """Mean over the splits with a score; minus infinity if there is none."""
        means = mean(self.by_split, 1.0, axis=1)
        return np.where(np.isnan(means), -np.inf, means)


def mean(values: Any, weights: Any, axis: int) -> Array:
    """Weighted mean of the finite values; NaN if there are none."""
    values = np.asarray(values, dtype=np.float64)
    present = np.isfinite(values)
    share = np.where(present, weights, 0.0)
    total = share.sum(axis=axis)
    sums = np.sum(share * np.where(present, values, 0.0), axis=axis)
    return np.asarray(np.divide(sums, total, out=np.full_like(total, np.nan), where=total > 0))
