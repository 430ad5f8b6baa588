"""Logistic regression for related tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crosslearning.convex.design import Design
from crosslearning.convex.families import Bernoulli, Multinomial, contrasts
from crosslearning.convex.prediction import class_scores
from crosslearning.linear._base import CrossLinearModel
from crosslearning.tasks.estimators import TaskClassifier

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["CrossLogisticRegression", "LogisticTarget", "encoded_classes"]

_AIM = 1e-3  # the solver aims below the tolerance that it promises


def encoded_classes(classes: NDArray[Any], y: NDArray[Any]) -> NDArray[np.intp]:
    """Positions of the classes of rows."""
    y = np.asarray(y)
    codes = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    unknown = classes[codes] != y
    if unknown.any():
        raise ValueError(
            f"Classes must be among those of `fit`, {classes.tolist()}; got "
            f"{np.unique(y[unknown]).tolist()}."
        )
    return codes


class LogisticTarget(TaskClassifier):
    """Targets, losses and predictions of a cross-learned logistic regression."""

    def decision_function(
        self, X: ArrayLike, tasks: ArrayLike | str | None = None
    ) -> NDArray[np.float64]:
        """Scores: of the second class if there are two, else one per class; shapes as in sklearn.

        Parameters are those of `predict`.
        """
        scores: NDArray[np.float64] = self._scores(X, tasks)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def _class_scores(self, X: Any, tasks: Any) -> NDArray[np.float64]:
        return class_scores(self._scores(X, tasks))

    def _design(self) -> Design:
        n_classes = len(self.classes_)
        return Design(
            family=Bernoulli() if n_classes == 2 else Multinomial(n_classes),
            fit_intercept=self.fit_intercept,
            standardize=self.standardize,
            task_weights=self.task_weights,
            tol=_AIM * self.tol,
            max_iter=self.max_iter,
        )

    def _learn_target(self, y: NDArray[Any], weights: NDArray[np.float64]) -> None:  # noqa: ARG002
        self._learn_classes(y)

    def _encoded(self, y: NDArray[Any]) -> NDArray[np.intp]:
        return encoded_classes(self.classes_, y)

    def _to_user(
        self, coef: NDArray[np.float64], intercept: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        if len(self.classes_) == 2:
            return coef, intercept
        basis = contrasts(len(self.classes_))
        return np.einsum("kq,...qp->...kp", basis, coef), intercept @ basis.T

    def _center(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        if len(self.classes_) == 2:
            return self.center_coef_, self.center_intercept_
        basis = contrasts(len(self.classes_))
        return basis.T @ self.center_coef_, self.center_intercept_ @ basis


class CrossLogisticRegression(LogisticTarget, CrossLinearModel):
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
