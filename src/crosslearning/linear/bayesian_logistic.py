"""Logistic regression for related tasks with a learned geometry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

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
