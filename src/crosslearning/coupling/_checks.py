"""Validation of user input; private functions trust their arguments."""

import reprlib
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike

from crosslearning.tether import Array, Flags, Reals, Tether
from crosslearning.wording import listed

_LARGEST = 1e150  # squares beyond this overflow
_SMALLEST_WEIGHT = 1e-9  # a smaller weight is lost in rounding


def is_positive(value: object, least: float = 0.0) -> bool:
    """Whether this is a positive finite number of at least `least`."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    return is_number and 0 < float(value) < np.inf and float(value) >= least  # type: ignore[arg-type]


def check_vectors(
    values: ArrayLike, name: str = "thetas", row: str = "task", *, finite: bool = True
) -> Reals:
    """Return rows of real numbers as float32 or float64; integers become float64."""
    try:
        array = np.asarray(values)
    except ValueError:
        raise ValueError(
            f"`{name}` must have one row per {row}, all of the same length; got rows of "
            "different lengths. Pad them, or tether only the parameters that all have in common."
        ) from None
    if array.dtype.kind not in "biuf":
        raise ValueError(f"`{name}` must hold real numbers; got dtype {array.dtype}.")
    if array.ndim != 2 or array.size == 0:
        raise ValueError(
            f"`{name}` must have shape (n_{row}s, n_parameters) with at least one of each; got "
            f"shape {array.shape}. Pass one row per {row}."
        )
    if array.dtype != np.float32:
        array = array.astype(np.float64, copy=False)
    if finite:
        _refuse_not_finite(array, name, row)
    return array


def _refuse_not_finite(array: Reals, name: str, row: str) -> None:
    # NaN and inf survive min and max, which need no temporary of the size of the input.
    extremes = np.abs([array.max(axis=1), array.min(axis=1)]).max(axis=0).astype(np.float64)
    _refuse_rows(~np.isfinite(extremes), name, row, "NaN or infinite values")
    _refuse_rows(extremes > _LARGEST, name, row, f"values beyond {_LARGEST:g}; rescale them")


def check_center(center: ArrayLike, n_parameters: int, name: str = "center") -> Reals:
    """Return a centre as a vector with one entry per parameter."""
    array = np.asarray(center)
    if array.shape != (n_parameters,):
        raise ValueError(
            f"`{name}` must have one number per parameter, shape ({n_parameters},); got shape "
            f"{array.shape} from {reprlib.repr(center)}."
        )
    row: Reals = check_vectors(array[np.newaxis], name, "centre")[0]
    return row


def check_problem(
    thetas: ArrayLike, tether: Tether, center: ArrayLike | None, center_weight: float | None
) -> tuple[Reals, Tether, Reals, float]:
    """Return tasks, tether, base and weight; a free centre has the mean as base and weight 0."""
    z = check_vectors(thetas, finite=False)
    tether = check_tether(tether, len(z))
    if center is not None:
        weight = check_center_weight(1.0 if center_weight is None else center_weight)
        return z, tether, check_center(center, z.shape[1]), weight
    if center_weight is not None:
        raise ValueError(
            f"`center_weight` is the weight of a given centre; got {center_weight!r} without "
            "one. Pass `center` too, or omit both for a free centre."
        )
    with np.errstate(over="ignore", invalid="ignore"):
        base = np.full(len(z), 1.0 / len(z)) @ z
        if np.abs(base).max() > _LARGEST and np.isfinite(z).all():
            _refuse_not_finite(z, "thetas", "task")
    return z, tether, base, 0.0


def check_center_weight(weight: float, *, allow_zero: bool = False) -> float:
    """Return the weight of the centre."""
    if is_positive(weight, _SMALLEST_WEIGHT) or (allow_zero and weight == 0):
        return float(weight)
    raise ValueError(
        f"`center_weight` must be a finite number of at least {_SMALLEST_WEIGHT:g}; got "
        f"{weight!r}. {'Use 0' if allow_zero else 'Omit `center`'} for a free centre."
    )


def check_tether(tether: Tether, n_tasks: int) -> Tether:
    """Return the tether if it matches the number of tasks."""
    if not isinstance(tether, Tether):
        raise ValueError(f"`tether` must be a Tether; got {tether!r}. Use Tether(epsilon=...).")
    if tether.n_tasks not in (None, n_tasks):
        raise ValueError(
            f"A tether with one value per task needs {n_tasks} values here; got "
            f"{tether.n_tasks}. Use a single number to treat all tasks alike."
        )
    return tether


def check_start(start: ArrayLike | None, n_tasks: int) -> Array | None:
    """Return the initial pulls, one per task, between 0 and 1."""
    if start is None:
        return None
    pull = np.asarray(start, dtype=np.float64)
    if pull.shape != (n_tasks,) or not (pull.min() >= 0 and pull.max() <= 1):
        raise ValueError(
            f"`start` must hold one pull between 0 and 1 for each of the {n_tasks} tasks; got "
            f"{start!r}. Use the `pull` of a previous projection."
        )
    return pull


def check_stopping(tol: float, max_iter: int) -> None:
    """Check the tolerance and the iteration limit."""
    if not is_positive(tol):
        raise ValueError(f"`tol` must be a positive finite number; got {tol!r}. Try the default.")
    if not is_positive(max_iter) or max_iter != int(max_iter):
        raise ValueError(f"`max_iter` must be a whole number of at least 1; got {max_iter!r}.")


def check_gram(gram: ArrayLike) -> Array:
    """Return a symmetric matrix of inner products as float64."""
    K = np.asarray(gram)
    if K.dtype.kind not in "iuf" or K.ndim != 2 or K.shape[0] != K.shape[1] or not K.size:
        raise ValueError(
            "`gram` must be a square matrix of real inner products, one row and column per task; "
            f"got shape {K.shape} and dtype {K.dtype}."
        )
    K = K.astype(np.float64, copy=False)
    _refuse_rows(~np.isfinite(K).all(axis=1), "gram", "task", "NaN or infinite values")
    _refuse_rows(K.diagonal() < 0, "gram", "task", "a negative entry on the diagonal")
    asymmetry = K - K.T
    if asymmetry.max() > 1e-4 * K.diagonal().max():
        raise ValueError("`gram` must be symmetric. Compute U @ U.T from the differences U.")
    return np.asarray(K - 0.5 * asymmetry)


def _refuse_rows(bad: Flags, name: str, row: str, what: str) -> None:
    if not bad.any():
        return
    if row == "centre":
        raise ValueError(f"`{name}` has {what}.")
    rows, which = f"{row}s" if bad.sum() > 1 else row, listed(np.flatnonzero(bad).tolist())
    raise ValueError(f"`{name}` has {what} in {rows} {which}. Fix or drop the {rows}.")
