"""Base of the cross-validated linear models."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import is_classifier
from sklearn.utils._param_validation import Interval, StrOptions

from crosslearning.convex.solver.problem import ConvexProblem
from crosslearning.convex.sums.columns import Scaling
from crosslearning.convex.sums.statistics import Statistics
from crosslearning.convex.sums.table import Data
from crosslearning.evaluation import Comparison
from crosslearning.evaluation.scores import nested
from crosslearning.evaluation.scoring import scorer_of
from crosslearning.exceptions import ConvergenceWarning
from crosslearning.linear._base import CrossLinearModel
from crosslearning.linear._search import Candidate, Evaluation, Fold, FoldScorer, Pair, Search
from crosslearning.linear._threads import one_blas_thread
from crosslearning.tasks.folds import splits_of
from crosslearning.tether import Indices

_ALPHAS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)  # default ridge strengths, in curvatures of all the data
_WEAK = 2  # of these leave small tasks nearly free, and scores lose digits
_LEAST = 1e-8  # ridge strength, in curvatures of all the data
_ROUGH = 1e-7  # relative residual that is enough to compare scores,
_FEW = 400  # and enough Newton steps


@dataclass(eq=False, repr=False, kw_only=True)
class CrossLinearModelCV(CrossLinearModel):
    """Base of the cross-validated estimators; see :class:`CrossRidgeCV`."""

    epsilons: Sequence[float] | None = field(default=None, kw_only=False)
    n_epsilons: int = 20
    smallest: float = 1e-3
    tether: str = "ball"
    alphas: Sequence[float] | None = None
    cv: Any = 5
    scoring: Any = None
    average: str = "tasks"
    one_standard_error: bool = False
    n_jobs: int | None = None
    random_state: int = 0
    metric: str | ArrayLike = "learned"

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **CrossLinearModel._parameter_constraints,
        "epsilons": ["array-like", None],
        "n_epsilons": [Interval(Integral, 2, None, closed="left")],
        "smallest": [Interval(Real, 0, 1, closed="neither")],
        "tether": [StrOptions({"ball", "spring", "tension", "auto"})],
        "alphas": ["array-like", None],
        "cv": ["cv_object"],
        "scoring": [str, callable, None],
        "average": [StrOptions({"tasks", "rows"})],
        "one_standard_error": ["boolean"],
        "n_jobs": [Integral, None],
        "random_state": [Interval(Integral, 0, None, closed="left")],
    }

    _default_score: ClassVar[str]

    def _fold_scorer(self, rows: Any, models: Indices) -> Callable[..., Pair]:
        """Return what scores the tasks of held-out rows, given the number of each one's model."""
        scorer = scorer_of(self, self.scoring, self._default_score)
        return FoldScorer(self, scorer, rows, models)

    def _knobs(self) -> tuple[float, float, float, float]:
        return self.alpha_, self.epsilon_, self.stiffness_, self.tension_

    def _fit(self, rows: Data) -> None:
        """Choose tether and ridge strength by cross-validation, then fit all rows."""
        with one_blas_thread():
            scaling = self._scaling_of(rows)
            search = self._search(rows, scaling)
            best, self.tether_ = search.best(self.tether)
            self.alpha_, self.epsilon_, self.stiffness_, self.tension_ = best
            self.alphas_ = np.array(search.alphas)
            self.best_score_ = search.score(best)
            self.comparison_ = self._compared(search, best, rows)
            self.epsilons_, self.score_path_ = search.path(best)
            if n := search.evaluation.n_unconverged:
                n_fits = len(search.evaluation.folds) * len(search.evaluation.scored)
                warnings.warn(
                    f"{n} of {n_fits} cross-validation fits did not converge, so the choice of "
                    "parameters may be unreliable. Remove the smallest `alphas`, which are hardest "
                    "to fit.",
                    ConvergenceWarning,
                    stacklevel=3,
                )
            self._fit_scaled(rows, scaling)

    def _search(self, data: Data, scaling: Scaling) -> Search:
        """Return a search over ridge strengths, the same for all methods, and tethers."""
        whole = self._rough_losses(data, scaling)
        self.metric_, strength = self._learned(data, scaling)

        @cache
        def problem(alpha: float) -> ConvexProblem:
            return whole.with_ridge(alpha).in_variables(self.metric_)

        curvature = float(whole.loss.pooled().curvature[0])
        alphas = [share * curvature for share in _ALPHAS]
        if self.alphas is not None:
            alphas = _checked("alphas", self.alphas, np.finfo(np.float64).max)
        elif strength is not None:
            alphas = [max(strength, _LEAST * curvature), *alphas[_WEAK:]]
        folds = [Fold.of(self, *parts) for parts in self._splits(data)]
        evaluation = Evaluation(folds, self.average == "rows", self.n_jobs)
        epsilons = None if self.epsilons is None else _checked("epsilons", self.epsilons)
        return Search(
            evaluation, problem, alphas, self.n_epsilons, self.smallest, epsilons,
            self.one_standard_error,
        )  # fmt: skip

    def _rough_losses(self, data: Data, scaling: Scaling) -> ConvexProblem:
        losses = self._losses(data, scaling)
        return replace(losses, tol=_ROUGH, max_iter=min(self.max_iter, _FEW))

    def _splits(self, data: Data) -> Iterator[tuple[Data, Data]]:
        """Yield data to fit and data held out."""
        if isinstance(data, Statistics):
            folds = [fold for k in range(data.n_folds) if (fold := data.fold(k)).n_rows]
            for k, fold in enumerate(folds):
                first, *others = folds[:k] + folds[k + 1 :]
                yield sum(others, first), fold  # total - fold would lose digits
            return
        classes, seed = is_classifier(self), self.random_state
        for train, test in splits_of(self.cv, data.X, data.y, data.tasks, seed, classes=classes):
            yield data.take(train), data.take(test)

    def _compared(self, search: Search, chosen: Candidate, data: Data) -> Comparison:
        """Compare the methods, each with its best settings among its candidates."""
        pooled, separate = ([Candidate(a, e) for a in search.alphas] for e in (0.0, np.inf))
        methods = {"pooled": pooled, "separate": separate, "cross": list(search.evaluation.scored)}
        everyone = list(dict.fromkeys(chain.from_iterable(methods.values())))
        at = {name: list(map(everyone.index, tried)) for name, tried in methods.items()}
        scores = nested(search.evaluation.of(everyone), at, everyone.index(chosen))
        return Comparison.of(scores, self.tasks_, data.counts, nested=scores.n_splits > 1)


def _checked(name: str, values: Any, largest: float = np.inf) -> list[float]:
    """Return a non-empty list of nonnegative numbers."""
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
