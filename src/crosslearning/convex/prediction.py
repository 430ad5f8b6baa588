"""Linear scores of rows, from the fitted parameters of tasks and centre."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from crosslearning.tether import Array, Indices


def linear_scores(fitted: Mapping[str, Any], X: Array, codes: Indices) -> Array:
    """Scores of rows, shape (n_rows, n_scores), by the task of each; -1 is the centre.

    `fitted` holds the attributes ``coef_``, ``intercept_``, ``center_coef_`` and
    ``center_intercept_`` of an estimator.
    """
    known, n_features = len(fitted["coef_"]), X.shape[1]
    coef = np.concatenate([fitted["coef_"], fitted["center_coef_"][np.newaxis]])
    own = fitted["intercept_"].reshape(known, -1)
    intercept = np.vstack([own, np.reshape(fitted["center_intercept_"], (1, -1))])
    # One score at a time: the coefficients of all rows at once could be large.
    columns = coef.reshape(known + 1, -1, n_features).swapaxes(0, 1)
    scores = [np.einsum("rp,rp->r", X, column[codes]) for column in columns]
    return np.asarray(np.stack(scores, axis=1) + intercept[codes])
