"""Summaries of fitted Bayesian models, as tables, and contrasts of tasks."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtri
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from crosslearning.convex.evidence.posterior import VarianceLaw
from crosslearning.tasks.estimators import CENTER
from crosslearning.tether import Array, Indices

_UNDETERMINED = 1e-11  # share of information from rows, below which it is rounding


@dataclass(frozen=True, eq=False, kw_only=True)
class Summary:
    """What a fitted Bayesian model says about all tasks together.

    Attributes
    ----------
    frame : DataFrame
        One row per coefficient of the centre, in the units of the features as given, the intercept
        last, where all features are 0 (of several classes, these rows for each): ``estimate``,
        which is not shrunk towards 0 as ``center_coef_`` is, ``std_error``, ``lower`` and
        ``upper``; and the standard deviation between tasks, ``task_sd``, ``task_sd_lower`` and
        ``task_sd_upper``, empty where the rows do not determine it. Groups within groups have these
        three for each level, with its name in place of ``task``.
    model, structure, coverage : str, str, float
        Class of the estimator, structure of the covariance, and probability of the intervals.
    n_rows, n_tasks, n_groups : int, int, dict of int
        Numbers of rows, of tasks, and of units of each level by its name, outermost first.
    noise_sd, log_evidence : float
        Standard deviation of the noise (square root of the dispersion), NaN if the family has none;
        and log evidence, to compare models of the same targets, NaN for "poisson", "tweedie" and
        "quantile", whose quasi-likelihood is not comparable.
    shapes : dict of array
        What else the family has learned, by name: ``overdispersion`` or ``thresholds``.
    """

    frame: pd.DataFrame
    model: str
    structure: str
    n_rows: int
    n_tasks: int
    n_groups: dict[str, int]
    noise_sd: float
    log_evidence: float
    shapes: dict[str, Array]
    coverage: float

    def __repr__(self) -> str:
        units = [f"{number:,} {name}s" for name, number in self.n_groups.items()]
        data = [self.model, f"{self.n_rows:,} rows", *units, f"covariance {self.structure!r}"]
        model = [f"{100 * self.coverage:g} % intervals"]
        if np.isfinite(self.log_evidence):
            model.append(f"log evidence {self.log_evidence:,.2f}")
        if np.isfinite(self.noise_sd):
            model.append(f"noise sd {self.noise_sd:.4g}")
        for name, values in self.shapes.items():
            model.append(" ".join([name, *(f"{value:.4g}" for value in np.ravel(values))]))
        table = self.frame.to_string(float_format="{:.4g}".format, na_rep="")
        return "\n".join([", ".join(data), ", ".join(model), "", table])


class Inference:
    """Adds `summary` and `contrast` to the Bayesian estimators."""

    groups_: Sequence[NDArray[Any]] = ()  # of each level but the innermost, outermost first
    level_names_: Sequence[str] = ("task",)
    epsilon_: Any
    epsilon_max_: Any
    _gains: Any  # of the units of each level, tasks first

    def summary(self: Any, *, coverage: float = 0.95) -> Summary:
        """Summarise the centre and the differences between tasks, as a table that prints.

        Estimates and standard errors of the centre are those of generalised least squares at the
        learned variances, as of a mixed model, without the bound of a finite `epsilon`. The learned
        prior of the centre, which is for predictions, would make intervals of weak effects too
        short to cover them; it is kept where the rows determine nothing. Intervals of standard
        deviations between tasks take their estimates for multiples of chi-squared variables, which
        is exact for equally large tasks and a known noise. Where the rows do not determine one, as
        with one row per task, it has no interval, with a warning.

        Parameters
        ----------
        coverage : float, default=0.95
            Probability of the intervals.
        """
        self._check_inference(coverage)
        directions = self._user_directions()
        moved, covariance = self._without_prior()
        center = self._stacked(self.center_coef_, self.center_intercept_) + directions @ moved
        frame = self._estimates(center, covariance, coverage)
        if np.isnan(self.task_variance_law_).any():
            warnings.warn(
                "The rows do not determine all standard deviations between tasks, which have no "
                "intervals: with one row per task, differences cannot be told apart from noise.",
                UserWarning,
                stacklevel=2,
            )
        levels = self.covariance_.reshape(-1, *self.center_covariance_.shape)
        laws = np.split(self.task_variance_law_, len(levels), axis=1)
        for name, covariance, law in zip(self.level_names_, levels, laws, strict=True):
            lower, upper = VarianceLaw(*law).interval_along(directions, covariance, coverage)
            frame[f"{name}_sd"] = np.sqrt(_variances(directions, covariance))
            frame[f"{name}_sd_lower"], frame[f"{name}_sd_upper"] = np.sqrt(lower), np.sqrt(upper)
        family, sizes = self._family(), [*map(len, self.groups_), self.n_tasks_fitted_]
        return Summary(
            frame=frame,
            model=type(self).__name__,
            structure=self.structure_,
            n_rows=self.n_rows_fitted_,
            n_tasks=self.n_tasks_fitted_,
            n_groups=dict(zip(self.level_names_, sizes, strict=True)),
            noise_sd=self.noise_sd_ if family.has_dispersion else np.nan,
            log_evidence=np.nan if family.quasi else self.log_evidence_,
            shapes={name[:-1]: getattr(self, name) for name in family.learned()},
            coverage=coverage,
        )

    def _without_prior(self: Any) -> tuple[Array, Array]:
        """How the centre moves without its prior, and its covariance then, in parameters."""
        covariance = self._with_thresholds(self.center_covariance_)
        roots = np.append(1.0 / self.center_sd_, np.zeros(int(self.fit_intercept)))
        roots = np.repeat(roots, self._family().n_scores)  # of the precision of the prior
        shares, axes = np.linalg.eigh(roots[:, None] * covariance * roots)
        determined = 1.0 - shares > _UNDETERMINED
        gains = np.divide(1.0, 1.0 - shares, out=np.zeros_like(shares), where=determined)
        pulled = covariance * roots @ axes
        covariance = covariance + (pulled * gains) @ pulled.T
        return covariance @ (roots**2 * self._center_vector()), covariance

    def _check_inference(self: Any, coverage: float) -> None:
        if not 0.0 < coverage < 1.0:
            raise ValueError(f"`coverage` must lie between 0 and 1; got {coverage}. Use 0.95.")
        check_is_fitted(self)
        if np.any(self.epsilon_ < self.epsilon_max_):
            warnings.warn(
                f"Standard errors are those of the posterior without the bound epsilon="
                f"{self.epsilon!r}, which some tasks have reached; estimates are those within it.",
                UserWarning,
                stacklevel=3,
            )

    def contrast(
        self: Any, weights: Mapping[Any, float], *, coverage: float = 0.95
    ) -> pd.DataFrame:
        """Estimate a weighted sum of the models of some tasks, such as a difference of two.

        Parameters
        ----------
        weights : dict or Series
            Weight of each task, by label: ``{"a": 1, "b": -1}`` for a minus b. The label "center"
            stands for the centre: ``{"a": 1, "center": -1}``.
        coverage : float, default=0.95
            Probability of the intervals.

        Returns
        -------
        DataFrame
            One row per coefficient, the intercept last: ``estimate``, ``std_error`` (posterior,
            without the bound of a finite `epsilon`), ``lower`` and ``upper``.
        """
        self._check_inference(coverage)
        tasks, w, of_center = _weights_of(weights, self.tasks_.tolist())
        models = zip(self.coef_[tasks], self.intercept_[tasks], strict=True)
        estimate = w @ np.array([self._stacked(*model) for model in models])
        estimate += of_center * self._stacked(self.center_coef_, self.center_intercept_)
        covariance = self._contrast_covariance(tasks, w, of_center)
        return pd.DataFrame(self._estimates(estimate, covariance, coverage))

    def _contrast_covariance(self: Any, tasks: Indices, weights: Array, of_center: float) -> Array:
        """Return the covariance of a weighted sum; given their parents, units are independent."""
        levels = self.covariance_.reshape(-1, *self.center_covariance_.shape)[::-1]
        gains, shares = self._gains_of(tasks), weights[:, None, None] * np.eye(levels.shape[1])
        units, parents, result = tasks, self._hierarchy().parents, 0.0
        for level, between in enumerate(levels):
            if level:
                gains = self._gains[level][units]
            result = result + np.sum(shares @ gains @ between @ shares.swapaxes(1, 2), axis=0)
            above, number = np.unique(parents[level][units], return_inverse=True)
            summed = np.zeros((len(above), *shares.shape[1:]))
            np.add.at(summed, number, shares @ gains)
            shares, units = summed, above
        share = shares[0] + of_center * np.eye(levels.shape[1])
        covariance = result + share @ self.center_covariance_ @ share.T
        factors = np.append(weights, of_center)
        return np.asarray(self._with_thresholds(covariance, [*tasks, -1], factors))

    def _with_thresholds(
        self: Any, covariance: Array, units: Sequence[int] = (-1,), weights: Any = (1.0,)
    ) -> Array:
        """Add what a weighted sum of units, the centre last, owes to learned thresholds."""
        if "threshold_covariance_" not in vars(self):
            return covariance
        slopes = np.tensordot(weights, self.threshold_slopes_[list(units)], 1)
        return np.asarray(covariance + slopes @ self.threshold_covariance_ @ slopes.T)

    def _gains_of(self: Any, tasks: Indices) -> Array:
        """Return I - V_i A_i of some tasks: with their parents they have covariances gains_i K."""
        if vars(self).get("_gains") is None:
            raise ValueError(
                "Contrasts need the joint posterior of the tasks, which a model of `fit_task` does "
                "not keep. Call `contrast` of the model that `fit` returned."
            )
        return np.asarray(self._gains[0][tasks])

    def _user_directions(self: Any) -> Array:
        """Map from parameters to coefficients as given and intercepts, one row each."""
        columns = np.diag(1.0 / self.feature_scale_)
        if self.fit_intercept:
            columns = np.pad(columns, (0, 1))
            columns[-1] = np.append(-self.feature_mean_ / self.feature_scale_, 1.0)
        basis = self._score_basis()
        rows = np.einsum("qk,ij->kijq", basis, columns)  # scores as given, then coefficients
        return np.asarray(rows.reshape(basis.shape[1] * len(columns), -1))

    def _score_basis(self: Any) -> Array:
        """Map from scores of the fit to scores as given."""
        q = self._family().n_scores
        return np.asarray(self._to_user(np.eye(q)[:, :, None], np.zeros((q, q)))[0].reshape(q, -1))

    def _deviations(self: Any, covariances: Array) -> tuple[Array, Array]:
        """Return standard deviations of coefficients and of intercepts at the mean features."""
        p, q = len(self.feature_mean_), self._family().n_scores
        scales = np.append(self.feature_scale_, np.ones(int(self.fit_intercept)))
        blocks = covariances.reshape(len(covariances), len(scales), q, len(scales), q)
        basis = self._score_basis()
        variances = np.einsum("njqjs,qk,sk->nkj", blocks, basis, basis, optimize=True) / scales**2
        sds = np.sqrt(np.maximum(variances, 0.0))
        sds = sds.reshape(len(sds), *self.center_coef_.shape[:-1], -1)
        return sds[..., :p], sds[..., p:].sum(axis=-1)

    def _stacked(self: Any, coef: Array, intercept: Any) -> Array:
        """One vector of coefficients and intercept for each score as given."""
        coef = np.atleast_2d(coef)
        if self.fit_intercept:
            coef = np.column_stack([coef, np.reshape(intercept, -1)])
        return np.asarray(coef.ravel())

    def _estimates(self: Any, estimate: Array, covariance: Array, coverage: float) -> pd.DataFrame:
        names = [*_check_feature_names_in(self), *(["intercept"] if self.fit_intercept else [])]
        index = pd.Index(names)
        if len(estimate) > len(names):
            index = pd.MultiIndex.from_product([self.classes_, names], names=["class", None])
        error = np.sqrt(np.maximum(_variances(self._user_directions(), covariance), 0.0))
        reach = ndtri(0.5 * (1.0 + coverage)) * error
        columns = np.column_stack([estimate, error, estimate - reach, estimate + reach])
        return pd.DataFrame(columns, index, ["estimate", "std_error", "lower", "upper"])


def _weights_of(weights: Any, labels: list[Any]) -> tuple[Indices, Array, float]:
    """Return numbers of tasks, their weights, and that of the centre."""
    by_label = dict(weights.items()) if hasattr(weights, "items") else {}
    repeated = 0 < len(by_label) < len(weights)
    of_center = 0.0 if CENTER in labels else float(by_label.pop(CENTER, 0.0))
    unknown = [label for label in by_label if label not in labels]
    if unknown or not by_label or repeated:
        raise ValueError(
            "`weights` must be a dict or a Series of numbers, by distinct labels of `tasks_`, for "
            f"at least one task; got {unknown[0] if unknown else weights!r}, not a task of the fit."
        )
    values = np.array(list(by_label.values()), dtype=np.float64)
    if not np.isfinite([*values, of_center]).all():
        raise ValueError(f"`weights` must be finite; got {weights!r}. Use 0 to leave a task out.")
    return np.array([labels.index(label) for label in by_label], dtype=np.intp), values, of_center


def _variances(directions: Array, covariance: Array) -> Array:
    return np.asarray(np.sum(directions @ covariance * directions, axis=1))
