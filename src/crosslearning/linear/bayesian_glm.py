"""Generalised linear models for related tasks whose geometry the data choose."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from crosslearning.convex.families import Gamma, Gaussian, Poisson, Student, Tweedie
from crosslearning.linear._bayesian import CrossBayesianModel
from crosslearning.linear._bayesian_regression import BayesianRegression
from crosslearning.linear._inputs import checked_offset

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from crosslearning.convex.families import OneScore
    from crosslearning.convex.statistics import Statistics

__all__ = ["CrossBayesianGLM"]


class CrossBayesianGLM(BayesianRegression):
    """Generalised linear models for related tasks, at distances that the data find likely.

    Like :class:`CrossBayesianRidge`, for other targets, by Laplace's approximation of the
    evidence (a variational one for ``family="student"``). Predictions are means over the
    posterior.

    Parameters
    ----------
    family : {"gaussian", "student", "poisson", "gamma", "tweedie"}, default="gaussian"
        Distribution of the targets: real ones; real ones of which a few are wild; counts, which
        may vary more than Poisson's do (quasi-likelihood); positive ones whose deviation grows
        with their mean; and those of at least 0 of which many are 0. The last three have a
        logarithmic link.
    df : float, default=4.0
        Degrees of freedom of ``family="student"``.
    power : float, default=1.5
        The variance grows with this power of the mean, for ``family="tweedie"``; between 1 and 2.
    epsilon, covariance, blocks, fit_intercept, standardize, task_weights, task_column
        As in :class:`CrossBayesianRidge`.
    tol, max_iter
        As in :class:`CrossBayesianRidge`.

    Attributes
    ----------
    coef_, intercept_, coef_sd_, center_coef_, center_intercept_, task_sd_, task_intercept_sd_
        As in :class:`CrossBayesianRidge`; of the linear score.
    noise_sd_ : float
        Square root of the family's dispersion.
    tasks_, distances_, forces_, epsilon_, epsilon_max_, log_evidence_, structure_, covariance_
        As in :class:`CrossBayesianRidge`.
    kkt_residual_, n_iter_, status_
        As in :class:`CrossBayesianRidge`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> tasks = np.repeat(np.arange(50), 20)
    >>> X = rng.normal(size=(1000, 1))
    >>> counts = rng.poisson(np.exp(0.5 * X[:, 0] + rng.normal(size=50)[tasks]))
    >>> model = CrossBayesianGLM("poisson").fit(X, counts, tasks=tasks)
    >>> print(model.center_coef_.round(1), round(model.task_intercept_sd_, 0))
    [0.5] 1.0
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **CrossBayesianModel._parameter_constraints,
        "family": [StrOptions({"gaussian", "student", "poisson", "gamma", "tweedie"})],
        "df": [Interval(Real, 0, None, closed="neither")],
        "power": [Interval(Real, 1, 2, closed="neither")],
    }

    def __init__(
        self,
        family: str = "gaussian",
        *,
        df: float = 4.0,
        power: float = 1.5,
        epsilon: float = np.inf,
        covariance: str = "auto",
        blocks: ArrayLike | None = None,
        fit_intercept: bool = True,
        standardize: bool = True,
        task_weights: dict[Any, float] | None = None,
        task_column: Any = None,
        tol: float = 1e-6,
        max_iter: int = 500,
    ) -> None:
        super().__init__(
            epsilon=epsilon,
            covariance=covariance,
            blocks=blocks,
            fit_intercept=fit_intercept,
            standardize=standardize,
            task_weights=task_weights,
            task_column=task_column,
            tol=tol,
            max_iter=max_iter,
        )
        self.family = family
        self.df = df
        self.power = power

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        tasks: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        sample_offset: ArrayLike | None = None,
    ) -> Self:
        """Learn how tasks differ, and one model per task.

        Parameters
        ----------
        X, y, tasks, sample_weight
            As in :meth:`CrossBayesianRidge.fit`.
        sample_offset : array of shape (n_rows,), optional
            Added to the linear score of each row, such as the logarithm of an exposure, or the
            prediction of another model.

        Returns
        -------
        self
        """
        self._validate_params()
        rows = self._check_rows(X, y, tasks, sample_weight)
        return self._fit(rows, checked_offset(sample_offset, len(rows.y)))

    def fit_statistics(self, statistics: Statistics) -> Self:
        """Fit sums in place of rows, for ``family="gaussian"``: the same models as from rows."""
        if self.family != "gaussian":
            raise ValueError(
                f"Sums stand for the rows of family='gaussian' alone; got {self.family!r}. Use "
                "`fit` with the rows."
            )
        return self._fit_statistics(statistics)

    def fit_task(
        self,
        X: ArrayLike,
        y: ArrayLike,
        task: Any = "new",
        sample_weight: ArrayLike | None = None,
        sample_offset: ArrayLike | None = None,
    ) -> Self:
        """Posterior of a new task; see :meth:`CrossBayesianRidge.fit_task`."""
        return self._fit_task(X, y, task, sample_weight, sample_offset)

    def predict(
        self,
        X: ArrayLike,
        tasks: ArrayLike | str | None = None,
        sample_offset: ArrayLike | None = None,
        *,
        return_std: bool = False,
    ) -> Any:
        """Predict mean targets; see :meth:`CrossBayesianRidge.predict`.

        `sample_offset` is added to the linear scores.
        """
        mean, sd, _ = self._predictive(X, tasks, sample_offset)
        return (mean, sd) if return_std else mean

    def predict_interval(
        self,
        X: ArrayLike,
        tasks: ArrayLike | str | None = None,
        sample_offset: ArrayLike | None = None,
        *,
        coverage: float = 0.9,
        method: str = "evidence",
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Intervals of targets; see :meth:`CrossBayesianRidge.predict_interval`."""
        return self._interval(X, tasks, sample_offset, coverage, method)

    def _family(self) -> OneScore:
        if self.family == "student":
            return Student(self.df)
        if self.family == "tweedie":
            return Tweedie(self.power)
        plain: dict[str, OneScore] = {"gaussian": Gaussian(), "poisson": Poisson()}
        return plain.get(self.family, Gamma())
