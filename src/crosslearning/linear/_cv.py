"""What the cross-validated linear models share."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from dataclasses import replace
from functools import cache
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils._param_validation import Interval, StrOptions
from threadpoolctl import threadpool_limits

from crosslearning.convex.blocks import BLOCKS
from crosslearning.evaluation import Comparison
from crosslearning.evaluation.choice import nested
from crosslearning.evaluation.splits import splits_of
from crosslearning.exceptions import ConvergenceWarning
from crosslearning.linear._base import CrossLinearModel
from crosslearning.linear._candidates import Axis
from crosslearning.linear._folds import Evaluation, Fold
from crosslearning.linear._search import Search

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from crosslearning.convex.blocks import PerBlock
    from crosslearning.convex.design import TaskTable
    from crosslearning.convex.problem import ConvexProblem
    from crosslearning.convex.scaling import Scaling
    from crosslearning.linear._folds import Judges

__all__ = ["CrossLinearModelCV"]

_ALPHAS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)  # default ridge strengths, in curvatures of all the data
_AROUND = (1.0,)  # ridge strengths in units of that by evidence
_LEAST = 1e-8  # ridge strength, in curvatures of all the data
_ROUGH = 1e-7  # relative residual that is plenty where only scores are compared,
_FEW = 100  # and so are these Newton steps


class CrossLinearModelCV(CrossLinearModel):
    """Base of the cross-validated estimators; see :class:`CrossRidgeCV`."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "epsilons": ["array-like", None],
        "n_epsilons": [Interval(Integral, 2, None, closed="left")],
        "smallest": [Interval(Real, 0, 1, closed="neither")],
        "per_block": ["boolean"],
        "tether": [StrOptions({"ball", "spring", "tension", "auto"})],
        "alphas": ["array-like", None],
        "cv": ["cv_object"],
        "scoring": [str, callable, None],
        "average": [StrOptions({"tasks", "rows"})],
        "one_standard_error": ["boolean"],
        "n_jobs": [Integral, None],
        "random_state": [Interval(Integral, 0, None, closed="left")],
        "metric": [StrOptions({"auto", "standard", "learned"}), "array-like"],
        "task_weights": [StrOptions({"samples", "equal"})],
        "fit_intercept": ["boolean"],
        "standardize": ["boolean"],
        "task_column": "no_validation",
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        epsilons: Sequence[float] | None = None,
        *,
        n_epsilons: int = 20,
        smallest: float = 1e-3,
        per_block: bool = False,
        tether: str = "ball",
        alphas: Sequence[float] | None = None,
        cv: Any = 5,
        scoring: Any = None,
        average: str = "tasks",
        one_standard_error: bool = False,
        n_jobs: int | None = None,
        random_state: int = 0,
        metric: str | ArrayLike = "auto",
        task_weights: str = "samples",
        fit_intercept: bool = True,
        standardize: bool = True,
        task_column: Any = None,
        tol: float = 1e-8,
        max_iter: int = 2000,
    ) -> None:
        self.epsilons = epsilons
        self.n_epsilons = n_epsilons
        self.smallest = smallest
        self.per_block = per_block
        self.tether = tether
        self.alphas = alphas
        self.cv = cv
        self.scoring = scoring
        self.average = average
        self.one_standard_error = one_standard_error
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.metric = metric
        self.task_weights = task_weights
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.task_column = task_column
        self.tol = tol
        self.max_iter = max_iter

    def _fit(self, rows: TaskTable) -> None:
        """Choose tether and ridge strength by cross-validation, then fit all rows."""
        # The matrices are many and small: threads inside BLAS would mostly wait for each other.
        with threadpool_limits(1, user_api="blas"):
            self._check_metric()
            scaling = self._design().scaling(rows)
            self._choose(rows, scaling)
            self._fit_rows(rows, scaling, self.alpha_)

    def _check_metric(self) -> None:
        if self.per_block and not self._is_standard:
            raise ValueError(
                "`per_block=True` is for metric='standard'; in any other metric one tether holds "
                f"all parameters. Got metric={self.metric!r}; leave one of the two out."
            )

    @property
    def _is_standard(self) -> bool:
        if isinstance(self.metric, str) and self.metric == "auto":
            return self.per_block
        return super()._is_standard

    def _choose(self, rows: TaskTable, scaling: Scaling) -> None:
        search = self._search(rows, scaling)
        best, self.tether_ = search.best(self.tether)
        self.alpha_ = best.alpha
        self.epsilon_, self.stiffness_, self.tension_ = (
            best.knob(name) for name in ("epsilon", "stiffness", "tension")
        )
        self.alphas_ = np.array(search.alphas)
        self.best_score_ = search.score(best)
        self.comparison_ = self._compared(search, rows)
        self._store_paths(search, best)
        _warn_of_rough_scores(search.evaluation)

    def _search(self, rows: TaskTable, scaling: Scaling) -> Search:
        design = replace(self._design(), tol=_ROUGH, max_iter=min(self.max_iter, _FEW))
        whole = design.problem(rows, scaling)
        self.metric_, strength = self._learned(design, rows, scaling)

        @cache
        def problem(alpha: float) -> ConvexProblem:
            return whole.with_ridge(alpha).in_variables(self.metric_)

        curvature = float(whole.loss.pooled().curvature[0])
        ends = [share * curvature for share in _ALPHAS]
        if self.alphas is not None:
            alphas = ends = _checked("alphas", self.alphas, np.finfo(np.float64).max)
        elif strength is not None:
            alphas = [max(share * strength, _LEAST * curvature) for share in _AROUND]
        else:
            alphas = ends
        classes = is_classifier(self)
        splits = splits_of(self.cv, rows.X, rows.y, rows.tasks, self.random_state, classes=classes)
        judges = self._judges()
        folds = [
            Fold.of(design, rows.take(train), rows.take(test), judges, self._learned)
            for train, test in splits
        ]
        return Search(
            evaluation=Evaluation(folds, self.average == "rows", self.n_jobs),
            problem=problem,
            alphas=alphas,
            end_alphas=ends,
            n_blocks=2 if self.per_block and self.fit_intercept else 1,
            n_values=self.n_epsilons,
            smallest=self.smallest,
            epsilons=None if self.epsilons is None else _checked("epsilons", self.epsilons),
            one_standard_error=self.one_standard_error,
        )

    def _compared(self, search: Search, rows: TaskTable) -> Comparison:
        """Compare the methods, each with its best settings among its candidates."""
        known = list(search.evaluation.known)
        ends = {"pooled": search.pooled(), "separate": search.separate()}
        everyone = list(dict.fromkeys([*known, *ends["pooled"], *ends["separate"]]))
        scores = search.evaluation.of(everyone)
        methods = {name: list(map(everyone.index, own)) for name, own in ends.items()}
        found = nested(scores, {**methods, "cross": range(len(known))})
        counts = np.bincount(rows.tasks, minlength=rows.n_tasks)
        return Comparison.of(found, self.tasks_, counts, nested=found.n_splits > 1)

    def _store_paths(self, search: Search, best: Any) -> None:
        """Radii and scores of the folds there, for each block with all else as chosen."""
        names = BLOCKS if search.n_blocks > 1 else (None,)
        paths = {
            name: search.path(best, Axis("epsilon", None if name is None else b))
            for b, name in enumerate(names)
        }
        radii = {name: np.array(values) for name, (values, _) in paths.items()}
        scores = {name: values for name, (_, values) in paths.items()}
        self.epsilons_ = radii if search.n_blocks > 1 else radii[None]
        self.score_path_ = scores if search.n_blocks > 1 else scores[None]

    @abstractmethod
    def _judges(self) -> Judges:
        """Return what makes a judge of held-out rows."""

    def _alpha(self) -> float:
        return float(self.alpha_)

    def _knobs(self) -> tuple[PerBlock, PerBlock, PerBlock]:
        return self.epsilon_, self.stiffness_, self.tension_


def _warn_of_rough_scores(evaluation: Evaluation) -> None:
    if evaluation.n_unconverged:
        warnings.warn(
            f"{evaluation.n_unconverged} of {evaluation.n_fits} fits inside the folds did not "
            "converge: their scores, and with them the choice, may be off. Leave the smallest "
            "`alphas` out, which make fits hard.",
            ConvergenceWarning,
            stacklevel=5,
        )


def _checked(name: str, values: Any, largest: float = np.inf) -> list[float]:
    """Return a list of numbers from 0 on, at least one."""
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        numbers = np.empty(0)
    if numbers.ndim != 1 or not numbers.size:
        raise ValueError(f"`{name}` must be a list of at least one number; got {values!r}.")
    wrong = numbers[~((numbers >= 0) & (numbers <= largest))]
    if wrong.size:
        finite = "" if largest == np.inf else " and finite"
        raise ValueError(f"`{name}` must be at least 0{finite}; got {wrong[0]}.")
    return [float(number) for number in numbers]
