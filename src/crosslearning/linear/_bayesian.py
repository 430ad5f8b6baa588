"""What the linear models with a learned geometry share."""

from __future__ import annotations

import warnings
from abc import ABCMeta, abstractmethod
from dataclasses import replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from crosslearning.convex._solver import ConvexSolution
from crosslearning.convex._working import GLMRows
from crosslearning.convex.bounded import bounded, bounded_tasks
from crosslearning.convex.design import TaskTable
from crosslearning.convex.evidence import COVARIANCES
from crosslearning.convex.laplace import GLMFit, laplace_fit
from crosslearning.convex.losses import FamilyLoss
from crosslearning.convex.metric import Metric
from crosslearning.convex.moments import Moments
from crosslearning.convex.posterior import EvidenceFit, EvidenceStatus, score_covariances
from crosslearning.convex.prediction import linear_scores
from crosslearning.convex.scaling import Scaling
from crosslearning.exceptions import ConvergenceWarning
from crosslearning.linear._inputs import TaskRows, checked_offset, checked_weights
from crosslearning.linear.persistence import Saved
from crosslearning.tasks.estimators import as_objects, separate_labels

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from crosslearning.convex.families import Family
    from crosslearning.convex.losses import Loss

__all__ = ["CrossBayesianModel"]

_AIM = 1e-3  # the solver aims below the tolerance that it promises
_CERTAIN = 1e-8  # largest relative KKT residual that is no reason for a warning


class CrossBayesianModel(TaskRows, Saved, BaseEstimator, metaclass=ABCMeta):  # type: ignore[misc]
    """Base of the estimators; see :class:`CrossBayesianRidge`."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "epsilon": [Interval(Real, 0, None, closed="both")],
        "covariance": [StrOptions(set(COVARIANCES))],
        "blocks": ["array-like", None],
        "fit_intercept": ["boolean"],
        "standardize": ["boolean"],
        "task_weights": [dict, None],
        "task_column": "no_validation",
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        *,
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
        self.epsilon = epsilon
        self.covariance = covariance
        self.blocks = blocks
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.task_weights = task_weights
        self.task_column = task_column
        self.tol = tol
        self.max_iter = max_iter

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        tasks: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn how tasks differ, and one model per task.

        Parameters
        ----------
        X : array or DataFrame of shape (n_rows, n_features)
            Features; sparse matrices are refused.
        y : array of shape (n_rows,)
            Targets.
        tasks : array of shape (n_rows,), optional
            Task label of each row: any hashable values. Without it, and without `task_column`,
            all rows are one task.
        sample_weight : array of shape (n_rows,), optional
            Precision of each row's target: noise has the variance ``noise_sd_**2 / weight``.
            Where there is no noise to scale (classes), how many rows each stands for.

        Returns
        -------
        self
        """
        self._validate_params()
        return self._fit(self._check_rows(X, y, tasks, sample_weight), None)

    @abstractmethod
    def _fit(self, rows: TaskTable, offset: NDArray[np.float64] | None) -> Self:
        """Fit checked rows."""

    @abstractmethod
    def _family(self) -> Family:
        """Distribution of the encoded targets."""

    @abstractmethod
    def _to_user(
        self, coef: NDArray[np.float64], intercept: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Turn scores' coefficients and intercepts into those that users see."""

    @abstractmethod
    def _center(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return coefficients and intercepts of the centre's scores: the inverse of `_to_user`."""

    def _fit_likelihood(self, rows: TaskTable, offset: NDArray[np.float64] | None) -> Self:
        """Fit rows of any family by Laplace's approximation."""
        scaling = Scaling.of(
            rows.X,
            rows.weights,
            center=self.standardize and self.fit_intercept,
            scale=self.standardize,
        )
        columns = scaling.columns(rows.X, intercept=self.fit_intercept)
        own = self._weights_of_tasks()
        fit = laplace_fit(
            columns,
            rows.y.astype(np.float64),
            rows.tasks,
            rows.n_tasks,
            family=self._family(),
            intercept=self.fit_intercept,
            weights=rows.weights,
            offset=offset,
            covariance=self.covariance,
            blocks=self._blocks(rows.X.shape[1]),
            task_weights=own,
            tol=self.tol,
            max_iter=self.max_iter,
        )
        posterior = fit.posterior
        covariances = posterior.covariances(fit.moments)
        weighted = replace(rows, weights=rows.weights * own[rows.tasks])
        loss = self._loss(
            columns, weighted, offset, posterior.noise_variance, posterior.thetas, covariances
        )
        self._store(scaling, posterior, covariances, loss, own)
        return self

    def _loss(
        self,
        columns: NDArray[np.float64],
        rows: TaskTable,
        offset: NDArray[np.float64] | None,
        dispersion: float,
        thetas: NDArray[np.float64],  # noqa: ARG002
        covariances: NDArray[np.float64],  # noqa: ARG002
    ) -> Loss:
        """Minus log-likelihoods of the tasks."""
        return FamilyLoss(self._glm_rows(columns, rows, offset), dispersion)

    def _glm_rows(
        self, columns: NDArray[np.float64], rows: TaskTable, offset: NDArray[np.float64] | None
    ) -> GLMRows:
        family = self._family()
        given = np.zeros(len(columns)) if offset is None else offset
        return GLMRows(
            columns,
            rows.y.astype(np.float64),
            rows.weights,
            rows.tasks,
            rows.n_tasks,
            np.repeat(given[:, None], family.n_scores, axis=1),
            family,
            self.fit_intercept,
        )

    def _new_task(
        self, rows: TaskTable, offset: NDArray[np.float64] | None
    ) -> tuple[Loss, NDArray[np.float64], NDArray[np.float64]]:
        """Loss, posterior mean and posterior covariance of a new task."""
        columns = self._scaling().columns(rows.X, intercept=self.fit_intercept)
        posterior, P = self._posterior(), len(self.covariance_)
        empty = Moments(np.zeros((0, P + 1, P + 1)), np.zeros(0), np.zeros(0), self.fit_intercept)
        thetas, covariances = GLMFit(self._family(), posterior, empty).new_tasks(
            columns,
            rows.y.astype(np.float64),
            rows.tasks,
            1,
            weights=rows.weights,
            offset=offset,
        )
        dispersion = posterior.noise_variance
        return (
            self._loss(columns, rows, offset, dispersion, thetas, covariances),
            thetas,
            covariances,
        )

    def fit_task(
        self,
        X: ArrayLike,
        y: ArrayLike,
        task: Any = "new",
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Posterior of a new task, given what is known of the others.

        Parameters
        ----------
        X, y, sample_weight
            Rows of the new task.
        task : hashable, default="new"
            Its label.

        Returns
        -------
        estimator
            A new estimator that knows this task and the same centre; this one is not changed. Its
            distance counts standard deviations of the tasks and of the centre's estimate together.
        """
        return self._fit_task(X, y, task, sample_weight, None)

    def _fit_task(self, X: Any, y: Any, task: Any, sample_weight: Any, sample_offset: Any) -> Self:
        check_is_fitted(self)
        features, _ = separate_labels(X, None, self.task_column)
        array, target = validate_data(self, features, y, reset=False, **self._checks)
        weights = checked_weights(sample_weight, array)
        codes = np.zeros(len(weights), dtype=np.int64)
        rows = TaskTable(array, self._encoded(target), weights, codes, 1)
        new: Self = clone(self)
        new.__dict__.update({k: v for k, v in vars(self).items() if k.endswith("_")})
        new.tasks_ = as_objects([task])
        loss, thetas, new.task_covariances_ = self._new_task(
            rows, checked_offset(sample_offset, len(weights))
        )
        metric = Metric.of(self.covariance_ + self.center_covariance_)
        center = self._center_vector()
        solution = bounded_tasks(
            loss, metric, self.epsilon, center, tol=_AIM * _CERTAIN, max_iter=self.max_iter
        )
        if self.epsilon == np.inf:
            solution = ConvexSolution(
                thetas, center, solution.forces, solution.kkt_residual, solution.n_iter
            )
        new._store_tasks(metric, solution)
        new._warn_unless_converged()
        return new

    def _scaling(self) -> Scaling:
        return Scaling(self.feature_mean_, self.feature_scale_)

    def _center_vector(self) -> NDArray[np.float64]:
        """Centre in the parameters of the fit."""
        own = self._scaling().from_user(*self._center(), fit_intercept=self.fit_intercept)
        return np.asarray(own.ravel())

    def _posterior(self) -> EvidenceFit:
        """Return what the evidence found, without the tasks of the fit."""
        center = self._center_vector()
        return EvidenceFit(
            structure=self.structure_,
            noise_variance=self.noise_sd_**2,
            task_covariance=self.covariance_,
            center_variances=self._prior_variances(),
            center=center,
            center_covariance=self.center_covariance_,
            thetas=np.empty((0, len(center))),
            log_evidence=self.log_evidence_,
            scores={},
            n_iter=self.n_iter_,
            status=EvidenceStatus.CONVERGED,
        )

    def _prior_variances(self) -> NDArray[np.float64]:
        """Variances of the centre's parameters; intercepts are free."""
        columns = np.append(self.center_sd_**2, np.full(int(self.fit_intercept), np.inf))
        return np.repeat(columns, self._n_scores)

    def _blocks(self, n_features: int) -> NDArray[np.intp] | None:
        """Return the number of each column's block."""
        if self.blocks is None:
            return None
        numbers = np.unique(np.asarray(self.blocks), return_inverse=True)[1]
        if len(numbers) != n_features or numbers.ndim != 1:
            raise ValueError(
                f"`blocks` must hold a label for each of the {n_features} features; got shape "
                f"{np.shape(self.blocks)}."
            )
        return np.append(numbers, np.zeros(int(self.fit_intercept), dtype=np.intp))

    def _weights_of_tasks(self) -> NDArray[np.float64]:
        """How many tasks each stands for."""
        given = self.task_weights or {}
        unknown = set(given) - set(self.tasks_.tolist())
        if unknown:
            raise ValueError(
                f"`task_weights` holds weights by task label; {sorted(map(repr, unknown))[0]} is "
                "not a task of the data. Leave it out."
            )
        weights = np.array([given.get(task, 1.0) for task in self.tasks_], dtype=np.float64)
        if not np.all((weights > 0) & (weights < np.inf)):
            raise ValueError(
                f"`task_weights` must be more than 0 and finite; got {weights.min()} as the "
                "smallest. Leave the rows of a task out to ignore it."
            )
        return weights

    def _store(
        self,
        scaling: Scaling,
        posterior: EvidenceFit,
        covariances: NDArray[np.float64],
        loss: Loss,
        task_weights: NDArray[np.float64],
    ) -> None:
        """Write the fitted attributes; `loss` is that of the tasks, times their weights."""
        self.feature_mean_, self.feature_scale_ = scaling.mean, scaling.scale
        self.structure_, self.log_evidence_ = posterior.structure, float(posterior.log_evidence)
        self.noise_sd_ = float(np.sqrt(posterior.noise_variance))
        by_column = posterior.center_variances[:: self._n_scores]
        self.center_sd_ = np.sqrt(by_column[: len(scaling.mean)])
        self.covariance_, self.center_covariance_ = (
            posterior.task_covariance,
            posterior.center_covariance,
        )
        self.task_covariances_ = covariances
        self.status_ = posterior.status.value
        metric = Metric.of(self.covariance_)
        precision = 1.0 / self._prior_variances()
        none = np.zeros_like(posterior.thetas)
        mode = ConvexSolution(posterior.thetas, posterior.center, none, np.inf, 0)
        solution = bounded(
            loss,
            metric,
            precision,
            self.epsilon,
            task_weights,
            mode,
            tol=_AIM * _CERTAIN,
            max_iter=self.max_iter,
        )
        self.epsilon_ = float(self.epsilon)
        self.epsilon_max_ = float(metric.distances(mode.thetas - mode.center).max())
        self.n_iter_ = posterior.n_iter
        self._store_tasks(metric, solution)
        own, level = self._deviations(self.covariance_[np.newaxis])
        self.task_sd_, self.task_intercept_sd_ = own[0], level[0]
        if posterior.status is EvidenceStatus.MAX_ITER:
            warnings.warn(posterior.status.value, ConvergenceWarning, stacklevel=4)
        self._warn_unless_converged()

    def _store_tasks(self, metric: Metric, solution: ConvexSolution) -> None:
        scaling = self._scaling()
        everyone = np.vstack([solution.thetas, solution.center])
        matrices = everyone.reshape(len(everyone), -1, self._n_scores)
        coef, intercept = self._to_user(*scaling.to_user(matrices))
        self.coef_, self.center_coef_ = coef[:-1], coef[-1]
        self.intercept_ = intercept[:-1]
        self.center_intercept_ = intercept[-1] if intercept.ndim > 1 else float(intercept[-1])
        self.coef_sd_, _ = self._deviations(self.task_covariances_)
        self.distances_ = metric.distances(solution.thetas - solution.center)
        self.forces_ = np.linalg.norm(solution.forces[:, : metric.n_free], axis=1)
        self.kkt_residual_ = float(solution.kkt_residual)

    @property
    def _n_scores(self) -> int:
        return self._family().n_scores

    def _deviations(
        self, covariances: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return standard deviations of coefficients and of intercepts at the mean features."""
        p, q = len(self.feature_mean_), self._n_scores
        scales = np.append(self.feature_scale_, np.ones(int(self.fit_intercept)))
        own = covariances.reshape(len(covariances), len(scales), q, len(scales), q)
        unit = np.eye(q)[:, :, None]
        basis = self._to_user(unit, np.zeros((q, q)))[0].reshape(q, -1)  # scores to users' ones
        variances = np.einsum("njqjs,qk,sk->nkj", own, basis, basis, optimize=True) / scales**2
        sds = np.sqrt(np.maximum(variances, 0.0))
        intercepts = sds[..., p:].sum(axis=-1)
        if self.center_coef_.ndim == 1:
            return sds[:, 0, :p], intercepts[:, 0]
        return sds[..., :p], intercepts

    def _warn_unless_converged(self) -> None:
        if not self.kkt_residual_ <= _CERTAIN:
            warnings.warn(
                f"The solver stopped at a relative KKT residual of {self.kkt_residual_:.1e}, above "
                f"{_CERTAIN:g}. Raise `max_iter`, which is {self.max_iter}, or `epsilon`.",
                ConvergenceWarning,
                stacklevel=5,
            )

    def _scored(
        self, X: Any, tasks: Any
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
        """Linear scores of rows, their covariances (rows, scores, scores), and task numbers."""
        check_is_fitted(self)
        array, codes = self._check_new_rows(X, tasks)
        columns = self._scaling().columns(array, intercept=self.fit_intercept)
        unseen = self.center_covariance_ + self.covariance_
        spread = score_covariances(columns, codes, self.task_covariances_, unseen)
        return linear_scores(vars(self), array, codes), spread, codes
