"""Logistic regression for related tasks, with the tether chosen by cross-validation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import log_softmax

from crosslearning.convex.logistic_loss import contrasts
from crosslearning.linear._cv import CrossLinearModelCV
from crosslearning.linear._scoring import by_task, scores_by_task
from crosslearning.linear.logistic import LogisticTarget

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crosslearning.convex.design import TaskTable

__all__ = ["CrossLogisticRegressionCV"]


class CrossLogisticRegressionCV(LogisticTarget, CrossLinearModelCV):
    """Cross-learned logistic regressions whose radius the data choose.

    Like :class:`CrossRidgeCV`, for classes, with the negative log-loss as default score. Folds are
    drawn without regard to the classes, except that every class is always learned from.

    Parameters
    ----------
    epsilons, n_epsilons, smallest, per_block, tether, alphas, cv, scoring, average
        As in :class:`CrossRidgeCV`.
    one_standard_error, n_jobs, random_state
        As in :class:`CrossRidgeCV`.
    task_weights, fit_intercept, standardize, task_column, tol, max_iter
        As in :class:`CrossRidge`.

    Attributes
    ----------
    alpha_, epsilon_, stiffness_, tension_, tether_, best_score_
        As in :class:`CrossRidgeCV`.
    alphas_, epsilons_, score_path_, comparison_
        As in :class:`CrossRidgeCV`.
    classes_, coef_, intercept_, center_coef_, center_intercept_, tasks_, distances_, forces_
        As in :class:`CrossLogisticRegression`.
    epsilon_max_, objective_, kkt_residual_, n_iter_
        As in :class:`CrossRidge`.
    """

    def _scorer(self) -> Any:
        basis = contrasts(len(self.classes_))
        if self.scoring in (None, "neg_log_loss"):  # also where a task lacks a class
            return partial(_LogLoss, basis)
        from sklearn.metrics import check_scoring

        return partial(_Scored, check_scoring(self, self.scoring), self.classes_, basis)


@dataclass(frozen=True, eq=False)
class _LogLoss:
    """Negative log-loss of each task."""

    basis: NDArray[np.float64]
    rows: TaskTable
    models: NDArray[np.intp]

    def __call__(
        self, coef: NDArray[np.float64], intercept: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        rows = self.rows
        logs = _log_probabilities(self.basis, coef, intercept, rows, self.models)
        return by_task(logs[np.arange(len(logs)), rows.y], rows.weights, rows.tasks, rows.n_tasks)


@dataclass(frozen=True, eq=False)
class _Scored:
    """Applies a scikit-learn scorer to the predictions for each task."""

    scorer: Any
    classes: NDArray[Any]
    basis: NDArray[np.float64]
    rows: TaskTable
    models: NDArray[np.intp]

    def __call__(
        self, coef: NDArray[np.float64], intercept: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        rows = self.rows
        logs = _log_probabilities(self.basis, coef, intercept, rows, self.models)
        return scores_by_task(
            self.scorer,
            rows.X,
            self.classes[rows.y],
            rows.tasks,
            rows.n_tasks,
            self.classes,
            predictions=self.classes[logs.argmax(axis=1)],
            probabilities=np.exp(logs),
            decisions=logs[:, 1] - logs[:, 0] if len(self.classes) == 2 else logs,
        )


def _log_probabilities(
    basis: NDArray[np.float64],
    coef: NDArray[np.float64],
    intercept: NDArray[np.float64],
    rows: TaskTable,
    models: NDArray[np.intp],
) -> NDArray[np.float64]:
    at = models[rows.tasks]
    scores = np.einsum("rp,rqp->rq", rows.X, coef[at]) + intercept[at]
    return np.asarray(log_softmax(scores @ basis.T, axis=1))
