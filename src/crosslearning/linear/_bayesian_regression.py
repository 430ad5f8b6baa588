"""Base of the Bayesian regressions: fits from sums, predictions, intervals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from crosslearning.convex.evidence.gaussian import evidence_fit
from crosslearning.convex.evidence.posterior import Gaussians
from crosslearning.convex.families import Gaussian, Quantile, Student
from crosslearning.convex.predict import (
    central_interval,
    conformal_quantile,
    linear_scores,
    possible_ends,
    summary,
)
from crosslearning.convex.solver.losses import quadratic_loss
from crosslearning.convex.sums.rows import quadratic_forms
from crosslearning.convex.sums.statistics import Statistics
from crosslearning.convex.sums.table import TaskTable
from crosslearning.linear._bayesian import CrossBayesianModel
from crosslearning.linear._conformal import left_out_rows, left_out_scores, left_out_tasks
from crosslearning.linear._estimator import checked_offset
from crosslearning.linear._targets import RealTarget
from crosslearning.linear._threads import one_blas_thread
from crosslearning.linear._update import Updated
from crosslearning.tether import Array

_METHODS = ("evidence", "conformal")
_LEAST_NOISE = 1e-3  # unit of targets of which a quantile is fitted, in their standard deviations
FARTHEST = 1.25  # times the largest target: no mean under a logarithmic link is believed beyond


class BayesianRegression(Updated, RealTarget, CrossBayesianModel):
    """A regression whose family has one score."""

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
        X, y, tasks
            As in :meth:`CrossRidge.fit`; `tasks` may have several columns, outermost first, for
            groups within groups.
        sample_weight : array of shape (n_rows,), optional
            Precision of each target: the noise variance is ``noise_sd_**2 / weight``.
        sample_offset : array of shape (n_rows,), optional
            Added to the linear predictor, such as the logarithm of an exposure or the prediction
            of another model.
        """
        self._validate_params()
        rows = self._check_rows(X, y, tasks, sample_weight)
        self._fit(rows, checked_offset(sample_offset, len(rows.y)))
        return self

    def fit_statistics(
        self, statistics: Statistics, *, tasks: Any = None, learn_from: int | None = None
    ) -> Self:
        """Fit from sums instead of rows; the models are the same.

        Of groups within groups, `tasks` has a row for each task of the sums, in the order of
        ``statistics.labels``, and a column for each level, outermost first. With `learn_from`,
        variances of tasks that are not in groups are learned from at most that many evenly spaced
        tasks.
        """
        if type(self._family()) is not Gaussian:
            raise ValueError(
                f"Fitting from sums needs family='gaussian'; got {self.family!r}. Fit from rows "
                "instead."
            )
        self._validate_params()
        self._check_statistics(statistics)
        if tasks is not None:
            self._name_levels(tasks, statistics.n_tasks)
        self._fit_sums(statistics, learn_from)
        self.calibration_: dict[str, Array] = {}
        self.largest_mean_ = np.inf
        return self

    def predict(
        self,
        X: ArrayLike,
        tasks: ArrayLike | str | None = None,
        sample_offset: ArrayLike | None = None,
        *,
        return_std: bool = False,
    ) -> Any:
        """Predict mean targets.

        Parameters
        ----------
        X, tasks
            As in :meth:`CrossRidge.predict`. Of groups within groups, `tasks` are the columns of
            `fit`, matched by name, or a tuple of labels per row.
        sample_offset : array of shape (n_rows,), optional
            Added to the linear predictor.
        return_std : bool, default=False
            Whether to return the standard deviation of the targets too. It includes the noise, the
            uncertainty of the parameters and, for new tasks, the differences between tasks.
        """
        predictor, features, codes = self._predictor(X, tasks)
        rows = features, codes, checked_offset(sample_offset, len(features))
        return predictor.moments(*rows) if return_std else predictor.means(*rows)

    def predict_interval(
        self,
        X: ArrayLike,
        tasks: ArrayLike | str | None = None,
        sample_offset: ArrayLike | None = None,
        *,
        coverage: float = 0.9,
        method: str = "evidence",
    ) -> tuple[Array, Array]:
        """Return the lower and upper ends of prediction intervals.

        Parameters
        ----------
        X, tasks, sample_offset
            As in :meth:`predict`.
        coverage : float, default=0.9
            Probability that a target lies in its interval.
        method : {"evidence", "conformal"}, default="evidence"
            Trust the model; or rescale its standard deviations by the errors of leave-one-out
            predictions (leave-one-task-out for new tasks), so that coverage holds on average over
            rows even if the model is wrong.
        """
        if not 0.0 < coverage < 1.0:
            raise ValueError(f"`coverage` must lie between 0 and 1; got {coverage}.")
        if method not in _METHODS:
            raise ValueError(f"`method` must be one of {_METHODS}; got {method!r}.")
        family = self._family()
        if isinstance(family, Quantile):
            raise ValueError(
                f"Intervals need two quantiles; got quantile={family.quantile} alone. Fit 0.05 and "
                "0.95, for example: their predictions are the ends of 90 % intervals."
            )
        predictor, features, codes = self._predictor(X, tasks)
        offset = checked_offset(sample_offset, len(features))
        mean, sd = predictor.moments(features, codes, offset)
        if method == "evidence":
            return central_interval(family, mean, sd, predictor.dispersion, coverage)
        if not self.calibration_:
            raise ValueError(
                "Conformal intervals need errors on held-out rows, but this model was fitted from "
                "sums. Fit it from rows, or use method='evidence'."
            )
        errors_of_known = self.calibration_["seen"]
        errors_of_new = self.calibration_.get("unseen", errors_of_known)
        quantiles = [conformal_quantile(e, coverage) for e in (errors_of_known, errors_of_new)]
        reach = np.where((codes >= 0) & (codes < len(self.tasks_)), *quantiles) * sd
        return possible_ends(family, mean - reach, mean + reach)

    def _learn_target(self, y: NDArray[Any], weights: Array) -> None:  # noqa: ARG002
        self.target_mean_, self.target_scale_ = 0.0, 1.0  # until more is known

    def _fit(self, rows: TaskTable, offset: Array | None = None) -> None:
        family, offset = self._family(), checked_offset(offset, len(rows.y))
        family.check(rows.y)
        if type(family) is Gaussian:
            self._fit_sums(replace(rows, y=rows.y - offset).sums)
        elif isinstance(family, Student):
            if self.fit_intercept:
                self.target_mean_ = float(np.average(rows.y - offset, weights=rows.weights))
            self._fit_likelihood(replace(rows, y=rows.y - offset - self.target_mean_), None)
        elif isinstance(family, Quantile):
            self._fit_quantile(replace(rows, y=rows.y - offset), family)
        else:
            self._fit_likelihood(rows, offset)
        self.largest_mean_ = np.inf
        if not isinstance(family, Gaussian):
            scaled = (rows.y * np.exp(-offset))[rows.weights > 0]
            self.largest_mean_ = FARTHEST * float(scaled.max())
        alone = isinstance(family, Quantile)
        self.calibration_ = {} if alone else self._calibrated(rows, offset)

    def _fit_quantile(self, rows: TaskTable, family: Quantile) -> None:
        """Fit targets measured from a quantile of a robust fit's errors, in units of its noise.

        Then shift all models so that of the targets, each left out, the asked share is below.
        """
        how: Any = {"weights": rows.weights, "method": "inverted_cdf"}
        robust = clone(self).set_params(family="student", epsilon=np.inf)
        robust.tasks_, robust.target_mean_ = self.tasks_, 0.0
        robust._fit(rows)
        self.target_scale_ = max(robust.noise_sd_, _LEAST_NOISE * float(np.std(rows.y)))
        if self.fit_intercept:
            errors = rows.y - linear_scores(vars(robust), rows.X, rows.tasks)[:, 0]
            center = robust.center_intercept_ + robust.center_coef_ @ robust.feature_mean_
            self.target_mean_ = float(center + np.quantile(errors, family.quantile, **how))
        rows = replace(rows, y=(rows.y - self.target_mean_) / self.target_scale_)
        self._fit_likelihood(rows, None)
        if self.fit_intercept:
            columns = self._scaling().columns(rows.X, intercept=True)
            score = self._encoded(linear_scores(vars(self), rows.X, rows.tasks)[:, 0])
            variance = quadratic_forms(columns, rows.tasks, self.task_covariances_)
            without, _ = left_out_scores(family, rows.y, score, variance, rows.weights)
            shift = float(np.quantile(rows.y - without, family.quantile, **how))
            self.target_mean_ += self.target_scale_ * shift
            self.intercept_ += self.target_scale_ * shift
            self.center_intercept_ += self.target_scale_ * shift

    def _fit_task(self, rows: TaskTable, sample_offset: Any = None) -> None:
        self._fit_new(rows, checked_offset(sample_offset, len(rows.y)) / self.target_scale_)

    @one_blas_thread()
    def _fit_sums(self, statistics: Statistics, learn_from: int | None = None) -> None:
        scaling = self._scaling_of(statistics)
        moments = statistics.moments(scaling, intercept=self.fit_intercept)
        self.target_mean_, self.target_scale_ = moments.target_mean, 1.0
        kept = statistics.relabelled(np.arange(statistics.n_tasks))
        if self.groups_:
            self._fit_nested(scaling, moments)
            self._statistics = kept
            return
        options = self._evidence_options(statistics.n_features)
        posterior = evidence_fit(moments, learn_from=learn_from, **options)
        weights = options["task_weights"]
        loss = quadratic_loss(moments, posterior.noise_variance, weights)
        self._store(scaling, posterior, Gaussians.exact(posterior, moments), loss, weights)
        self._statistics, self._gains = kept, None

    def _calibrated(self, rows: TaskTable, offset: Array) -> dict[str, Array]:
        """Studentised errors of held-out rows and of held-out tasks."""
        used = np.flatnonzero(rows.weights > 0)
        rows, offset = rows.take(used), offset[used]
        family, tasks = self._family(), rows.tasks
        columns = self._scaling().columns(rows.X, intercept=self.fit_intercept)
        score = linear_scores(vars(self), rows.X, tasks)[:, 0] + offset
        variance = quadratic_forms(columns, tasks, self.task_covariances_)
        dispersion, weight = np.ones(len(score)), rows.weights
        if family.has_dispersion:
            dispersion, weight = self.noise_sd_**2 / rows.weights, np.ones(len(score))
        if isinstance(family, Student):
            weight = family.precisions(((rows.y - score) ** 2 + variance) / dispersion)
        errors = left_out_rows(family, rows.y, score, variance, dispersion, weight)
        calibration = {"seen": summary(errors, np.ones(len(errors)))}
        sizes = np.bincount(tasks, minlength=rows.n_tasks)
        if np.count_nonzero(sizes) > 1 and not self.groups_:
            center_score = linear_scores(vars(self), rows.X, np.full(len(tasks), -1))[:, 0] + offset
            errors = left_out_tasks(
                family, rows, columns, score, dispersion, weight, center_score,
                self.center_covariance_, self.covariance_,
            )  # fmt: skip
            calibration["unseen"] = summary(errors, 1.0 / sizes[tasks])
        return calibration
