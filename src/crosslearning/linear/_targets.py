"""Encoding of targets, and conversion of scores."""

from __future__ import annotations

from numbers import Number
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crosslearning.convex.families import contrasts
from crosslearning.tasks.estimators import TaskClassifier, TaskRegressor
from crosslearning.tether import Array, Indices


class RealTarget(TaskRegressor):
    """Real targets, centred for accuracy and, for quantiles, in units of the noise."""

    target_scale_ = 1.0

    _checks: ClassVar[dict[str, Any]] = {"dtype": np.float64, "y_numeric": True}

    def _checked_target(self, y: Any) -> Any:
        values = np.asarray(y)
        if y is None or values.ndim == 0 or values.dtype.kind not in "OUS":
            return y
        try:
            return values.astype(np.float64)
        except (TypeError, ValueError):
            row = next(k for k, value in enumerate(values) if not _is_number(value))
            raise ValueError(
                f"Targets of a regression must be numbers; got {values.tolist()[row]!r} in row "
                f"{row}. Convert them, or use a classifier, such as CrossLogisticRegression."
            ) from None

    def _encoded(self, y: NDArray[Any]) -> Array:
        centred = np.asarray(y, dtype=np.float64) - self.target_mean_
        return np.asarray(centred / self.target_scale_)

    def _to_user(self, coef: Array, intercept: Array) -> tuple[Array, Array]:
        unit = self.target_scale_
        return unit * coef[..., 0, :], unit * intercept[..., 0] + self.target_mean_

    def _center(self) -> tuple[Array, Array]:
        level = np.array([self.center_intercept_ - self.target_mean_])
        return self.center_coef_[np.newaxis] / self.target_scale_, level / self.target_scale_


def _is_number(value: Any) -> bool:
    try:
        np.asarray(value).astype(np.float64)
    except (TypeError, ValueError):
        return False
    return True


class ClassTarget(TaskClassifier):
    """Classes: one score for the second of two, or one per class that sum to 0."""

    def _learn_target(self, y: NDArray[Any], weights: Array) -> None:  # noqa: ARG002
        self._learn_classes(y)

    def _encoded(self, y: NDArray[Any]) -> Indices:
        y = np.asarray(y)
        order = np.argsort(self.classes_)
        rank = np.searchsorted(self.classes_, y, sorter=order)
        codes = order[np.minimum(rank, len(order) - 1)]
        unknown = self.classes_[codes] != y
        if unknown.any():
            raise ValueError(
                f"Classes must be among those of `fit`, {self.classes_.tolist()}; got "
                f"{np.unique(y[unknown]).tolist()}."
            )
        return codes

    def _to_user(self, coef: Array, intercept: Array) -> tuple[Array, Array]:
        if self._family().n_scores == 1:
            return coef, intercept
        basis = contrasts(len(self.classes_))
        return np.einsum("kq,...qp->...kp", basis, coef), intercept @ basis.T

    def _center(self) -> tuple[Array, Array]:
        if self._family().n_scores == 1:
            return self.center_coef_, self.center_intercept_
        basis = contrasts(len(self.classes_))
        return basis.T @ self.center_coef_, self.center_intercept_ @ basis


def grades_of(y: Any) -> NDArray[Any]:
    """Return the distinct grades in their order: that of an ordered Categorical, or of numbers.

    >>> grades_of(pd.Categorical(["low", "high"], ["low", "high"], ordered=True)).tolist()
    ['low', 'high']
    """
    dtype = getattr(y, "dtype", None)
    if isinstance(dtype, pd.CategoricalDtype) and dtype.ordered:
        return np.asarray(pd.Categorical(y).remove_unused_categories().categories)
    distinct = pd.unique(np.ravel(y))
    other = [value for value in distinct if not isinstance(value, Number | np.bool_)]
    if other:
        raise ValueError(
            "With ordered=True the classes need an order, and text has none; got "
            f"{other[0]!r}. Pass an ordered pandas Categorical, or numbers."
        )
    return np.sort(distinct)


def accuracy(y: Any, predicted: Any, sample_weight: Any = None) -> float:
    """Return the share of targets that are predicted, whatever their type."""
    return float(np.average(np.asarray(y) == predicted, weights=sample_weight))
