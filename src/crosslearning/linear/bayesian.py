"""Linear regression for related tasks with a learned geometry."""

from __future__ import annotations

from crosslearning.linear._bayesian_regression import BayesianRegression


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
        Largest distance to the centre, in standard deviations between tasks; 0 pools them. Of
        groups within groups, to the parent: one number for all levels, or one each, outermost
        first.
    covariance : {"auto", "block", "diagonal", "full", "levels", "pooled", "separate"}
        Structure of :math:`\Sigma`: one variance for the coefficients of each block and one for
        intercepts; one for each coefficient; or a full matrix, shrunk towards its diagonal. "auto",
        the default, chooses by evidence, with a penalty for the number of parameters. The last
        three are baselines: tasks that differ only in their intercepts, one model for all, and
        separate models, which share only the size of their coefficients.
    blocks : array of shape (n_features,), optional
        Label of the block of each feature, such as those of :class:`SplineFeatures`; one block by
        default. Each has its own :math:`\tau`, and with ``covariance="block"`` its own variance
        between tasks.
    fit_intercept, standardize, task_column
        As in :class:`CrossRidge`; `task_column` may be a list of columns, outermost first.
    task_weights : dict, optional
        Weight of each task, by label: how many tasks it stands for; 1 by default.
    tol : float, default=1e-6
        Gain in log evidence below which the search for variances ends.
    max_iter : int, default=500
        Largest number of evaluations of the evidence, and of Newton steps under a bound.

    Attributes
    ----------
    coef_, coef_sd_, intercept_ : array of shape (n_tasks, n_features), twice, (n_tasks,)
        Coefficients of each task, their posterior standard deviations, and intercepts.
    center_coef_, center_coef_sd_, center_intercept_ : array of shape (n_features,), twice, float
        The centre, which predicts new tasks, and its posterior standard deviations.
    task_sd_, task_intercept_sd_ : array of shape (n_features,), float
        Standard deviation between tasks of each coefficient, and of the prediction at the mean
        features; 0 if all tasks are alike.
    noise_sd_ : float
        Standard deviation of the noise.
    distances_, forces_ : array of shape (n_tasks,)
        Distance of each task to the centre, in standard deviations between tasks, and rate at which
        its log-likelihood would rise if its bound were relaxed.
    epsilon_, epsilon_max_ : float
        The bound, and the smallest bound that has no effect.
    log_evidence_, structure_ : float, str
        Log evidence, and the chosen structure of the covariance.
    covariance_, center_sd_ : array of shape (n_parameters, n_parameters), (n_features,)
        :math:`\Sigma`, the intercept last, and :math:`\tau`, for standardised features.
    center_covariance_, task_covariances_ : array of shape (..., n_parameters, n_parameters)
        Posterior covariances of centre and tasks, for standardised features, without the bound.
    task_variance_law_ : array of shape (3, n_parameters)
        How well the diagonal of `covariance_` is determined: estimates, offsets and degrees of
        freedom, from which :meth:`summary` has its intervals.
    groups_, level_names_ : list of array, list of str
        Of groups within groups: labels of the groups of each level but the innermost, outermost
        first, and names of all levels. Labels of tasks and groups are tuples.
    group_coef_, group_intercept_, group_covariances_, group_distances_ : list of array
        Models of the groups, by level as `groups_`, which predict new tasks in them; covariances
        of the parameters of such tasks; and distances of groups to their parents.
    calibration_ : dict of array
        Studentised errors of held-out rows, for conformal intervals.
    kkt_residual_, n_iter_, status_ : float, int, str
        Relative residual of the optimality conditions, evaluations of the evidence, and how the
        search for the variances ended.
    tasks_, n_features_in_, feature_mean_, feature_scale_, target_mean_, and all others
        As in :class:`CrossRidge`.

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
