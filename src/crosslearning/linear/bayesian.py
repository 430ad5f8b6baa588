"""Linear models for related tasks with a learned geometry."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from numbers import Number, Real
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from crosslearning.convex.families import FAMILIES, REGISTRY, Ordinal
from crosslearning.convex.predict import linear_scores
from crosslearning.convex.sums.passes import Passed
from crosslearning.convex.sums.statistics import Statistics
from crosslearning.convex.sums.table import TaskTable
from crosslearning.linear._bayesian import CrossBayesianModel
from crosslearning.linear._bayesian_regression import FARTHEST, BayesianRegression
from crosslearning.linear._estimator import ClassTarget
from crosslearning.tasks.estimators import accuracy
from crosslearning.tether import Array


class CrossBayesianRidge(BayesianRegression):
    r"""Linear regressions for related tasks that learn how much the tasks differ.

    .. math::

        y = x^\top \theta_i + \text{noise}(\sigma^2), \qquad
        \theta_i \sim N(\beta, \Sigma), \qquad \beta \sim N(0, \tau^2 I)

    :math:`\theta_i` holds the coefficients and the intercept of task i. The covariance between
    tasks, :math:`\Sigma`, the noise and the prior of the centre maximise the evidence (marginal
    likelihood): the probability of the targets with all parameters integrated out. The models are
    posterior means. A finite ``epsilon`` adds a hard bound, solved exactly. A fit takes one pass
    over the rows and about ten evaluations of O(n_tasks · n_features³) operations.

    Parameters
    ----------
    epsilon : float or one for each level, default=inf
        Largest distance to the centre (of groups within groups: to the parent), in standard
        deviations between tasks; 0 pools them. Levels are in order, outermost first.
    covariance : {"auto", "block", "diagonal", "full", "levels", "pooled", "separate"}
        Structure of :math:`\Sigma`: one variance for the coefficients of each block and one for
        intercepts; one for each coefficient; or a full matrix, shrunk towards its diagonal. "auto",
        the default, chooses by evidence, with a penalty for the number of parameters. The last
        three are baselines: tasks that differ only in their intercepts, one model for all, and
        separate models, which share only the size of their coefficients.
    blocks : array of shape (n_features,), optional
        Block of each feature, such as those of :class:`SplineFeatures`; one by default. Each has
        its own :math:`\tau` and, with ``covariance="block"``, its own variance between tasks.
    tol, max_iter : float, default=1e-6, and int, default=500
        Gain in log evidence below which the search for variances ends, and largest number of
        evaluations of the evidence, and of Newton steps under a bound.
    fit_intercept, standardize, task_column
        As in :class:`CrossRidge`; `task_column` may be a list of columns, outermost first.

    Attributes
    ----------
    coef_, intercept_, center_coef_, center_intercept_, tasks_, feature_mean_, and all others
        As in :class:`CrossRidge`.
    coef_sd_, center_coef_sd_ : array of shape (n_tasks, n_features), (n_features,)
        Posterior standard deviations of `coef_` and `center_coef_`.
    task_sd_, task_intercept_sd_, noise_sd_ : array of shape (n_features,), float, float
        Standard deviations: between tasks, of each coefficient and of the prediction at the mean
        features, 0 if all tasks are alike; and of the noise.
    distances_, forces_ : array of shape (n_tasks,)
        Distance of each task to the centre, in standard deviations between tasks, and rate at which
        its log-likelihood would rise if its bound were relaxed.
    epsilon_, epsilon_max_ : float
        The bound, and the smallest bound that has no effect.
    covariance_, center_sd_ : array of shape (n_parameters, n_parameters), (n_features,)
        :math:`\Sigma`, the intercept last, and :math:`\tau`, for standardised features.
    center_covariance_, task_covariances_ : array of shape (..., n_parameters, n_parameters)
        Posterior covariances of centre and tasks, for standardised features, without the bound.
    task_variance_law_ : array of shape (3, n_parameters)
        Estimates, offsets and degrees of freedom of the diagonal of `covariance_`, from which
        :meth:`summary` has its intervals.
    groups_, level_names_ : list of array, list of str
        Of groups within groups: labels of the groups of each level but the innermost, outermost
        first, and names of all levels. Labels of tasks and groups are tuples.
    group_coef_, group_intercept_, group_covariances_, group_distances_ : list of array
        Models of the groups, by level as `groups_`, which predict new tasks in them; covariances
        of the parameters of such tasks; and distances of groups to their parents.
    calibration_ : array
        Studentised errors of left-out rows, for conformal intervals; empty after a fit from sums.
    log_evidence_, structure_, kkt_residual_, n_iter_, status_ : float, str, float, int, str
        Log evidence; chosen structure of the covariance; relative residual of the optimality
        conditions; evaluations of the evidence; and how the search for the variances ended.

    Notes
    -----
    Tasks within groups, such as schools in districts, have `tasks` of several columns, outermost
    first. A school's parameters then vary around its district's, and those around the centre, each
    level with its own diagonal covariance (``covariance`` is "auto", "block", "diagonal", "levels"
    or "pooled"). `task_sd_`, `task_intercept_sd_`, `covariance_`, `epsilon_` and `epsilon_max_`
    get a first axis of levels, outermost first. A new school in a known district is predicted by
    the district's model, a new district by the centre, each with its variance.

    Examples
    --------
    >>> from crosslearning import CrossBayesianRidge
    >>> from crosslearning.datasets import load_hsb82
    >>> pupils = load_hsb82()
    >>> model = CrossBayesianRidge().fit(pupils.X, pupils.y, tasks=pupils.tasks)
    >>> model.predict(pupils.X[:2], tasks=pupils.tasks[:2]).round(1)
    array([7.4, 9.5])
    >>> lower, upper = model.predict_interval(pupils.X[:2], tasks=[9999] * 2)  # a new school
    >>> (upper - lower).round(0)
    array([21., 21.])
    """


@dataclass(eq=False, repr=False, kw_only=True)
class CrossBayesianGLM(BayesianRegression):
    """Generalised linear models for related tasks that learn how much the tasks differ.

    Like :class:`CrossBayesianRidge`, for other targets, by Laplace's approximation of the evidence
    (with Fisher's information for ``family="student"``). Predictions are means over the posterior.
    Coefficients are those of its mode, whose largest distance `epsilon_max_` is; for
    ``family="poisson"`` with ``epsilon=inf``, means of the Gaussian nearest to the posterior, so
    that predicted counts nearly add up to the observed ones.

    Parameters
    ----------
    family : {"gaussian", "student", "poisson", "negative-binomial", "gamma", "tweedie", "quantile"}
        Distribution of the targets: real, the default; real with outliers; counts, possibly
        overdispersed (quasi-likelihood); counts whose variance grows with the square of the mean;
        positive, with a standard deviation proportional to the mean; and nonnegative with many
        zeros. These four have a logarithmic link. "quantile" predicts a quantile of real targets.
    df, power, quantile : float, default=4.0, 1.5 and 0.5
        Degrees of freedom of ``family="student"``; power of the mean, between 1 and 2, in the
        variance of ``family="tweedie"``; level of ``family="quantile"``, between 0 and 1.
    epsilon, covariance, blocks, tol, max_iter, and all others
        As in :class:`CrossBayesianRidge`.

    Attributes
    ----------
    noise_sd_, overdispersion_ : float
        Square root of the family's dispersion, 1 for "quantile", of "student" the scale of its t
        distribution; and, for "negative-binomial", what evidence finds the variance of a count to
        be: mean + overdispersion · mean².
    target_scale_, largest_mean_ : float
        Noise of a robust fit, the unit of `covariance_`, for "quantile", otherwise 1; and upper
        limit of means under a logarithmic link, which extrapolates badly: 1.25 times the largest
        target (per unit of exposure).
    coef_, task_sd_, tasks_, distances_, epsilon_, log_evidence_, covariance_, and all others
        As in :class:`CrossBayesianRidge`, for the linear predictor.

    Notes
    -----
    ``family="quantile"`` minimises the check loss (the negative log density of an asymmetric
    Laplace distribution), convolved with a logistic kernel whose scale is a tenth of the noise of a
    robust fit, ``family="student"``. That fit also sets the weight of the loss against the
    differences between tasks. Finally all intercepts are shifted so that of the training targets,
    each left out of its own prediction, the share `quantile` lies below. ``return_std`` gives the
    uncertainty of the quantile, `score` is :func:`sklearn.metrics.d2_pinball_score`, and the ends
    of an interval are the predictions of two models.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> tasks = np.repeat(np.arange(50), 20)
    >>> X = rng.normal(size=(1000, 1))
    >>> counts = rng.poisson(np.exp(0.5 * X[:, 0] + rng.normal(size=50)[tasks]))
    >>> model = CrossBayesianGLM("poisson").fit(X, counts, tasks=tasks)
    >>> print(model.center_coef_.round(1), round(model.task_intercept_sd_, 0))
    [0.5] 1.0
    """

    family: str = field(default="gaussian", kw_only=False)
    df: float = 4.0
    power: float = 1.5
    quantile: float = 0.5

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BayesianRegression._parameter_constraints,
        "family": [StrOptions(set(FAMILIES))],
        "df": [Interval(Real, 0, None, closed="neither")],
        "power": [Interval(Real, 1, 2, closed="neither")],
        "quantile": [Interval(Real, 0, 1, closed="neither")],
    }

    def fit_passes(
        self,
        statistics: Statistics,
        passed: Passed,
        largest: float,
        *,
        learn_from: int | None = None,
    ) -> Self:
        """Fit a Poisson or Tweedie family, whose largest target is given, from passes over rows.

        Other parameters are those of :meth:`CrossBayesianLogisticRegression.fit_passes`.
        """
        if not REGISTRY[self.family].by_passes:
            able = " or ".join(repr(name) for name in FAMILIES if REGISTRY[name].by_passes)
            raise ValueError(
                f"Fitting by passes needs family={able}; got {self.family!r}. Fit 'gaussian' with "
                "`fit_statistics`, and others from rows."
            )
        self._check_statistics(statistics)
        self.target_mean_, self.target_scale_ = 0.0, 1.0
        self._fit_passes(statistics, passed, learn_from)
        self.calibration_, self.largest_mean_ = np.empty(0), FARTHEST * largest
        return self

    def _measure(self) -> Callable[..., float]:
        if self.family != "quantile":
            return super()._measure()
        from sklearn.metrics import d2_pinball_score

        return partial(d2_pinball_score, alpha=self.quantile)


@dataclass(eq=False, repr=False, kw_only=True)
class CrossBayesianLogisticRegression(ClassTarget, CrossBayesianModel):
    r"""Logistic regressions for related tasks that learn how much the tasks differ.

    Like :class:`CrossBayesianRidge`, for two or more classes, by Laplace's approximation of the
    evidence. Probabilities are averaged over the Gaussian that is nearest to the posterior, and
    coefficients are its means, so that probabilities nearly add up to the number of cases; with a
    finite `epsilon`, those of the posterior mode, whose largest distance `epsilon_max_` is. A task
    may lack some of the classes.

    Parameters
    ----------
    ordered : bool, default=False
        Whether the classes are grades of one thing: a cumulative logit model with one score, and
        thresholds that all tasks share. A class of higher order has a higher score. Targets are
        then numbers, or an ordered pandas Categorical, whose categories give the order.
    epsilon, covariance, blocks, tol, max_iter, and all others
        As in :class:`CrossBayesianRidge`.

    Attributes
    ----------
    classes_, thresholds_ : array of shape (n_classes,), (n_classes - 1,)
        The classes, in order. Of three or more grades, the log-odds of at most a grade are its
        threshold minus the linear predictor.
    threshold_covariance_, threshold_slopes_ : array
        Covariance of all thresholds but the first, which the intercept moves, and derivatives of
        the parameters of each task and, last, the centre by them.
    coef_, intercept_, center_coef_, center_intercept_
        As in :class:`CrossLogisticRegression`; standard deviations have the same shapes.
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

    def _learn_target(self, source: Any, y: NDArray[Any], weights: Array) -> None:
        if not self.ordered:
            return super()._learn_target(source, y, weights)
        self.classes_ = grades_of(source)  # the checked target is an array, without categories
        return self._refuse_one_class()

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
        classes, learn_from : array of shape (n_classes,), and int, optional
            The classes, sorted; and from how many evenly spaced tasks to learn variances, at most.
        """
        if self.ordered:
            raise ValueError("Fitting by passes needs ordered=False. Fit grades from rows.")
        self._check_statistics(statistics)
        self.classes_ = np.asarray(classes)
        if not np.array_equal(self.classes_, np.unique(self.classes_)):
            raise ValueError(
                f"`classes` must be sorted and distinct; got {self.classes_.tolist()}. Sort them."
            )
        self._fit_passes(statistics, passed, learn_from)
        return self

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
        by_row, information = self._family().threshold_curvatures(rows.y, score, rows.weights)
        columns = rows.weights[:, None] * self._scaling().columns(rows.X, intercept=True)
        B = np.zeros((rows.n_tasks, columns.shape[1], by_row.shape[1]))
        np.add.at(B, rows.tasks, columns[:, :, None] * by_row[:, None])
        gains, parents = self._gains, self._hierarchy().parents
        levels, moves = self.covariance_.reshape(-1, *self.center_covariance_.shape)[::-1], []
        for level, between in enumerate(levels):
            moves.append(-gains[level] @ between @ B)
            information = information + np.sum(B.swapaxes(1, 2) @ moves[-1], axis=0)
            above = np.zeros((parents[level].max() + 1, *B.shape[1:]))
            np.add.at(above, parents[level], gains[level].swapaxes(1, 2) @ B)
            B = above
        slopes = center = -self.center_covariance_ @ B
        self.threshold_covariance_ = np.linalg.inv(information + (B.swapaxes(1, 2) @ center)[0])
        for level in reversed(range(len(levels))):
            slopes = moves[level] + gains[level] @ slopes[parents[level]]
        self.threshold_slopes_ = np.concatenate([slopes, center])


def grades_of(y: Any) -> NDArray[Any]:
    """Return the distinct grades in their order: that of an ordered Categorical, or of numbers."""
    dtype = getattr(y, "dtype", None)
    if isinstance(dtype, pd.CategoricalDtype) and dtype.ordered:
        return np.asarray(pd.Categorical(y).remove_unused_categories().categories)
    distinct = pd.unique(np.ravel(y))
    other = [value for value in distinct if not isinstance(value, Number | np.bool_)]
    if other:
        raise ValueError(
            "With ordered=True the classes need an order, and text has none; got "
            f"{other[0]!r}. Pass an ordered pandas Categorical, or numbers."
        )
    return np.sort(distinct)
