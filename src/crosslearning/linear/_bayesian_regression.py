"""Base of the Bayesian regressions: fits from sums, updates, predictions, intervals."""

from copy import copy
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from crosslearning.convex.evidence.gaussian import evidence_fit
from crosslearning.convex.evidence.marginal import symmetric_root, task_covariances
from crosslearning.convex.families import Gaussian, Quantile, Student
from crosslearning.convex.predict import conformal_quantile, linear_scores, summary
from crosslearning.convex.sums.rows import quadratic_forms
from crosslearning.convex.sums.statistics import Statistics
from crosslearning.convex.sums.table import TaskTable
from crosslearning.linear._bayesian import CrossBayesianModel
from crosslearning.linear._estimator import RealTarget, checked_offset, one_blas_thread
from crosslearning.tasks.estimators import codes_to_fit, codes_to_predict, separate_labels
from crosslearning.tasks.labels import TaskIndex, check_tasks, has_levels, paths_like
from crosslearning.tether import Array, Indices

_LEAST_REST = 1e-6  # of what is left of a row's own variance without it
_LEAST_NOISE = 1e-3  # unit of targets of which a quantile is fitted, in their standard deviations
FARTHEST = 1.25  # times the largest target: no mean under a logarithmic link is believed beyond


class BayesianRegression(RealTarget, CrossBayesianModel):
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
            As in :meth:`CrossRidge.fit`.
        sample_weight, sample_offset : array of shape (n_rows,), optional
            Precision of each target: the noise variance is ``noise_sd_**2 / weight``; and what is
            added to the linear predictor, such as a log exposure or another model's prediction.
        """
        self._validate_params()
        self._fit(self._check_rows(X, y, tasks, sample_weight), sample_offset)
        return self

    def fit_statistics(
        self, statistics: Statistics, *, tasks: Any = None, learn_from: int | None = None
    ) -> Self:
        """Fit from sums instead of rows; the models are the same.

        Of groups within groups, `tasks` has a row for each of ``statistics.labels``, and a column
        for each level, outermost first. With `learn_from`, variances of tasks that are not in
        groups are learned from at most that many evenly spaced tasks.
        """
        if type(self._family()) is not Gaussian:
            raise ValueError(
                f"Fitting from sums needs family='gaussian'; got {self.family!r}. Fit from rows."
            )
        self._check_statistics(statistics)
        if tasks is not None:
            self._name_levels(tasks, statistics.n_tasks)
        self._fit_sums(statistics, learn_from)
        return self

    def update(
        self,
        X: ArrayLike,
        y: ArrayLike,
        tasks: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        sample_offset: ArrayLike | None = None,
    ) -> Self:
        """Add rows, of tasks of the fit or of new ones; the model is that of a fit to all rows.

        The sums of the rows, which a model of Gaussian targets keeps, are enough. Parameters are
        those of :meth:`fit`; several columns of `tasks` are matched by name. If an update fails,
        the model stays as it was. Intervals with ``method="conformal"`` need another fit.
        """
        check_is_fitted(self)
        self._validate_params()
        kept = self._kept_statistics()
        X, tasks = separate_labels(X, tasks, self.task_column)
        array, target, weights = self._checked(X, y, sample_weight, reset=False)
        new, codes = self._codes_to_add(tasks, len(array))
        labels = [*self.tasks_.tolist(), *new.tolist()]
        distinct, position = codes_to_fit(labels, len(labels))
        before, number = np.split(position, [kept.n_tasks])
        total = kept.relabelled(before) + Statistics.of(
            array,
            target - checked_offset(sample_offset, len(target)),
            number[codes],
            labels=np.arange(len(distinct)),
            sample_weight=weights,
        )
        updated = copy(self)
        updated.tasks_ = distinct
        if self.groups_:
            updated._store_groups(self.level_names_, distinct.tolist())
        updated._count(total.task_weights, total.counts)
        updated._fit_sums(total)
        self.__dict__ = updated.__dict__  # all at once, as nothing has failed
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
        X, tasks, sample_offset
            As in :meth:`CrossRidge.predict` and :meth:`fit`.
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
            Trust the model; or rescale its standard deviations by leave-one-out errors, so that
            coverage holds on average over rows of known tasks even if the model is wrong.
        """
        if not 0.0 < coverage < 1.0:
            raise ValueError(f"`coverage` must lie between 0 and 1; got {coverage}.")
        if method not in ("evidence", "conformal"):
            raise ValueError(f"`method` must be 'evidence' or 'conformal'; got {method!r}.")
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
            tails = np.array([[0.5 * (1.0 - coverage)], [0.5 * (1.0 + coverage)]])
            lower, upper = family.quantiles(mean, sd, predictor.dispersion, tails)
            return lower, upper
        if not self.calibration_.size:
            raise ValueError(
                "Conformal intervals need errors on held-out rows, but this model was fitted from "
                "sums. Fit it from rows, or use method='evidence'."
            )
        reach = conformal_quantile(self.calibration_, coverage) * sd
        lower, upper = family.possible_ends(mean - reach, mean + reach)
        return lower, upper

    def _learn_target(self, source: Any, y: NDArray[Any], weights: Array) -> None:  # noqa: ARG002
        self.target_mean_, self.target_scale_ = 0.0, 1.0  # until more is known
        self.calibration_, self.largest_mean_ = np.empty(0), np.inf

    def _fit(self, rows: TaskTable, sample_offset: Any = None) -> None:
        family, offset = self._family(), checked_offset(sample_offset, len(rows.y))
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
        if not isinstance(family, Gaussian):
            scaled = (rows.y * np.exp(-offset))[rows.weights > 0]
            self.largest_mean_ = FARTHEST * float(scaled.max())
        if not isinstance(family, Quantile):
            self.calibration_ = self._left_out_errors(rows, offset)

    def _fit_quantile(self, rows: TaskTable, family: Quantile) -> None:
        """Fit targets measured from a quantile of a robust fit's errors, in units of its noise.

        Then shift all models so that of the targets, each left out, the asked share is below.
        """
        how: Any = {"weights": rows.weights, "method": "inverted_cdf"}
        robust = clone(self).set_params(family="student", epsilon=np.inf)
        robust.tasks_, robust.target_mean_ = self.tasks_, 0.0
        robust.n_features_in_ = self.n_features_in_
        robust._fit(rows)
        self.target_scale_ = max(robust.noise_sd_, _LEAST_NOISE * float(np.std(rows.y)))
        if self.fit_intercept:
            errors = rows.y - linear_scores(vars(robust), rows.X, rows.tasks)[:, 0]
            center = robust.center_intercept_ + robust.center_coef_ @ robust.feature_mean_
            self.target_mean_ = float(center + np.quantile(errors, family.quantile, **how))
        rows = replace(rows, y=(rows.y - self.target_mean_) / self.target_scale_)
        self._fit_likelihood(rows, None)
        if self.fit_intercept:
            score = self._encoded(linear_scores(vars(self), rows.X, rows.tasks)[:, 0])
            without, _ = self._left_out_scores(rows, score, rows.weights)
            shift = self.target_scale_ * np.quantile(rows.y - without, family.quantile, **how)
            self.target_mean_ += float(shift)
            self.intercept_ += shift
            self.center_intercept_ += float(shift)

    def _fit_task(self, rows: TaskTable, sample_offset: Any = None) -> None:
        offset = checked_offset(sample_offset, len(rows.y)) / self.target_scale_
        super()._fit_task(rows, offset)

    @one_blas_thread()
    def _fit_sums(self, statistics: Statistics, learn_from: int | None = None) -> None:
        """Fit Gaussian targets; the sums are kept for updates and contrasts."""
        scaling = self._scaling_of(statistics)
        moments = statistics.moments(scaling, intercept=self.fit_intercept)
        self.target_mean_, self.target_scale_ = moments.target_mean, 1.0
        self.calibration_, self.largest_mean_ = np.empty(0), np.inf
        options = {**self._evidence_options(), "learn_from": learn_from}
        fit = evidence_fit(moments, groups=self._groups(), **options)
        self._store(scaling, fit, moments)
        self._statistics = statistics.relabelled(np.arange(statistics.n_tasks))
        self._gains = self._gains if self.groups_ else None

    def _codes_to_add(self, tasks: Any, n_rows: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Return the distinct labels of new rows, and the position of each row's."""
        if tasks is None:
            return self.tasks_, codes_to_predict(self.tasks_, None, n_rows)
        if self.groups_:
            return codes_to_fit(paths_like(tasks, n_rows, self.level_names_, self.tasks_), n_rows)
        if has_levels(tasks):
            raise ValueError(
                f"`tasks` must be one column, as in the fit; got {tasks.shape[1]} columns. Fit all "
                "rows together to add levels."
            )
        TaskIndex(tuple(self.tasks_)).encode(check_tasks(tasks, n_rows), strict=True)
        return codes_to_fit(tasks, n_rows)

    def _kept_statistics(self) -> Statistics:
        """Return the sums of the fit, by the position of a task."""
        kept: Statistics | None = vars(self).get("_statistics")
        if kept is None:
            raise ValueError(
                f"An update of {self!r} needs the sums of the rows, which only models of Gaussian "
                "targets keep, and models of `fit_task` do not. Fit all rows together."
            )
        if kept.n_rows != self.n_rows_fitted_:
            raise ValueError(
                f"The statistics of the fit had {self.n_rows_fitted_} rows and now have "
                f"{kept.n_rows}. Use `fit_statistics` again, or fit a copy of statistics that grow."
            )
        return kept.total()

    def _gains_of(self, tasks: Indices) -> Array:
        if vars(self).get("_statistics") is None or self.groups_:
            return super()._gains_of(tasks)
        few, noise = self._kept_statistics().take(tasks), self.noise_sd_**2
        intercept, mean = self.fit_intercept, self.target_mean_
        moments = few.moments(self._scaling(), intercept=intercept, target_mean=mean)
        root = symmetric_root(self.covariance_ / noise)
        return task_covariances(moments.products, root, self.center_covariance_ / noise)[1]

    def _left_out_errors(self, rows: TaskTable, offset: Array) -> Array:
        """Studentised leave-one-row-out errors, at the variances of the fit."""
        used = np.flatnonzero(rows.weights > 0)
        rows, offset, family = rows.take(used), offset[used], self._family()
        score = linear_scores(vars(self), rows.X, rows.tasks)[:, 0] + offset
        dispersion, counts = np.ones(len(score)), rows.weights
        if family.has_dispersion:
            dispersion = self.noise_sd_**2 / rows.weights
            counts = 1.0 / dispersion
        mean, variance = family.predictive(*self._left_out_scores(rows, score, counts), dispersion)
        return summary(np.abs(rows.y - mean) / np.sqrt(variance))

    def _left_out_scores(self, rows: TaskTable, score: Array, counts: Array) -> tuple[Any, Any]:
        """Return means and variances of the scores of rows, each without that row itself."""
        family = self._family()
        columns = self._scaling().columns(rows.X, intercept=self.fit_intercept)
        variance = quadratic_forms(columns, rows.tasks, self.task_covariances_)
        slope, curvature, _ = family.derivatives(rows.y, score)
        if isinstance(family, Student):
            squares = counts * (rows.y - score) ** 2
            precisions = family.precisions(squares + counts * variance)
            slope, curvature = precisions * slope, family.variance_of_slopes(precisions, squares)
        rest = np.maximum(1.0 - counts * curvature * variance, _LEAST_REST)
        return score - counts * slope * variance / rest, variance / rest
