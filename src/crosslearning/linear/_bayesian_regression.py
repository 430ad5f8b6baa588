"""What Bayesian regressions of real targets share: sums, predictions, intervals."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from crosslearning.convex.evidence import evidence_fit
from crosslearning.convex.families import Gaussian, OneScore, Student
from crosslearning.convex.intervals import limits, predictive_interval
from crosslearning.convex.losses import quadratic_loss
from crosslearning.convex.moments import Moments
from crosslearning.convex.posterior import quadratic_forms
from crosslearning.convex.prediction import linear_scores
from crosslearning.convex.statistics import Statistics
from crosslearning.linear._bayesian import CrossBayesianModel
from crosslearning.linear._conformal import left_out_rows, left_out_tasks, quantile, summary
from crosslearning.linear._inputs import checked_offset
from crosslearning.tasks.estimators import TaskRegressor, as_objects

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from crosslearning.convex.design import TaskTable
    from crosslearning.convex.losses import Loss

    Array = NDArray[np.float64]

__all__ = ["BayesianRegression"]

_METHODS = ("evidence", "conformal")


class BayesianRegression(TaskRegressor, CrossBayesianModel):
    """A regression whose family has one score."""

    def predict(
        self, X: ArrayLike, tasks: ArrayLike | str | None = None, *, return_std: bool = False
    ) -> Any:
        """Predict targets.

        Parameters
        ----------
        X : array or DataFrame of shape (n_rows, n_features)
            Features.
        tasks : array of shape (n_rows,) or "center", optional
            Task label of each row; the centre predicts for tasks never seen in `fit`, and for all
            rows if ``"center"`` is given. Not needed if there is only one task, or a `task_column`.
        return_std : bool, default=False
            Whether to return the standard deviation of the targets too: noise, what is not known
            of the parameters, and for tasks never seen how much tasks differ.

        Returns
        -------
        array of shape (n_rows,), or a tuple of two
        """
        mean, sd, _ = self._predictive(X, tasks, None)
        return (mean, sd) if return_std else mean

    def predict_interval(
        self,
        X: ArrayLike,
        tasks: ArrayLike | str | None = None,
        *,
        coverage: float = 0.9,
        method: str = "evidence",
    ) -> tuple[Array, Array]:
        """Intervals that hold targets with a given probability.

        Parameters
        ----------
        X, tasks
            As in :meth:`predict`.
        coverage : float, default=0.9
            Probability that a target lies in its interval.
        method : {"evidence", "conformal"}, default="evidence"
            Trust the model; or widen its standard deviations by how far targets were from
            predictions made without them (without their task, for tasks never seen), which holds
            on average over rows even if the model is wrong.

        Returns
        -------
        lower, upper : array of shape (n_rows,)
        """
        return self._interval(X, tasks, None, coverage, method)

    def _predict(self, X: Any, tasks: Any) -> Array:
        return self._predictive(X, tasks, None)[0]

    @property
    def _checks(self) -> dict[str, Any]:
        checks: dict[str, Any] = super()._checks
        return checks | {"y_numeric": True}

    def _learn_target(self, y: NDArray[Any], weights: Array) -> None:  # noqa: ARG002
        self.target_mean_ = 0.0  # until the sums are known

    def _encoded(self, y: NDArray[Any]) -> Array:
        return np.asarray(y, dtype=np.float64) - self.target_mean_

    def _to_user(self, coef: Array, intercept: Array) -> tuple[Array, Array]:
        return coef[..., 0, :], intercept[..., 0] + self.target_mean_

    def _center(self) -> tuple[Array, Array]:
        return self.center_coef_[np.newaxis], np.array([self.center_intercept_ - self.target_mean_])

    def _fit(self, rows: TaskTable, offset: Array | None) -> Self:
        family = self._family()
        given = np.zeros(len(rows.y)) if offset is None else offset
        family.check(rows.y)
        if type(family) is Gaussian:
            sums = Statistics.of(
                rows.X,
                rows.y - given,
                rows.tasks,
                labels=np.arange(rows.n_tasks),
                sample_weight=rows.weights,
            )
            self._fit_sums(sums)
        elif isinstance(family, Student):
            if self.fit_intercept:
                self.target_mean_ = float(np.average(rows.y - given, weights=rows.weights))
            centred = replace(rows, y=rows.y - given - self.target_mean_)
            self._fit_likelihood(centred, None)
        else:
            self._fit_likelihood(rows, offset)
        self.calibration_ = self._calibrated(rows, given)
        return self

    def _fit_sums(self, statistics: Statistics) -> None:
        center = self.standardize and self.fit_intercept
        scaling = statistics.scaling(center=center, scale=self.standardize)
        moments = statistics.moments(scaling, intercept=self.fit_intercept)
        self.target_mean_ = moments.target_mean
        weights = self._weights_of_tasks()
        posterior = evidence_fit(
            moments,
            self.covariance,
            blocks=self._blocks(statistics.n_features),
            task_weights=weights,
            tol=self.tol,
            max_iter=self.max_iter,
        )
        loss = quadratic_loss(moments, posterior.noise_variance, weights)
        self._store(scaling, posterior, posterior.covariances(moments), loss, weights)

    def _fit_statistics(self, statistics: Statistics) -> Self:
        """Fit sums in place of rows."""
        self._validate_params()
        self.tasks_ = as_objects(statistics.labels.tolist())
        self.n_features_in_ = statistics.n_features
        self.total_weight_ = float(statistics.cells.weights.sum())
        self.n_tasks_fitted_ = int(np.count_nonzero(statistics.cells.weights.sum(axis=1)))
        self._fit_sums(statistics)
        self.calibration_ = {}
        return self

    def _loss(
        self,
        columns: Array,
        rows: TaskTable,
        offset: Array | None,
        dispersion: float,
        thetas: Array,
        covariances: Array,
    ) -> Loss:
        family = self._family()
        if not isinstance(family, Gaussian):
            return super()._loss(columns, rows, offset, dispersion, thetas, covariances)
        y = rows.y if offset is None else rows.y - offset
        weights = rows.weights
        if isinstance(family, Student):
            own = self._glm_rows(columns, replace(rows, y=y), None)
            squares = own.expected_squares(thetas, covariances) / dispersion
            weights = weights * family.precisions(squares)
        moments = Moments.of_rows(
            columns, y, weights, rows.tasks, rows.n_tasks, intercept=self.fit_intercept
        )
        return quadratic_loss(moments, dispersion, np.ones(rows.n_tasks))

    def _calibrated(self, rows: TaskTable, offset: Array) -> dict[str, Array]:
        """Studentised errors of rows that were left out, alone and with their tasks."""
        used = rows.weights > 0
        rows, offset = rows.take(np.flatnonzero(used)), offset[used]
        family, tasks = self._one_score(), rows.tasks
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
        if np.count_nonzero(sizes) > 1:
            errors = left_out_tasks(
                family,
                rows.y,
                columns,
                tasks,
                rows.n_tasks,
                score,
                dispersion,
                weight,
                linear_scores(vars(self), rows.X, np.full(len(tasks), -1))[:, 0] + offset,
                self.center_covariance_,
                self.covariance_,
            )
            calibration["unseen"] = summary(errors, 1.0 / sizes[tasks])
        return calibration

    def _one_score(self) -> OneScore:
        family = self._family()
        assert isinstance(family, OneScore)
        return family

    def _predictive(
        self, X: Any, tasks: Any, sample_offset: Any
    ) -> tuple[Array, Array, NDArray[np.int64]]:
        """Mean and standard deviation of targets, and the number of each row's task."""
        scores, spread, codes = self._scored(X, tasks)
        offset = checked_offset(sample_offset, len(scores))
        score = scores[:, 0] if offset is None else scores[:, 0] + offset
        family = self._one_score()
        dispersion = self.noise_sd_**2 if family.has_dispersion else 1.0
        mean, variance = family.predictive(score, spread[:, 0, 0], dispersion)
        return mean, np.sqrt(variance), codes

    def _interval(
        self, X: Any, tasks: Any, sample_offset: Any, coverage: float, method: str
    ) -> tuple[Array, Array]:
        if not 0.0 < coverage < 1.0:
            raise ValueError(f"`coverage` must lie between 0 and 1; got {coverage}.")
        if method not in _METHODS:
            raise ValueError(f"`method` must be one of {_METHODS}; got {method!r}.")
        mean, sd, codes = self._predictive(X, tasks, sample_offset)
        family = self._one_score()
        if method == "evidence":
            return predictive_interval(family, mean, sd, self.noise_sd_**2, coverage)
        if not self.calibration_:
            raise ValueError(
                "Conformal intervals need errors of rows that were left out, and this model was "
                "fitted from sums. Fit it from rows, or use method='evidence'."
            )
        seen = quantile(self.calibration_["seen"], coverage)
        unseen = quantile(self.calibration_.get("unseen", self.calibration_["seen"]), coverage)
        reach = np.where(codes >= 0, seen, unseen) * sd
        return limits(family, mean, reach)
