"""Logistic regression for related tasks, with a given or a cross-validated tether."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from crosslearning.convex.families import contrasts
from crosslearning.evaluation.scoring import Predicted
from crosslearning.linear._cv import CrossLinearModelCV
from crosslearning.linear._estimator import ClassTarget
from crosslearning.linear._tethered import CrossTethered
from crosslearning.tether import Array, Indices


class _LogisticTarget(ClassTarget):
    def _class_scores(self, X: Any, tasks: Any) -> Array:
        scores: Array = self._scores(X, tasks)
        return scores if scores.shape[1] > 1 else np.hstack([np.zeros_like(scores), scores])


class CrossLogisticRegression(_LogisticTarget, CrossTethered):
    r"""Logistic regressions for related tasks, all within ε of a common centre.

    Like :class:`CrossRidge`, with log-loss instead of squared error. ``epsilon=0`` is
    ``LogisticRegression(C=1 / alpha)`` on the pooled data. Two classes have one score; more classes
    have one each (multinomial), which sum to 0, and distances are over the coefficients of all
    classes. A task may lack some of the classes. If the classes of a task are separable, its
    optimum is at infinity unless there is a bound, spring or ridge term; without any, the
    coefficients grow until the gradient is negligible.

    Parameters
    ----------
    epsilon, alpha, stiffness, tension, metric, task_weights, and all others
        As in :class:`CrossRidge`; coefficients are log-odds per standard deviation of a feature.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The classes.
    coef_, intercept_ : array of shape (n_tasks, n_scores, n_features), (n_tasks, n_scores)
        Those of each task; ``n_scores`` is 1 for two classes, else the number of classes. The first
        axis is missing from `center_coef_` and `center_intercept_`.
    tasks_, distances_, forces_, epsilon_, epsilon_max_, objective_, and all others
        As in :class:`CrossRidge`.

    Examples
    --------
    >>> from crosslearning import CrossLogisticRegression
    >>> from crosslearning.datasets import load_hsb82
    >>> pupils = load_hsb82()
    >>> model = CrossLogisticRegression(epsilon=0.5)
    >>> model = model.fit(pupils.X, pupils.y > 15, tasks=pupils.tasks)
    >>> model.coef_.shape
    (160, 1, 3)
    """


class CrossLogisticRegressionCV(_LogisticTarget, CrossLinearModelCV):
    """Cross-learned logistic regressions with a radius chosen by cross-validation.

    Like :class:`CrossRidgeCV`, with the negative log-loss as the default score. Folds are not
    stratified by class, but every class is in every training set.

    Parameters
    ----------
    epsilons, n_epsilons, smallest, tether, alphas, cv, scoring, average, and all others
        As in :class:`CrossRidgeCV`.

    Attributes
    ----------
    classes_, coef_, alpha_, epsilon_, comparison_, and all others
        As in :class:`CrossLogisticRegression` and :class:`CrossRidgeCV`.
    """

    _default_score = "neg_log_loss"

    def _predicted(self, scores: Array) -> Predicted:
        logs = np.asarray(log_softmax(scores @ contrasts(len(self.classes_)).T, axis=1))
        return Predicted(self._decoded(logs.argmax(axis=1)), self.classes_, np.exp(logs))

    def _decoded(self, y: Indices) -> NDArray[Any]:
        return np.asarray(self.classes_[y])
