"""Variances of the scores of rows, given covariances of the parameters of their tasks."""

from __future__ import annotations

import numpy as np

from crosslearning.tether import Array, Indices

_AT_ONCE = 2**21  # numbers in temporary arrays


def quadratic_forms(columns: Array, tasks: Indices, covariances: Array) -> Array:
    """xᵀK_ix of rows of known tasks."""
    forms = np.empty(len(columns))
    size = max(_AT_ONCE // max(columns.shape[1], 1) ** 2, 1)
    for start in range(0, len(columns), size):
        rows = slice(start, start + size)
        x = columns[rows]
        forms[rows] = np.einsum("rp,rp->r", (x[:, None] @ covariances[tasks[rows]])[:, 0], x)
    return forms


def score_covariances(columns: Array, tasks: Indices, covariances: Array, unseen: Array) -> Array:
    """Covariances of the scores of rows, (n_rows, n_scores, n_scores).

    `covariances` are those of the tasks' parameters, matrices (columns, scores), flattened, and
    `unseen` that of a new task, whose number is -1.
    """
    p = columns.shape[1]
    q, new = len(unseen) // p, tasks < 0
    result = np.empty((len(columns), q, q))
    blocks, x = covariances.reshape(-1, p, q, p, q), columns[new]
    for k in range(q):
        for m in range(q):
            block = unseen.reshape(p, q, p, q)[:, k, :, m]
            result[new, k, m] = np.einsum("rp,rp->r", x @ block, x)
            result[~new, k, m] = quadratic_forms(columns[~new], tasks[~new], blocks[:, :, k, :, m])
    return result
