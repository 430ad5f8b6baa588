"""Logistic regression for related tasks, with the tether chosen by cross-validation."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import log_softmax

from crosslearning.convex.families import contrasts
from crosslearning.evaluation.scoring import Predicted, scorer_of
from crosslearning.linear._cv import CrossLinearModelCV
from crosslearning.linear._folds import Judge
from crosslearning.linear.logistic import LogisticTarget

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crosslearning.linear._estimator import Array
    from crosslearning.linear._folds import Judges

__all__ = ["CrossLogisticRegressionCV"]


class CrossLogisticRegressionCV(LogisticTarget, CrossLinearModelCV):
    """Cross-learned logistic regressions whose radius the data choose.

    Like :class:`CrossRidgeCV`, for classes, with the negative log-loss as default score. Folds are
    drawn without regard to the classes, except that every class is always learned from.

    Parameters
    ----------
    epsilons, n_epsilons, smallest, tether, alphas, cv, scoring, average, one_standard_error
        As in :class:`CrossRidgeCV`.
    n_jobs, random_state, metric, task_weights, fit_intercept, standardize, task_column
        As in :class:`CrossRidgeCV`.
    tol, max_iter
        As in :class:`CrossRidge`.

    Attributes
    ----------
    alpha_, epsilon_, stiffness_, tension_, tether_, best_score_, alphas_, epsilons_
        As in :class:`CrossRidgeCV`.
    score_path_, comparison_
        As in :class:`CrossRidgeCV`.
    classes_, coef_, intercept_, center_coef_, center_intercept_, and all others
        As in :class:`CrossLogisticRegression`.
    """

    def _judges(self) -> Judges:
        scorer = scorer_of(self, self.scoring, "neg_log_loss")
        predicted = partial(_predicted, self.classes_, contrasts(len(self.classes_)))
        return partial(Judge, scorer, predicted, self.classes_.take)


def _predicted(classes: NDArray[Any], basis: Array, scores: Array) -> Predicted:
    logs = np.asarray(log_softmax(scores @ basis.T, axis=1))
    decisions = logs[:, 1] - logs[:, 0] if len(classes) == 2 else logs
    return Predicted(classes[logs.argmax(axis=1)], classes, np.exp(logs), decisions)
