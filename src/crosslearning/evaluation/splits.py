"""The splits of a cross-validation."""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning.tasks import within_task_folds

Split = tuple[NDArray[np.intp], NDArray[np.intp]]


def splits_of(
    cv: Any, X: Any, y: NDArray[Any], codes: NDArray[np.int64], seed: int, *, classes: bool
) -> list[Split]:
    """Return training and held-out rows of each split; tasks are the groups of splitters."""
    if isinstance(cv, Integral):
        n_splits = int(cv)
        if not 2 <= n_splits <= len(codes):
            raise ValueError(
                f"`cv` must be from 2 to the number of rows; got cv={n_splits} for "
                f"n_samples={len(codes)}."
            )
        fold = within_task_folds(codes, n_splits, seed, y if classes else None)
        held_out = [fold == k for k in range(n_splits)]
        return [(np.flatnonzero(~test), np.flatnonzero(test)) for test in held_out]
    from sklearn.model_selection import check_cv

    with warnings.catch_warnings():
        # Tasks are the groups; splitters that ignore them need not say so.
        warnings.filterwarnings("ignore", "The groups parameter is ignored")
        splits: list[Split] = list(check_cv(cv).split(X, y, codes))
    if not splits:
        raise ValueError(f"`cv` must produce at least one split; got {cv!r}.")
    return splits
