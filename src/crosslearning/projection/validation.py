"""Checks at the border of the projection; everything behind trusts its input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crosslearning.tether import Tether

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = [
    "check_center",
    "check_center_weight",
    "check_gram",
    "check_start",
    "check_stopping",
    "check_tether",
    "check_vectors",
]

_LARGEST = 1e150  # squares beyond this overflow


def check_vectors(
    values: ArrayLike, name: str = "thetas", row: str = "task"
) -> NDArray[np.floating[Any]]:
    """Rows of finite real numbers as float32 or float64; integers become float64."""
    try:
        array = np.asarray(values)
    except ValueError:
        raise ValueError(
            f"`{name}` must have one row per {row}, all of the same length; got rows of "
            "different lengths. Pad them, or tether only the parameters that all have."
        ) from None
    if array.dtype.kind not in "biuf":
        raise ValueError(f"`{name}` must hold real numbers; got dtype {array.dtype}.")
    if array.ndim != 2 or array.size == 0:
        raise ValueError(
            f"`{name}` must have shape (n_{row}s, n_parameters) with at least one of each; got "
            f"shape {array.shape}. Give one row per {row}."
        )
    if array.dtype != np.float32:
        array = array.astype(np.float64, copy=False)
    # NaN and inf survive min and max, which need no temporary of the size of the input.
    extremes = np.abs([array.max(axis=1), array.min(axis=1)]).max(axis=0).astype(np.float64)
    _refuse_rows(~np.isfinite(extremes), name, row, "NaN or infinite values")
    _refuse_rows(extremes > _LARGEST, name, row, f"values beyond {_LARGEST:g}; rescale them")
    return array


def check_center(center: ArrayLike | None, n_parameters: int) -> NDArray[np.floating[Any]] | None:
    """Return the given centre as a vector as long as the tasks, or None for a free one."""
    if center is None:
        return None
    array = np.asarray(center)
    if array.shape != (n_parameters,):
        raise ValueError(
            f"`center` must have one number per parameter, shape ({n_parameters},); got shape "
            f"{array.shape}. Leave it out for a free centre."
        )
    row: NDArray[np.floating[Any]] = check_vectors(array[np.newaxis], "center", "centre")[0]
    return row


def check_center_weight(weight: float | None, *, allow_zero: bool = False) -> float:
    """Return the weight of a given centre, 1 by default."""
    if weight is None:
        return 1.0
    value = np.asarray(weight)
    lowest = 0.0 if allow_zero else np.finfo(np.float64).tiny
    if value.ndim or value.dtype.kind not in "iuf" or not lowest <= value < np.inf:
        raise ValueError(
            f"`center_weight` must be a positive finite number; got {weight!r}. "
            f"Use {'0' if allow_zero else 'no `center`'} for a free centre."
        )
    return float(value)


def check_tether(tether: Tether, n_tasks: int) -> Tether:
    """Return the tether if it fits the number of tasks."""
    if not isinstance(tether, Tether):
        raise ValueError(f"`tether` must be a Tether; got {tether!r}. Use Tether(epsilon=...).")
    if tether.n_tasks not in (None, n_tasks):
        raise ValueError(
            f"A tether with one value per task needs {n_tasks} values here; got "
            f"{tether.n_tasks}. Give a single number to treat all tasks alike."
        )
    return tether


def check_start(start: ArrayLike | None, n_tasks: int) -> NDArray[np.float64] | None:
    """Return the pulls to start from: one per task, between 0 and 1."""
    if start is None:
        return None
    pull = np.asarray(start, dtype=np.float64)
    if pull.shape != (n_tasks,) or not np.all((pull >= 0) & (pull <= 1)):
        raise ValueError(
            f"`start` must hold one pull between 0 and 1 for each of the {n_tasks} tasks; got "
            f"{start!r}. Use the `pull` of a previous projection."
        )
    return pull


def check_stopping(tol: float, max_iter: int) -> None:
    """Refuse a tolerance or an iteration limit that makes no sense."""
    if not tol > 0:
        raise ValueError(f"`tol` must be positive; got {tol!r}. The default suits most uses.")
    if not max_iter >= 1:
        raise ValueError(f"`max_iter` must be at least 1; got {max_iter!r}.")


def check_gram(gram: ArrayLike) -> NDArray[np.float64]:
    """Return a symmetric matrix of inner products as float64."""
    K = np.asarray(gram)
    if K.dtype.kind not in "iuf" or K.ndim != 2 or K.shape[0] != K.shape[1] or not K.size:
        raise ValueError(
            "`gram` must be a square matrix of real inner products, one row and column per task; "
            f"got shape {K.shape} and dtype {K.dtype}."
        )
    K = K.astype(np.float64)
    _refuse_rows(~np.isfinite(K).all(axis=1), "gram", "task", "NaN or infinite values")
    _refuse_rows(K.diagonal() < 0, "gram", "task", "a negative square on the diagonal")
    if not np.allclose(K, K.T, rtol=0.0, atol=1e-4 * K.diagonal().max()):
        raise ValueError("`gram` must be symmetric. Compute U @ U.T from the differences U.")
    symmetric: NDArray[np.float64] = 0.5 * (K + K.T)
    return symmetric


def _refuse_rows(bad: NDArray[np.bool_], name: str, row: str, what: str) -> None:
    if not bad.any():
        return
    if row == "centre":
        raise ValueError(f"`{name}` has {what}.")
    index = np.flatnonzero(bad)
    listed = ", ".join(map(str, index[:10])) + (", …" if len(index) > 10 else "")
    plural = "s" if len(index) > 1 else ""
    raise ValueError(
        f"`{name}` has {what} in {row}{plural} {listed}. Mend or drop the {row}{plural}."
    )
