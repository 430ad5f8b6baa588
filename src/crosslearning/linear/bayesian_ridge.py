"""Regression for related tasks whose geometry the data choose."""

from __future__ import annotations

from crosslearning.convex.families import Gaussian
from crosslearning.linear._bayesian_regression import BayesianRegression

__all__ = ["CrossBayesianRidge"]


class CrossBayesianRidge(BayesianRegression):
    r"""Linear regressions for related tasks, at distances that the data find likely.

    .. math::

        y = x^\top \theta_i + \text{noise}(\sigma^2), \qquad
        \theta_i \sim N(\beta, \Sigma), \qquad \beta \sim N(0, \tau^2 I)

    :math:`\theta_i` holds coefficients and intercept of task i. How much tasks differ in each of
    them, :math:`\Sigma`, the noise and the prior of the centre maximise the evidence: the
    probability of the targets with all parameters integrated out. No rows are set aside and
    nothing is searched on a grid. The models are means of the posterior given these, that is to
    say, tasks on springs in the metric of :math:`\Sigma`. A finite ``epsilon`` is a hard bound on
    top: no task is farther than ``epsilon`` standard deviations of the tasks from the centre. The
    problem is solved exactly.

    Parameters
    ----------
    epsilon : float, default=inf
        Largest distance to the centre, in standard deviations of the tasks; 0 pools them.
    covariance : {"auto", "block", "diagonal", "full", "levels", "pooled", "separate"}
        Structure of :math:`\Sigma`: one variance for the coefficients of each block and one for
        intercepts; one for each coefficient; or a matrix, drawn towards its diagonal. "auto",
        the default, decides by evidence, with a charge for parameters. The last three are ends to
        compare with: tasks that differ in their intercepts alone, one model for all, and separate
        models, which have nothing in common but how far coefficients are from 0.
    blocks : array of shape (n_features,), optional
        Label of the block of each feature, such as those of :class:`SplineFeatures`; one block by
        default. Each has its own :math:`\tau`, and with ``covariance="block"`` its own variance
        between tasks.
    fit_intercept : bool, default=True
        Whether the models have an intercept.
    standardize : bool, default=True
        Whether features are standardised first (statistics over all tasks). Coefficients are
        always returned for the features as given.
    task_weights : dict, optional
        How many tasks each stands for, by label; 1 by default.
    task_column : str, optional
        Column of a DataFrame X that holds the task labels, in place of the argument `tasks`.
    tol : float, default=1e-6
        Gain in log evidence below which the search for variances ends.
    max_iter : int, default=500
        Largest number of evaluations of the evidence, and of Newton steps under a bound.

    Attributes
    ----------
    coef_ : array of shape (n_tasks, n_features)
        Coefficients of each task.
    intercept_ : array of shape (n_tasks,)
        Intercepts.
    coef_sd_ : array of shape (n_tasks, n_features)
        Posterior standard deviations of the coefficients.
    center_coef_, center_intercept_ : array of shape (n_features,), float
        The centre: it predicts for tasks never seen.
    task_sd_ : array of shape (n_features,)
        How much tasks differ in each coefficient: standard deviations; 0 where all tasks share it.
    task_intercept_sd_ : float
        How much they differ in their level at the mean features.
    noise_sd_ : float
        Standard deviation of the noise.
    distances_ : array of shape (n_tasks,)
        Distance of each task to the centre, in standard deviations of the tasks.
    forces_ : array of shape (n_tasks,)
        How fast a task's log-likelihood would rise per standard deviation of extra freedom.
    epsilon_, epsilon_max_ : float
        The bound, and the one from which on it does not matter.
    log_evidence_ : float
        Logarithm of the evidence.
    structure_ : str
        Structure of the covariance that was chosen.
    covariance_ : array of shape (n_parameters, n_parameters)
        :math:`\Sigma` for standardised features, the intercept last.
    center_sd_ : array of shape (n_features,)
        :math:`\tau` of each coefficient, for standardised features.
    center_covariance_ : array of shape (n_parameters, n_parameters)
        Posterior covariance of the centre, for standardised features.
    task_covariances_ : array of shape (n_tasks, n_parameters, n_parameters)
        Posterior covariances of the tasks, for standardised features and without the bound.
    calibration_ : dict of array
        Errors of rows left out, in predicted standard deviations: what conformal intervals use.
    kkt_residual_ : float
        Relative residual of the optimality conditions.
    n_iter_ : int
        Evaluations of the evidence.
    status_ : str
        How the search for the variances ended.
    tasks_ : array of object of shape (n_tasks,)
        Labels, in the order of the rows of `coef_`.
    n_features_in_, feature_names_in_, feature_mean_, feature_scale_, target_mean_
        Number, names and pooled statistics of the features, and the mean target.
    total_weight_, n_tasks_fitted_ : float, int
        Sum of the weights, and number of tasks with a positive one.

    Notes
    -----
    A fit takes one pass over the rows, and then some ten evaluations of O(n_tasks · n_features³)
    operations, whatever the number of rows.

    Examples
    --------
    >>> from crosslearning.datasets import load_hsb82
    >>> from crosslearning.linear import CrossBayesianRidge
    >>> pupils = load_hsb82()
    >>> model = CrossBayesianRidge().fit(pupils.X, pupils.y, tasks=pupils.tasks)
    >>> model.predict(pupils.X[:2], tasks=pupils.tasks[:2]).round(1)
    array([7.4, 9.5])
    >>> lower, upper = model.predict_interval(pupils.X[:2], tasks=["a new school"] * 2)
    >>> (upper - lower).round(0)
    array([21., 21.])
    """

    def _family(self) -> Gaussian:
        return Gaussian()
