"""The choice of a setting by its scores."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crosslearning.evaluation.scores import Scores

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

_ROUNDING = 1e-9  # relative to the best score: differences below decide nothing


def best(scores: Scores, among: Sequence[int] | None = None) -> int:
    """Position of the setting with the highest mean; of equal ones, the first.

    >>> best(Scores([0.0, 1.0, 2.0], [[[-3.0]], [[-2.0]], [[-2.0]]], [[1]]))
    1
    """
    means = scores.means
    among = range(len(means)) if among is None else among
    top = max(means[k] for k in among)
    if top == -np.inf:
        raise ValueError("`scoring` gives no score for any task. Choose another scorer.")
    return next(k for k in among if means[k] >= top - _ROUNDING * abs(top))


def standard_error(scores: Scores, position: int) -> float:
    """Return the standard error of a setting's mean over the splits; 0 if there is one only."""
    values = scores.by_split[position]
    values = values[np.isfinite(values)]
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def nested(scores: Scores, methods: Mapping[str, Sequence[int]]) -> Scores:
    """Scores of methods, whose settings for a split are those that are best on the other splits.

    `methods` holds the positions of the settings of each. With a single split there are no others;
    then the choice has seen the scores. Otherwise it does not know the scores of its split, but the
    models that were scored on the other splits were fitted on rows of it. In a search over radii
    for tasks that do not differ (60 of 8 rows) that is worth less than 0.1 % of the score.
    """
    values = np.asarray(scores.values)
    parts = [values[list(positions)] for positions in methods.values()]
    chosen = [
        part[_best_on_others(scores.by_split[list(positions)]), np.arange(part.shape[1])]
        for part, positions in zip(parts, methods.values(), strict=True)
    ]
    return Scores(list(methods), np.stack(chosen), scores.weights, scores.by_rows)


def _best_on_others(by_split: NDArray[np.float64]) -> NDArray[np.intp]:
    """Position of the best setting for each split, by the scores of all others."""
    missing = np.isnan(by_split)
    # A split without any scores decides nothing; a score that only some lack is their worst.
    filled = np.where(missing, np.where(missing.all(axis=0), 0.0, -np.inf), by_split)
    n_splits = filled.shape[1]
    others = [np.delete(filled, split, axis=1).sum(axis=1) for split in range(n_splits)]
    return np.asarray(np.argmax(others if n_splits > 1 else filled.T, axis=1))
