"""Ridge regression for related tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crosslearning.convex.families import Gaussian
from crosslearning.linear._base import CrossTethered
from crosslearning.linear._targets import RealTarget

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crosslearning.linear._estimator import Array

__all__ = ["CrossRidge", "RidgeTarget"]


class RidgeTarget(RealTarget):
    """Targets and predictions of a cross-learned ridge regression."""

    def _predict(self, X: Any, tasks: Any) -> Array:
        scores: Array = self._scores(X, tasks)[:, 0]
        return scores

    def _learn_target(self, y: NDArray[Any], weights: Array) -> None:
        self.target_mean_ = float(np.average(y, weights=weights)) if self.fit_intercept else 0.0

    def _family(self) -> Gaussian:
        return Gaussian()


class CrossRidge(RidgeTarget, CrossTethered):
    r"""Linear regressions for related tasks, none farther than ε from a common centre.

    .. math::

        \min_{\theta, c} \sum_i \Bigl[\tfrac12 \sum_{\text{rows of } i} w\,(y - x^\top\theta_i)^2
        + \tfrac12 \alpha_i \|\text{coef}_i\|^2\Bigr] + \sum_i h(\|\theta_i - c\|)

    :math:`\theta_i` holds coefficients and intercept of task i, and the tether :math:`h` is a
    bound ``epsilon``, a spring ``stiffness``, a ``tension``, or a mixture; see
    :class:`~crosslearning.Tether`. The task's share of the ridge term, :math:`\alpha_i`, is
    ``alpha`` times its share of the rows, so that ``epsilon=0`` is ``Ridge(alpha)`` on the merged
    data; ``epsilon=inf`` fits each task by itself. The problem is solved exactly.

    Parameters
    ----------
    epsilon : float or dict, default=1.0
        Largest distance to the centre over all parameters; or one by block, such as
        ``{"coef": 0.5, "intercept": inf}``: ``inf`` leaves a block free, 0 shares it. Distances
        are those of coefficients per standard deviation of a feature, in units of the target.
    alpha : float, default=1.0
        Strength of the ridge term on the coefficients, as in :class:`sklearn.linear_model.Ridge`.
    stiffness, tension : float or dict, default=0.0
        Spring and tension, on the scale of the sum of squares.
    metric : {"standard", "learned"} or array, default="standard"
        How distances are measured: over standardised features; in standard deviations of the
        tasks, which the evidence finds (see :class:`CrossBayesianRidge`); or by an array, the
        standard deviation of each coefficient and, last, the intercept, or their covariance, for
        standardised features. One tether then holds all parameters.
    task_weights : {"samples", "equal"}, default="samples"
        Whether each row counts the same, or each task: then the weights of a task's rows add up
        to the total over the number of tasks, and so does its share of `alpha`.
    fit_intercept : bool, default=True
        Whether the models have an intercept.
    standardize : bool, default=True
        Whether distances and ridge term refer to standardised features (statistics over all
        tasks). Coefficients are always returned for the features as given.
    task_column : str, optional
        Column of a DataFrame X that holds the task labels, in place of the argument `tasks`.
    tol : float, default=1e-8
        Largest relative KKT residual.
    max_iter : int, default=2000
        Largest number of Newton steps.

    Attributes
    ----------
    coef_ : array of shape (n_tasks, n_features)
        Coefficients of each task.
    intercept_ : array of shape (n_tasks,)
        Intercepts.
    center_coef_, center_intercept_ : array of shape (n_features,), float
        The centre: it predicts for tasks never seen. From ``epsilon_max_`` on it is not unique,
        and the one nearest the mean of the tasks, weighted by rows, is taken.
    tasks_ : array of object of shape (n_tasks,)
        Labels, in the order of the rows of `coef_`.
    distances_ : array of shape (n_tasks,), or dict of arrays by block
        Distance of each task to the centre. At ``epsilon`` the task is held back; at 0 it is the
        centre.
    forces_ : array of shape (n_tasks,), or dict of arrays by block
        How fast the task's own loss would fall per unit of extra freedom: large for tasks that
        the tether holds back, 0 for those it does not touch.
    epsilon_, epsilon_max_ : float, or dict by block
        The radius, and the radius from which on the bound does not matter (worked out when first
        asked for).
    metric_ : array of shape (n_parameters, n_parameters), or None
        Root of the covariance in which distances are measured, unless that is the standard one.
    objective_ : float
        Value of the objective.
    kkt_residual_ : float
        Relative residual of the optimality conditions.
    n_iter_ : int
        Newton steps.
    n_features_in_, feature_names_in_, feature_mean_, feature_scale_, target_mean_
        Number, names and pooled statistics of the features, and the mean target.
    total_weight_, n_tasks_fitted_ : float, int
        Sum of the weights, and number of tasks with a positive one.

    Notes
    -----
    Data that leave a task's parameters open (fewer rows than features, constant columns) do no
    harm: of the solutions the one nearest the centre is taken, and at ``epsilon=inf`` the one with
    the smallest coefficients.

    Examples
    --------
    >>> from crosslearning.datasets import load_hsb82
    >>> from crosslearning.linear import CrossRidge
    >>> pupils = load_hsb82()
    >>> model = CrossRidge(epsilon=1.5).fit(pupils.X, pupils.y, tasks=pupils.tasks)
    >>> model.coef_.shape
    (160, 3)
    >>> print(model.distances_.max().round(6))
    1.5
    """
