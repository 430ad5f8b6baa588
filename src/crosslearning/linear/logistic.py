"""Logistic regression for related tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crosslearning.convex.prediction import class_scores
from crosslearning.linear._base import CrossTethered
from crosslearning.linear._targets import ClassTarget

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from crosslearning.linear._estimator import Array

__all__ = ["CrossLogisticRegression", "LogisticTarget"]


class LogisticTarget(ClassTarget):
    """Predictions of a cross-learned logistic regression."""

    def decision_function(self, X: ArrayLike, tasks: ArrayLike | str | None = None) -> Array:
        """Scores: of the second class if there are two, else one per class; shapes as in sklearn.

        Parameters are those of `predict`.
        """
        scores: Array = self._scores(X, tasks)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def _class_scores(self, X: Any, tasks: Any) -> Array:
        return class_scores(self._scores(X, tasks))


class CrossLogisticRegression(LogisticTarget, CrossTethered):
    r"""Logistic regressions for related tasks, none farther than ε from a common centre.

    .. math::

        \min_{\theta, c} \sum_i \Bigl[\sum_{\text{rows of } i} w\,\text{log-loss}(y, x^\top\theta_i)
        + \tfrac12 \alpha_i \|\text{coef}_i\|^2\Bigr] + \sum_i h(\|\theta_i - c\|)

    Like :class:`CrossRidge`, for classes. ``epsilon=0`` is
    ``LogisticRegression(C=1 / alpha)`` on the merged data. Two classes have one score. More
    classes have one each, multinomial, and they add up to 0; the distance is that between the
    coefficients of all classes. A task may lack some of the classes.

    Parameters
    ----------
    epsilon, alpha, stiffness, tension, metric, task_weights, fit_intercept, standardize
        As in :class:`CrossRidge`; distances are those of log-odds per standard deviation.
    task_column, tol, max_iter
        As in :class:`CrossRidge`.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The classes.
    coef_ : array of shape (n_tasks, n_scores, n_features)
        Coefficients of each task; ``n_scores`` is 1 for two classes, else the number of classes.
    intercept_ : array of shape (n_tasks, n_scores)
        Intercepts.
    center_coef_, center_intercept_ : array of shape (n_scores, n_features), (n_scores,)
        The centre.
    tasks_, distances_, forces_, epsilon_, epsilon_max_, objective_, kkt_residual_, n_iter_
        As in :class:`CrossRidge`.

    Notes
    -----
    A task whose classes can be separated has no best coefficients by itself. Any bound, spring or
    ridge term cures that; with none of them its coefficients grow until the gradient is
    negligible.

    Examples
    --------
    >>> from crosslearning.datasets import load_hsb82
    >>> from crosslearning.linear import CrossLogisticRegression
    >>> pupils = load_hsb82()
    >>> model = CrossLogisticRegression(epsilon=0.5)
    >>> model = model.fit(pupils.X, pupils.y > 15, tasks=pupils.tasks)
    >>> model.coef_.shape
    (160, 1, 3)
    """
