"""Logistic regression for related tasks with a learned geometry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crosslearning.convex.families import Ordinal
from crosslearning.convex.predict import linear_scores
from crosslearning.convex.sums.passes import Passed
from crosslearning.convex.sums.statistics import Statistics
from crosslearning.convex.sums.table import TaskTable
from crosslearning.linear._bayesian import CrossBayesianModel
from crosslearning.linear._targets import ClassTarget, accuracy, grades_of
from crosslearning.tether import Array


@dataclass(eq=False, repr=False, kw_only=True)
class CrossBayesianLogisticRegression(ClassTarget, CrossBayesianModel):
    r"""Logistic regressions for related tasks that learn how much the tasks differ.

    Like :class:`CrossBayesianRidge`, for two or more classes, by Laplace's approximation of the
    evidence. Probabilities are averaged over the Gaussian that is nearest to the posterior, and
    coefficients are its means, so that probabilities nearly add up to the number of cases. A task
    may lack some of the classes. With a finite `epsilon`, however large, coefficients are those of
    the posterior mode, whose largest distance `epsilon_max_` is.

    Parameters
    ----------
    ordered : bool, default=False
        Whether the classes are grades of one thing: a cumulative logit model with one score, and
        thresholds that all tasks share. A class of higher order has a higher score. Targets are
        then numbers, or an ordered pandas Categorical, whose categories give the order.
    epsilon, covariance, blocks, task_weights, tol, max_iter, and all others
        As in :class:`CrossBayesianRidge`.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The classes, in order.
    thresholds_ : array of shape (n_classes - 1,)
        Of three or more ordered classes: the log-odds of at most a class are its threshold minus
        the linear predictor.
    threshold_covariance_, threshold_slopes_ : array
        Of these, the covariance of all thresholds but the first, which the intercept moves, and the
        derivatives of the parameters of each task and, last, the centre by them.
    coef_, intercept_, center_coef_, center_intercept_
        As in :class:`CrossLogisticRegression`.
    coef_sd_, center_coef_sd_, task_sd_, task_intercept_sd_
        Of the same shapes as `coef_`, `center_coef_` twice, and `center_intercept_`.
    tasks_, distances_, forces_, epsilon_, log_evidence_, covariance_, and all others
        As in :class:`CrossBayesianRidge`.

    Examples
    --------
    >>> from crosslearning import CrossBayesianLogisticRegression
    >>> from crosslearning.datasets import load_hsb82
    >>> pupils = load_hsb82()
    >>> model = CrossBayesianLogisticRegression(covariance="block")
    >>> model = model.fit(pupils.X, pupils.y > 15, tasks=pupils.tasks)
    >>> model.coef_.shape
    (160, 1, 3)
    """

    ordered: bool = False

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **CrossBayesianModel._parameter_constraints,
        "ordered": ["boolean"],
    }

    def _check_rows(self, X: Any, y: Any, tasks: Any, sample_weight: Any) -> TaskTable:
        if self.ordered and y is not None:
            self.classes_ = grades_of(y)  # the validated target is an array, without categories
            self._refuse_one_class()
        return super()._check_rows(X, y, tasks, sample_weight)

    def _learn_target(self, y: NDArray[Any], weights: Array) -> None:
        if not self.ordered:
            super()._learn_target(y, weights)

    def _measure(self) -> Callable[..., float]:
        """Accuracy; scikit-learn's refuses grades such as 0.5."""
        return accuracy if self.ordered else super()._measure()

    def fit_passes(
        self,
        statistics: Statistics,
        passed: Passed,
        classes: ArrayLike,
        *,
        learn_from: int | None = None,
    ) -> Self:
        """Fit from 10 to 20 passes over rows that need not fit into memory.

        Parameters
        ----------
        statistics : Statistics
            Of all rows; the target is the position of a row's class in `classes`.
        passed : callable
            Takes a ``Pass`` and returns the sum, over all parts of the rows, of its
            ``sums(X, y, tasks)``, where tasks are positions in ``statistics.labels``.
        classes : array of shape (n_classes,)
            The classes, sorted.
        learn_from : int, optional
            Learn variances from at most that many evenly spaced tasks.
        """
        self._validate_params()
        if self.ordered:
            raise ValueError(
                "Fitting by passes needs ordered=False. Fit ordered classes from rows."
            )
        self._check_statistics(statistics)
        self.classes_ = np.asarray(classes)
        if not np.array_equal(self.classes_, np.unique(self.classes_)):
            raise ValueError(
                f"`classes` must be sorted and distinct; got {self.classes_.tolist()}. Sort them."
            )
        self._fit_passes(statistics, passed, learn_from)
        return self

    def decision_function(self, X: ArrayLike, tasks: ArrayLike | str | None = None) -> Array:
        """Return log-odds of the second of two classes, or log-probabilities of more classes.

        Parameters are those of `predict`.
        """
        logs = self._class_scores(X, tasks)
        return logs[:, 1] - logs[:, 0] if logs.shape[1] == 2 else logs

    def _class_scores(self, X: Any, tasks: Any) -> Array:
        """Logarithms of the predictive probabilities, finite where these are 0 to rounding."""
        predictor, features, codes = self._predictor(X, tasks)
        probabilities = predictor.probabilities(features, codes)
        return np.asarray(np.log(np.maximum(probabilities, np.finfo(np.float64).tiny)))

    def _fit(self, rows: TaskTable, offset: Array | None = None) -> None:
        counted = np.bincount(rows.y, rows.weights, len(self.classes_))
        if not counted.all():
            raise ValueError(
                "Every class needs a row with positive weight; class "
                f"{self.classes_[counted.argmin()]!r} has none. Drop its rows."
            )
        if self.ordered and not self.fit_intercept:
            raise ValueError("Ordered classes need fit_intercept=True, which moves the thresholds.")
        self._fit_likelihood(rows, offset)
        if isinstance(self._family(), Ordinal):
            self._learn_threshold_slopes(rows)
            self._store_deviations()

    def _learn_threshold_slopes(self, rows: TaskTable) -> None:
        """Learn how parameters follow the thresholds, all but the first, and how certain these are.

        If the thresholds move, a unit moves with its parent, by its gain, and by -V B: V is its
        covariance given the parent, and B holds the curvatures by its parameters and thresholds.
        """
        score = linear_scores(vars(self), rows.X, rows.tasks)[:, 0]
        share = self._weights_of_tasks()
        weights = rows.weights * share[rows.tasks]
        by_row, information = self._family().threshold_curvatures(rows.y, score, weights)
        columns = rows.weights[:, None] * self._scaling().columns(rows.X, intercept=True)
        B = np.zeros((rows.n_tasks, columns.shape[1], by_row.shape[1]))
        np.add.at(B, rows.tasks, columns[:, :, None] * by_row[:, None])
        gains, parents = self._gains if self.groups_ else [self._gains], self._hierarchy().parents
        levels, moves = self.covariance_.reshape(-1, *self.center_covariance_.shape)[::-1], []
        share = share[:, None, None]
        for level, between in enumerate(levels):
            moves.append(-gains[level] @ between @ B)
            information = information + np.sum(share * B.swapaxes(1, 2) @ moves[-1], axis=0)
            above = np.zeros((parents[level].max() + 1, *B.shape[1:]))
            np.add.at(above, parents[level], share * gains[level].swapaxes(1, 2) @ B)
            B, share = above, np.ones((len(above), 1, 1))
        slopes = center = -self.center_covariance_ @ B
        self.threshold_covariance_ = np.linalg.inv(information + (B.swapaxes(1, 2) @ center)[0])
        for level in reversed(range(len(levels))):
            slopes = moves[level] + gains[level] @ slopes[parents[level]]
        self.threshold_slopes_ = np.concatenate([slopes, center])
