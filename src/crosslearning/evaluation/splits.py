"""The splits of a cross-validation: which rows to fit on, which to score on."""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from crosslearning.tasks import within_task_folds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Split = tuple[NDArray[np.intp], NDArray[np.intp]]


def splits_of(
    cv: Any, X: Any, y: NDArray[Any], codes: NDArray[np.int64], seed: int, *, classes: bool
) -> list[Split]:
    """Rows to fit on and rows to score on, for each split.

    `cv` is a number of folds that divide every task, or anything that scikit-learn takes; its
    groups are the tasks, whose numbers are `codes`.
    """
    if isinstance(cv, Integral):
        n_splits = int(cv)
        if not 2 <= n_splits <= len(codes):
            raise ValueError(
                f"`cv`={n_splits} folds need at least 2 and at most as many as there are rows; "
                f"got n_samples={len(codes)}."
            )
        fold = within_task_folds(codes, n_splits, seed, y if classes else None)
        held_out = [fold == k for k in range(n_splits)]
        return [(np.flatnonzero(~test), np.flatnonzero(test)) for test in held_out]
    from sklearn.model_selection import check_cv

    with warnings.catch_warnings():
        # Tasks are the groups of splitters that want some; the others need not say so.
        warnings.filterwarnings("ignore", "The groups parameter is ignored")
        splits: list[Split] = list(check_cv(cv).split(X, y, codes))
    if not splits:
        raise ValueError(f"`cv` must give at least one split; got {cv!r}.")
    return splits
