"""Generalised linear models for related tasks with a learned geometry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from numbers import Real
from typing import Any, ClassVar, Self

from sklearn.utils._param_validation import Interval, StrOptions

from crosslearning.convex.families import FAMILIES, REGISTRY
from crosslearning.convex.sums.passes import Passed
from crosslearning.convex.sums.statistics import Statistics
from crosslearning.linear._bayesian_regression import FARTHEST, BayesianRegression


@dataclass(eq=False, repr=False, kw_only=True)
class CrossBayesianGLM(BayesianRegression):
    """Generalised linear models for related tasks that learn how much the tasks differ.

    Like :class:`CrossBayesianRidge`, for other targets, by Laplace's approximation of the
    evidence (a variational one for ``family="student"``). Predictions are means over the
    posterior. Coefficients are those of the posterior mode; for ``family="poisson"`` without a
    bound, means of the Gaussian nearest to the posterior, so that predicted counts nearly add up to
    the observed ones. A finite `epsilon`, however large, gives the mode, whose largest distance
    `epsilon_max_` is.

    Parameters
    ----------
    family : {"gaussian", "student", "poisson", "negative-binomial", "gamma", "tweedie", "quantile"}
        Distribution of the targets: real, the default; real with outliers; counts, possibly
        overdispersed (quasi-likelihood); counts whose variance grows with the square of the mean;
        positive, with a standard deviation proportional to the mean; and nonnegative with many
        zeros. These four have a logarithmic link. "quantile" predicts a quantile of real targets
        (see Notes).
    df : float, default=4.0
        Degrees of freedom of ``family="student"``.
    power : float, default=1.5
        Power of the mean in the variance of ``family="tweedie"``; between 1 and 2.
    quantile : float, default=0.5
        Level of ``family="quantile"``, between 0 and 1.
    epsilon, covariance, blocks, task_weights, tol, max_iter, and all others
        As in :class:`CrossBayesianRidge`.

    Attributes
    ----------
    coef_, intercept_, coef_sd_, center_coef_, center_intercept_, task_sd_, task_intercept_sd_
        As in :class:`CrossBayesianRidge`, for the linear predictor.
    noise_sd_ : float
        Square root of the family's dispersion; 1 for "quantile".
    overdispersion_ : float
        Of ``family="negative-binomial"``, learned by evidence: the variance of a count is
        mean + overdispersion · mean².
    target_scale_ : float
        Noise of a robust fit, the unit of `covariance_`, for ``family="quantile"``; otherwise 1.
    largest_mean_ : float
        Upper limit of means under a logarithmic link, 1.25 times the largest target (per unit of
        exposure), since an exponential extrapolates badly.
    tasks_, distances_, forces_, epsilon_, log_evidence_, covariance_, and all others
        As in :class:`CrossBayesianRidge`.

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
        """Fit a Poisson or Tweedie family from 10 to 20 passes over rows.

        `largest` is the largest target; the others are as in
        :meth:`CrossBayesianLogisticRegression.fit_passes`.
        """
        self._validate_params()
        if not REGISTRY[self.family].by_passes:
            able = " or ".join(repr(name) for name in FAMILIES if REGISTRY[name].by_passes)
            raise ValueError(
                f"Fitting by passes needs family={able}; got {self.family!r}. Fit 'gaussian' with "
                "`fit_statistics`, and others from rows."
            )
        self._check_statistics(statistics)
        self.target_mean_, self.target_scale_ = 0.0, 1.0
        self._fit_passes(statistics, passed, learn_from)
        self.largest_mean_ = FARTHEST * largest
        self.calibration_: dict[str, Any] = {}
        return self

    def _measure(self) -> Callable[..., float]:
        """Return R² or, for a quantile, D² of the pinball loss."""
        if self.family != "quantile":
            return super()._measure()
        from sklearn.metrics import d2_pinball_score

        return partial(d2_pinball_score, alpha=self.quantile)
