"""Ridge regression for related tasks, with a given or a cross-validated tether."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from crosslearning.convex.families import Gaussian
from crosslearning.convex.squared_error import SquaredError
from crosslearning.evaluation.scoring import Predicted, scorer_of
from crosslearning.linear._base import CrossTethered
from crosslearning.linear._cv import CrossLinearModelCV
from crosslearning.linear._folds import Judge
from crosslearning.linear._targets import RealTarget

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crosslearning.linear._estimator import Array
    from crosslearning.linear._folds import Judges


class _RidgeTarget(RealTarget):
    """Targets and predictions of a cross-learned ridge regression."""

    def _predict(self, X: Any, tasks: Any) -> Array:
        scores: Array = self._scores(X, tasks)[:, 0]
        return scores

    def _learn_target(self, y: NDArray[Any], weights: Array) -> None:
        self.target_mean_ = float(np.average(y, weights=weights)) if self.fit_intercept else 0.0

    def _family(self) -> Gaussian:
        return Gaussian()


class CrossRidge(_RidgeTarget, CrossTethered):
    r"""Linear regressions for related tasks, all within ε of a common centre.

    .. math::

        \min_{\theta, c} \sum_i \Bigl[\tfrac12 \sum_{\text{rows of } i} w\,(y - x^\top\theta_i)^2
        + \tfrac12 \alpha_i \|\text{coef}_i\|^2\Bigr] + \sum_i h(\|\theta_i - c\|)

    :math:`\theta_i` holds coefficients and intercept of task i, and the tether :math:`h` is a
    bound ``epsilon``, a spring ``stiffness``, a ``tension``, or a mixture; see
    :class:`~crosslearning.Tether`. The task's share of the ridge term, :math:`\alpha_i`, is
    ``alpha`` times its share of the rows, so that ``epsilon=0`` is ``Ridge(alpha)`` on the merged
    data; ``epsilon=inf`` fits each task by itself. The problem is solved exactly. Where data leave
    a task's parameters open, those nearest the centre are taken (the smallest at ``epsilon=inf``).

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
        Whether each row counts the same, or each task, in the losses and the ridge term.
    fit_intercept : bool, default=True
        Whether the models have an intercept.
    standardize : bool, default=True
        Whether distances and ridge term refer to standardised features (statistics over all
        tasks). Coefficients are always returned for the features as given.
    task_column : str, optional
        Column of a DataFrame X that holds the task labels, in place of the argument `tasks`.
    tol, max_iter : float, default=1e-8, and int, default=2000
        Largest relative KKT residual, and largest number of Newton steps.

    Attributes
    ----------
    coef_, intercept_ : array of shape (n_tasks, n_features), (n_tasks,)
        Coefficients and intercept of each task.
    center_coef_, center_intercept_ : array of shape (n_features,), float
        The centre: it predicts for tasks never seen. From ``epsilon_max_`` on it is not unique,
        and the one nearest the mean of the tasks, weighted by rows, is taken.
    tasks_ : array of object of shape (n_tasks,)
        Labels, in the order of the rows of `coef_`.
    distances_ : array of shape (n_tasks,), or dict of arrays by block
        Distance of each task to the centre: at ``epsilon`` it is held back, at 0 it is the centre.
    forces_ : array of shape (n_tasks,), or dict of arrays by block
        How fast the task's own loss would fall per unit of extra freedom: large for tasks that
        the tether holds back, 0 for those it does not touch.
    epsilon_, epsilon_max_ : float, or dict by block
        The radius, and the one at which the bound stops to matter, worked out when asked for.
    metric_ : array of shape (n_parameters, n_parameters), or None
        Root of the covariance in which distances are measured, unless that is the standard one.
    objective_, kkt_residual_, n_iter_ : float, float, int
        Value, relative residual of the optimality conditions, Newton steps.
    n_features_in_, feature_names_in_, feature_mean_, feature_scale_, target_mean_
        Number, names and pooled statistics of the features, and the mean target.
    total_weight_, n_tasks_fitted_ : float, int
        Sum of the weights, and number of tasks with a positive one.

    Examples
    --------
    >>> from crosslearning import CrossRidge
    >>> from crosslearning.datasets import load_hsb82
    >>> pupils = load_hsb82()
    >>> model = CrossRidge(epsilon=1.5).fit(pupils.X, pupils.y, tasks=pupils.tasks)
    >>> model.coef_.shape
    (160, 3)
    >>> print(model.distances_.max().round(6))
    1.5
    """


class CrossRidgeCV(_RidgeTarget, CrossLinearModelCV):
    """Cross-learned ridge regressions whose radius the data choose.

    Radius and ridge strength are chosen together by cross-validation, with folds that divide
    every task; then all rows are fitted. A task with a single row counts as one never seen when
    that row is held out.

    Parameters
    ----------
    epsilons : sequence of float, optional
        Radii to try. By default 0, `n_epsilons` in geometric progression up to where the bound
        does not matter, and infinity.
    n_epsilons : int, default=20
        Positive finite values to try of a radius, a stiffness or a tension, before looking
        between the best of them and its neighbours.
    smallest : float, default=1e-3
        Smallest of the radii, as a share of the largest.
    tether : {"ball", "spring", "tension", "auto"}, default="ball"
        Kind of coupling. With "auto" the three, and a bound with a spring, compete.
    alphas : sequence of float, optional
        Ridge strengths to try; by default the one by evidence or, unless the metric is learned,
        shares from 1e-4 to 1 of the curvature of the data.
    cv : int, splitter or iterable, default=5
        Number of folds within tasks, or anything that scikit-learn takes.
    scoring : str or callable, optional
        Any scikit-learn scorer; by default the negative mean squared error.
    average : {"tasks", "rows"}, default="tasks"
        Whether every task counts the same in a score, or every row.
    one_standard_error : bool, default=False
        Whether to share as much as possible within a standard error of the best score.
    n_jobs, random_state : int, optional, and int, default=0
        Folds to work on in parallel, and the seed of the folds.
    metric : {"learned", "standard"} or array, default="learned"
        As in :class:`CrossRidge`; a learned one is learned anew in every fold.
    task_weights, fit_intercept, standardize, task_column, tol, max_iter
        As in :class:`CrossRidge`.

    Attributes
    ----------
    alpha_, epsilon_, stiffness_, tension_, tether_ : float, the last str
        The choice.
    best_score_ : float
        Its score, which has seen the choice; `comparison_` has not.
    alphas_ : array
        Ridge strengths tried.
    epsilons_, score_path_ : array of shape (n_radii,), (n_radii, n_folds)
        Radii, the chosen one among them, and scores there with all else as chosen.
    comparison_ : Comparison
        Pooled, separate and cross-learned models, by task and in all.
    coef_, intercept_, center_coef_, center_intercept_, tasks_, distances_, and all others
        As in :class:`CrossRidge`.

    Examples
    --------
    >>> from crosslearning import CrossRidgeCV
    >>> from crosslearning.datasets import load_hsb82
    >>> pupils = load_hsb82()
    >>> model = CrossRidgeCV(n_epsilons=5, alphas=[1.0], cv=3)
    >>> model = model.fit(pupils.X, pupils.y, tasks=pupils.tasks)
    >>> bool(model.comparison_.summary.loc["pooled", "gain"] > 0)
    True
    """

    def _judges(self) -> Judges:
        scorer = scorer_of(self, self.scoring, "neg_mean_squared_error")
        if scorer is None:
            return SquaredError.of
        shift = partial(np.add, self.target_mean_)
        return partial(Judge, scorer, partial(_predicted, shift), shift)


def _predicted(shift: Any, scores: Array) -> Predicted:
    return Predicted(shift(scores[:, 0]))
