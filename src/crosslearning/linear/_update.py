"""Rows that are added to a fitted model."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from crosslearning.convex.evidence.marginal import symmetric_root, task_covariances
from crosslearning.convex.families import Gaussian
from crosslearning.convex.sums.statistics import Statistics
from crosslearning.linear._estimator import checked_offset, checked_weights
from crosslearning.linear._nested import NestedTasks
from crosslearning.tasks.estimators import codes_to_fit, codes_to_predict, separate_labels
from crosslearning.tasks.labels import (
    TaskIndex,
    as_objects,
    check_tasks,
    groups_of,
    has_levels,
    paths_like,
)
from crosslearning.tether import Array, Indices


class Updated(NestedTasks):
    """Adds `update` to models that keep the sums of their rows."""

    def update(
        self: Any,
        X: ArrayLike,
        y: ArrayLike,
        tasks: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        sample_offset: ArrayLike | None = None,
    ) -> Any:
        """Add rows, of tasks of the fit or of new ones; the model is that of a fit to all rows.

        A model of Gaussian targets keeps the sums of its rows, to which those of the new rows are
        added; the rows themselves are not needed. Parameters are those of :meth:`fit`; `tasks` of
        several columns are those of the fit, matched by name. If an update fails, the model stays
        as it was. Intervals with ``method="conformal"`` need another fit.
        """
        check_is_fitted(self)
        self._validate_params()
        before = dict(vars(self))
        try:
            self._add(X, y, tasks, sample_weight, sample_offset)
        except BaseException:  # the model stays as it was
            vars(self).clear()
            vars(self).update(before)
            raise
        return self

    def _add(self: Any, X: Any, y: Any, tasks: Any, sample_weight: Any, sample_offset: Any) -> None:
        kept = self._kept_statistics()
        X, tasks = separate_labels(X, tasks, self.task_column)
        array, target = validate_data(self, X, self._checked_target(y), reset=False, **self._checks)
        new, codes = self._codes_to_add(tasks, len(array))
        labels = [*self.tasks_.tolist(), *new.tolist()]
        tasks_, position = codes_to_fit(labels, len(labels))
        before, number = np.split(position, [kept.n_tasks])
        total = kept.relabelled(before) + Statistics.of(
            array,
            target - checked_offset(sample_offset, len(target)),
            number[codes],
            labels=np.arange(len(tasks_)),
            sample_weight=checked_weights(sample_weight, array),
        )
        self.tasks_ = tasks_
        if self.groups_:
            self.groups_ = [as_objects(groups) for groups in groups_of(tasks_.tolist())]
        self._count(total)
        self._fit_sums(total)
        self.calibration_: dict[str, Array] = {}

    def _codes_to_add(self: Any, tasks: Any, n_rows: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Return the distinct labels of new rows, and the position of each row's."""
        fitted = self.tasks_.tolist()
        if tasks is None:
            return self.tasks_, codes_to_predict(self.tasks_, None, n_rows)
        if self.groups_:
            return codes_to_fit(paths_like(tasks, n_rows, self.level_names_, fitted), n_rows)
        if has_levels(tasks):
            raise ValueError(
                f"`tasks` must be one column, as in the fit; got {tasks.shape[1]} columns. Fit all "
                "rows together to add levels."
            )
        TaskIndex(tuple(fitted)).encode(check_tasks(tasks, n_rows), strict=True)
        return codes_to_fit(tasks, n_rows)

    def _kept_statistics(self: Any) -> Statistics:
        """Return the sums of the fit, by the position of a task."""
        kept: Statistics | None = vars(self).get("_statistics")
        if kept is None:
            reason = "which only models of Gaussian targets keep. Fit all rows together."
            if type(self._family()) is Gaussian:
                reason = "which a model of `fit_task` does not keep. Update the model of all tasks."
            raise ValueError(f"An update of {self!r} needs the sums of the rows, {reason}")
        if kept.n_rows != self.n_rows_fitted_:
            raise ValueError(
                f"The statistics of the fit had {self.n_rows_fitted_} rows and now have "
                f"{kept.n_rows}. Use `fit_statistics` again, or fit a copy of statistics that grow."
            )
        return kept.total()

    def _gains_of(self: Any, tasks: Indices) -> Array:
        if vars(self).get("_statistics") is None or self.groups_:
            return super()._gains_of(tasks)
        few, noise = self._kept_statistics().take(tasks), self.noise_sd_**2
        intercept, mean = self.fit_intercept, self.target_mean_
        moments = few.moments(self._scaling(), intercept=intercept, target_mean=mean)
        root = symmetric_root(self.covariance_ / noise)
        return task_covariances(moments.products, root, self.center_covariance_ / noise)[1]
