"""Ridge regression for related tasks, with a given or a cross-validated tether."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from crosslearning.convex.sums.statistics import Statistics
from crosslearning.convex.sums.table import SquaredError
from crosslearning.evaluation.scoring import Predicted, scorer_of
from crosslearning.linear._cv import CrossLinearModelCV, Pair
from crosslearning.linear._estimator import RealTarget
from crosslearning.linear._tethered import CrossTethered
from crosslearning.tether import Array, Indices


class _RidgeTarget(RealTarget):
    def fit_statistics(self, statistics: Statistics) -> Self:
        """Fit from sums instead of rows; the models are the same."""
        self._check_statistics(statistics)
        self.target_mean_ = float(statistics.pooled_means()[-1]) if self.fit_intercept else 0.0
        shift = np.append(np.zeros(statistics.n_features), self.target_mean_)
        encoded = statistics.take(slice(None))
        encoded.cells.means = statistics.cells.means - shift
        self._fit(encoded)
        return self

    def _predict(self, X: Any, tasks: Any) -> Array:
        return np.asarray(self._scores(X, tasks)[:, 0])

    def _learn_target(self, source: Any, y: Array, weights: Array) -> None:  # noqa: ARG002
        self.target_mean_ = float(np.average(y, weights=weights)) if self.fit_intercept else 0.0


class CrossRidge(_RidgeTarget, CrossTethered):
    r"""Linear regressions for related tasks, all within ε of a common centre.

    .. math::

        \min_{\theta, c} \sum_i \Bigl[\tfrac12 \sum_{\text{rows of } i} w\,(y - x^\top\theta_i)^2
        + \tfrac12 \alpha_i \|\text{coef}_i\|^2\Bigr] + \sum_i h(\|\theta_i - c\|)

    :math:`\theta_i` holds the coefficients and the intercept of task i, and the tether :math:`h`
    combines a bound ``epsilon``, a spring ``stiffness`` and a ``tension``; see
    :class:`~crosslearning.Tether`. The ridge term of a task, :math:`\alpha_i`, is ``alpha`` times
    its share of the rows, so that ``epsilon=0`` is ``Ridge(alpha)`` on the pooled data;
    ``epsilon=inf`` fits each task separately. The problem is solved exactly. Parameters of a task
    that the data do not determine are those nearest the centre (at ``epsilon=inf``, the smallest).

    Parameters
    ----------
    epsilon : float or dict, default=1.0
        Largest distance to the centre over all parameters, or by block, such as
        ``{"coef": 0.5, "intercept": inf}``: ``inf`` leaves a block free, 0 shares it. Distances are
        between coefficients of standardised features, in units of the target.
    alpha, stiffness, tension : float (or dict, but for alpha), default=1.0, 0.0 and 0.0
        Strength of the ridge term on the coefficients, as in :class:`sklearn.linear_model.Ridge`;
        spring and tension, on the scale of the sum of squared errors.
    metric : {"standard", "learned"} or array, default="standard"
        Units of distance: coefficients of standardised features; standard deviations between
        tasks, learned by maximising the evidence (see :class:`CrossBayesianRidge`); or given by an
        array, the standard deviations of the coefficients and, last, the intercept, or their
        covariance, for standardised features. Only "standard" allows tethers by block.
    task_weights : {"samples", "equal"}, default="samples"
        Whether each row or each task has equal weight in the losses and the ridge term.
    fit_intercept, standardize : bool, default=True
        Whether the models have an intercept, and whether distances and the ridge term refer to
        features standardised over all tasks; `coef_` is always for the original features.
    task_column : str, optional
        Column of a DataFrame X that holds the task labels, in place of the argument `tasks`.
    tol, max_iter : float, default=1e-8, and int, default=2000
        Largest relative KKT residual, and largest number of Newton steps.

    Attributes
    ----------
    tasks_, coef_, intercept_ : array of shape (n_tasks,), (n_tasks, n_features), (n_tasks,)
        Label, coefficients and intercept of each task.
    center_coef_, center_intercept_ : array of shape (n_features,), float
        The centre, which predicts new tasks. If ``epsilon`` is at least ``epsilon_max_``, it is not
        unique, and the one nearest the mean of the tasks, weighted by rows, is taken.
    distances_, forces_ : array of shape (n_tasks,), or dict of arrays by block
        Distance of each task to the centre, and rate at which its own loss would fall if its radius
        were increased; 0 if the tether is inactive.
    epsilon_, epsilon_max_ : float, or dict by block
        The radius, and the smallest radius that has no effect, computed on first access.
    metric_ : array of shape (n_parameters, n_parameters), or None
        Root of the covariance that defines distances, or None for the standard metric.
    objective_, kkt_residual_, n_iter_ : float, float, int
        Objective, relative residual of the optimality conditions, and number of Newton steps.
    n_features_in_, feature_names_in_, feature_mean_, feature_scale_, target_mean_
        Number, names and pooled statistics of the features, and the mean target.
    total_weight_, n_rows_fitted_, n_tasks_fitted_ : float, int, int
        Sum of the weights, and numbers of rows and of tasks with a positive weight.

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
    """Cross-learned ridge regressions with a radius chosen by cross-validation.

    Radius and ridge strength are chosen together, with folds that divide every task; then the
    model is fitted to all rows. A task with a single row is scored as a new task.

    Parameters
    ----------
    epsilons : sequence of float, optional
        Radii to try. By default 0, a geometric progression up to the largest useful one, and inf.
    n_epsilons, smallest : int, default=20, and float, default=1e-3
        Number of positive finite radii, stiffnesses or tensions to try before refining around the
        best, and the smallest radius as a fraction of the largest.
    tether : {"ball", "spring", "tension", "auto"}, default="ball"
        Kind of tether. "auto" tries all three, and a bound with a spring.
    alphas : sequence of float, optional
        Ridge strengths to try, the same for pooled, separate and cross-learned models. By default
        multiples from 1e-4 to 1 of the curvature of the data; if the metric is learned, the
        strength that maximises the evidence and multiples from 1e-2 to 1.
    cv, scoring, average, random_state
        As in :func:`~crosslearning.evaluation.compare`.
    n_jobs : int, optional
        Number of folds to run in parallel.
    metric : {"learned", "standard"} or array, default="learned"
        As in :class:`CrossRidge`; a learned metric is relearned in every fold.
    task_weights, fit_intercept, standardize, task_column, tol, max_iter
        As in :class:`CrossRidge`.

    Attributes
    ----------
    alpha_, epsilon_, stiffness_, tension_, tether_ : float, the last str
        The chosen values.
    best_score_, alphas_ : float, array
        Score of the choice, slightly optimistic unlike `comparison_`, and ridge strengths tried.
    epsilons_, score_path_ : array of shape (n_radii,), (n_radii, n_folds)
        Radii, including the chosen one, and their scores with all else as chosen.
    comparison_ : Comparison
        Nested, of pooled, separate and cross-learned models; radii of 0 and infinity make ties.
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

    _default_score = "neg_mean_squared_error"

    def fit_statistics(self, statistics: Statistics) -> Self:
        """Choose by squared errors in the folds of the statistics, and fit, as from rows."""
        if scorer_of(self, self.scoring, self._default_score) is not None:
            raise ValueError(
                "Sums support only squared errors, scoring='neg_mean_squared_error'; got "
                f"{self.scoring!r}. Fit from rows instead."
            )
        n_folds = np.count_nonzero(statistics.cells.counts.any(axis=0))
        if n_folds < 2:
            raise ValueError(
                "Cross-validation needs statistics with rows in at least 2 folds; got "
                f"{n_folds}. Use `Statistics.of(X, y, tasks, n_folds=5)`, or `CrossRidge`."
            )
        return super().fit_statistics(statistics)

    def _fold_scorer(self, rows: Any, models: Indices) -> Callable[..., Pair]:
        if scorer_of(self, self.scoring, self._default_score) is None:
            return SquaredError.of(rows, models)
        return super()._fold_scorer(rows, models)

    def _predicted(self, scores: Array) -> Predicted:
        return Predicted(self._decoded(scores[:, 0]))

    def _decoded(self, y: Array) -> Array:
        return y + self.target_mean_
