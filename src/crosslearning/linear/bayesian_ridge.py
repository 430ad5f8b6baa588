"""Regression for related tasks whose geometry the data choose."""

from __future__ import annotations

from crosslearning.convex.families import Gaussian
from crosslearning.linear._bayesian_regression import BayesianRegression


class CrossBayesianRidge(BayesianRegression):
    r"""Linear regressions for related tasks, at distances that the data find likely.

    .. math::

        y = x^\top \theta_i + \text{noise}(\sigma^2), \qquad
        \theta_i \sim N(\beta, \Sigma), \qquad \beta \sim N(0, \tau^2 I)

    :math:`\theta_i` holds coefficients and intercept of task i. How much tasks differ in each of
    them, :math:`\Sigma`, the noise and the prior of the centre maximise the evidence: the
    probability of the targets with all parameters integrated out. The models are means of the
    posterior given these, that is to say, tasks on springs in the metric of :math:`\Sigma`. A
    finite ``epsilon`` is a hard bound on top, solved exactly. A fit takes one pass over the rows,
    and some ten evaluations of O(n_tasks · n_features³) operations.

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
    fit_intercept, standardize, task_column
        As in :class:`CrossRidge`.
    task_weights : dict, optional
        How many tasks each stands for, by label; 1 by default.
    tol : float, default=1e-6
        Gain in log evidence below which the search for variances ends.
    max_iter : int, default=500
        Largest number of evaluations of the evidence, and of Newton steps under a bound.

    Attributes
    ----------
    coef_, coef_sd_ : array of shape (n_tasks, n_features)
        Coefficients of each task, and their posterior standard deviations.
    intercept_ : array of shape (n_tasks,)
        Intercepts.
    center_coef_, center_intercept_ : array of shape (n_features,), float
        The centre: it predicts for tasks never seen.
    task_sd_, task_intercept_sd_ : array of shape (n_features,), float
        How much tasks differ in each coefficient, and in their level at the mean features:
        standard deviations; 0 where all tasks are alike.
    noise_sd_ : float
        Standard deviation of the noise.
    distances_ : array of shape (n_tasks,)
        Distance of each task to the centre, in standard deviations of the tasks.
    forces_ : array of shape (n_tasks,)
        How fast a task's log-likelihood would rise per standard deviation of extra freedom.
    epsilon_, epsilon_max_ : float
        The bound, and the one from which on it does not matter.
    log_evidence_, structure_ : float, str
        Logarithm of the evidence, and the structure of the covariance that was chosen.
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
    kkt_residual_, n_iter_, status_ : float, int, str
        Relative residual of the optimality conditions, evaluations of the evidence, and how the
        search for the variances ended.
    tasks_, n_features_in_, feature_mean_, feature_scale_, target_mean_, and all others
        As in :class:`CrossRidge`.

    Examples
    --------
    >>> from crosslearning import CrossBayesianRidge
    >>> from crosslearning.datasets import load_hsb82
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
