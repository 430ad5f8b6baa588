"""Cross-validated linear models: scores of candidates by fold and task, and the search."""

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import chain
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike
from sklearn.base import is_classifier
from sklearn.utils._param_validation import Interval, StrOptions

from crosslearning.convex.solver.problem import ConvexProblem
from crosslearning.convex.sums.columns import Scaling
from crosslearning.convex.sums.statistics import Statistics
from crosslearning.convex.sums.table import Data, TaskTable
from crosslearning.evaluation import Comparison, Scores
from crosslearning.evaluation.scores import best, nested
from crosslearning.evaluation.scoring import score_tasks, scorer_of
from crosslearning.exceptions import ConvergenceWarning
from crosslearning.linear._estimator import one_blas_thread
from crosslearning.linear._tethered import CrossLinearModel
from crosslearning.tasks.folds import splits_of
from crosslearning.tether import Array, Indices

Pair = tuple[Array, Array]
Values = Callable[[str, Any], Sequence[float]]  # of an axis, to try at a candidate

_ALPHAS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)  # default ridge strengths, in curvatures of all the data
_WEAK = 2  # of these leave small tasks nearly free, and scores lose digits
_LEAST = 1e-8  # ridge strength, in curvatures of all the data
_ROUGH = 1e-7  # relative residual that is enough to compare scores,
_FEW_STEPS = 400  # and enough Newton steps
_CONVERGED = 1e-5  # a larger relative residual may show in a score
_ROUNDS, _LAST_ROUNDS = 2, 10  # of refinement, and of searches along whole axes
_FEW = 3  # every third value is enough for a first look
_STRENGTHS = (1e-3, 1e3)  # of springs, in curvatures of a typical task
_TENSIONS = 1e-3  # smallest tension, as a share of one that makes all tasks the centre
_AXES = {"ball": "epsilon", "spring": "stiffness", "tension": "tension"}


class Candidate(NamedTuple):
    """A ridge strength and a tether."""

    alpha: float
    epsilon: float = math.inf
    stiffness: float = 0.0
    tension: float = 0.0


@dataclass(eq=False)
class Fold:
    """A problem on the training rows, and what scores its solutions on the held-out rows."""

    scaling: Scaling
    problem: ConvexProblem
    n_scores: int  # of a row
    root: Array | None  # of the metric
    scorer: Callable[..., Pair]
    ridged: dict[float, ConvexProblem] = field(default_factory=dict)

    @classmethod
    def of(cls, estimator: Any, train: Data, test: Data) -> Self:
        """Build a fold from training and held-out data; the metric is learned from the former."""
        scaling = estimator._scaling_of(train)
        # The centre, which is the last model, predicts tasks without training rows.
        models = np.where(train.counts > 0, np.arange(train.n_tasks), train.n_tasks)
        return cls(
            scaling=scaling,
            problem=estimator._rough_losses(train, scaling),
            n_scores=estimator._family().n_scores,
            root=estimator._learned(train, scaling)[0],
            scorer=estimator._fold_scorer(test, models),
        )

    def scored(self, candidates: Sequence[Candidate]) -> tuple[Self, list[Array], int]:
        """Fit and score candidates: fold, scores and weights by task, number not converged."""
        results = {}
        # Warm starts save most if bounds start from separate models, tensions from pooled ones.
        bounds = not any(c.stiffness or c.tension for c in candidates)
        last, n_unconverged = None, 0
        for candidate in reversed(candidates) if bounds else candidates:
            alpha, *tether = candidate
            if alpha not in self.ridged:
                self.ridged[alpha] = self.problem.with_ridge(alpha).in_variables(self.root)
            problem = self.ridged[alpha]
            last = problem.fit(problem.coupling(*tether), last)
            everyone = np.vstack([last.thetas, last.center])
            if self.root is not None:
                everyone = everyone @ self.root.T
            models = self.scaling.to_user(everyone.reshape(len(everyone), -1, self.n_scores))
            results[candidate] = np.stack(self.scorer(*models))
            n_unconverged += not last.kkt_residual <= _CONVERGED
        return self, [results[candidate] for candidate in candidates], n_unconverged


@dataclass(eq=False)
class Search:
    """Coordinate search: the number of fits grows with the sum of the axes, not the product."""

    folds: Sequence[Fold]
    problem: Callable[[float], ConvexProblem]  # on all rows; determines the ends of the axes
    alphas: Sequence[float]
    epsilons: Sequence[float] | None  # in place of the grid from the data
    estimator: Any
    scored: dict[Candidate, Array] = field(default_factory=dict)
    n_unconverged: int = 0

    def scores(self, candidates: Sequence[Candidate]) -> Scores:
        """Scores of candidates, by fold and task; each is fitted once per fold."""
        new = [c for c in dict.fromkeys(candidates) if c not in self.scored]
        if new:
            work = (delayed(Fold.scored)(fold, new) for fold in self.folds)
            results = Parallel(n_jobs=self.estimator.n_jobs)(work)
            self.folds, scores, failures = zip(*results, strict=True)
            self.n_unconverged += sum(failures)
            for candidate, *parts in zip(new, *scores, strict=True):
                self.scored[candidate] = np.stack(parts, axis=1)
        values, weights = np.stack([self.scored[c] for c in candidates], axis=1)
        return Scores(candidates, values, weights[0], self.estimator.average == "rows")

    def best(self, tether: str) -> tuple[Candidate, str]:
        """Best candidate of a family of tethers, or of all families, and its family."""
        families = list(_AXES) if tether == "auto" else [tether]
        leaders = {name: self._climbed(_AXES[name]) for name in families}
        if tether == "auto":
            # Bound and spring: the better of the two, with the other added.
            leader = max((leaders["ball"], leaders["spring"]), key=self.score)
            leaders["bounded spring"] = self._climb(leader, "stiffness", "epsilon")
        family = max(leaders, key=lambda name: self.score(leaders[name]))
        return leaders[family], family

    def score(self, candidate: Candidate) -> float:
        return float(self.scores([candidate]).means[0])

    def path(self, candidate: Candidate) -> tuple[Array, Array]:
        """Radii, and the scores of the folds there with all else as in the candidate."""
        values = sorted({*self._values("epsilon", candidate), candidate.epsilon})
        scores = self.scores([candidate._replace(epsilon=v) for v in values])
        return np.array(values), scores.by_split

    def _climbed(self, axis: str) -> Candidate:
        """Search a coarse grid, with both ends of the axis for every ridge strength; then climb."""
        coarse = {*self.alphas[::2], self.alphas[-1]}
        candidates = []
        for start in map(Candidate, self.alphas):
            values = self._some(axis, start)
            tried = values if start.alpha in coarse else [values[0], values[-1]]
            candidates += [start._replace(**{axis: value}) for value in tried]
        return self._climb(self._best(candidates), axis)

    def _climb(self, candidate: Candidate, *knobs: str) -> Candidate:
        """Search each axis, refine around the best, and search the axes of the public path."""
        axes, grids = ("alpha", *knobs), {}
        for axis in axes:
            grids[axis] = self._some(axis, candidate)
            candidate = self._best_of(axis, candidate, grids[axis])
        candidate = self._cycled(candidate, axes, partial(self._around, grids), _ROUNDS)
        searched = [axis for axis in axes if self._is_fixed(axis) or axis == "epsilon"]
        return self._cycled(candidate, searched, self._values, _LAST_ROUNDS)

    def _cycled(
        self, candidate: Candidate, axes: Sequence[str], values: Values, max_rounds: int
    ) -> Candidate:
        """Improve a candidate along one axis after the other until none helps."""
        for _ in range(max_rounds):
            before = candidate
            for axis in axes:
                candidate = self._best_of(axis, candidate, values(axis, candidate))
            if candidate == before:
                break
        return candidate

    def _best_of(self, axis: str, candidate: Candidate, values: Sequence[float]) -> Candidate:
        """Best of a candidate and those with other values on an axis."""
        # From most to least sharing: of equal scores the first is taken.
        ordered = sorted({*values, getattr(candidate, axis)}, reverse=axis != "epsilon")
        return self._best([candidate._replace(**{axis: value}) for value in ordered])

    def _best(self, candidates: Sequence[Candidate]) -> Candidate:
        return candidates[best(self.scores(candidates))]

    def _some(self, axis: str, candidate: Candidate) -> list[float]:
        """Few values of an axis, both ends among them; all if the user gave them."""
        values = self._values(axis, candidate)
        return values if self._is_fixed(axis) else [*values[:-1:_FEW], values[-1]]

    def _around(self, grids: dict[str, list[float]], axis: str, at: Candidate) -> list[float]:
        """Neighbours of a value, and what is half way to them unless the user gave the values."""
        value = getattr(at, axis)
        below = max((v for v in grids[axis] if v < value), default=value)
        above = min((v for v in grids[axis] if v > value), default=value)
        middle = () if self._is_fixed(axis) else (math.sqrt(value * v) for v in (below, above))
        return [below, above, *(v for v in middle if 0.0 < v < math.inf)]

    def _is_fixed(self, axis: str) -> bool:
        return axis == "alpha" or (axis == "epsilon" and self.epsilons is not None)

    def _values(self, axis: str, candidate: Candidate) -> list[float]:
        """Return the values of an axis, from most to least sharing."""
        if axis == "alpha":
            return sorted(self.alphas, reverse=True)
        if axis == "epsilon" and self.epsilons is not None:
            return sorted(self.epsilons)
        problem = self.problem(candidate.alpha)
        if axis == "epsilon":
            end = problem.end(problem.coupling(*candidate[1:]), 0)
            return radii(end, self.estimator.n_epsilons, self.estimator.smallest)
        if axis == "stiffness":
            low, high = np.median(problem.loss.curvature) * np.array(_STRENGTHS)
        else:
            high = float(np.linalg.norm(problem.pooled.forces, axis=1).max()) or 1.0
            low = _TENSIONS * high
        return [*np.geomspace(high, low, self.estimator.n_epsilons).tolist(), 0.0]


def radii(end: float, n_epsilons: int, smallest: float) -> list[float]:
    """Return 0, a geometric sequence up to the largest useful radius, and infinity."""
    if not (n_epsilons >= 2 and 0 < smallest < 1):
        raise ValueError(
            "`n_epsilons` must be at least 2 and `smallest` between 0 and 1; got "
            f"{n_epsilons!r} and {smallest!r}."
        )
    between = np.geomspace(smallest * end, end, n_epsilons).tolist() if end > 0 else []
    return [0.0, *between, np.inf]


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
        "n_jobs": [Integral, None],
        "random_state": [Interval(Integral, 0, None, closed="left")],
    }

    _default_score: ClassVar[str]

    def _fold_scorer(self, rows: Any, models: Indices) -> Callable[..., Pair]:
        """Return what scores held-out rows, task by task, given the number of each one's model."""
        return partial(self._fold_scores, rows, models[rows.tasks])

    def _fold_scores(self, rows: TaskTable, at: Indices, coef: Array, intercept: Array) -> Pair:
        scores = np.einsum("rp,rqp->rq", rows.X, coef[at]) + intercept[at]
        predicted, y = self._predicted(scores), self._decoded(rows.y)
        scorer = scorer_of(self, self.scoring, self._default_score)
        return score_tasks(scorer, predicted, rows.X, y, rows.weights, rows.tasks, rows.n_tasks)

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
            if search.n_unconverged:
                warnings.warn(
                    f"{search.n_unconverged} of {len(search.folds) * len(search.scored)} "
                    "cross-validation fits did not converge, so the choice of parameters may be "
                    "unreliable. Remove the smallest `alphas`, which are hardest to fit.",
                    ConvergenceWarning,
                    stacklevel=3,
                )
            self._fit_scaled(rows, scaling)

    def _search(self, rows: Data, scaling: Scaling) -> Search:
        """Return a search over ridge strengths, the same for all methods, and tethers."""
        whole = self._rough_losses(rows, scaling)
        self.metric_, strength = self._learned(rows, scaling)

        @cache
        def problem(alpha: float) -> ConvexProblem:
            return whole.with_ridge(alpha).in_variables(self.metric_)

        curvature = float(whole.loss.pooled().curvature[0])
        alphas = [share * curvature for share in _ALPHAS]
        if self.alphas is not None:
            alphas = _checked("alphas", self.alphas, np.finfo(np.float64).max)
        elif strength is not None:
            alphas = [max(strength, _LEAST * curvature), *alphas[_WEAK:]]
        folds = [Fold.of(self, train, test) for train, test in self._splits(rows)]
        epsilons = None if self.epsilons is None else _checked("epsilons", self.epsilons)
        return Search(folds, problem, alphas, epsilons, self)

    def _splits(self, rows: Data) -> Iterator[tuple[Data, Data]]:
        """Yield training and held-out data; sums have folds of their own."""
        if isinstance(rows, Statistics):
            folds = [fold for k in range(rows.n_folds) if (fold := rows.fold(k)).n_rows]
            for k, fold in enumerate(folds):
                first, *others = folds[:k] + folds[k + 1 :]
                yield sum(others, first), fold  # total - fold would lose digits
            return
        seed, classes = self.random_state, is_classifier(self)
        for train, test in splits_of(self.cv, rows.X, rows.y, rows.tasks, seed, classes=classes):
            yield rows.take(train), rows.take(test)

    def _rough_losses(self, rows: Data, scaling: Scaling) -> ConvexProblem:
        losses = self._losses(rows, scaling)
        return replace(losses, tol=_ROUGH, max_iter=min(self.max_iter, _FEW_STEPS))

    def _compared(self, search: Search, chosen: Candidate, rows: Data) -> Comparison:
        """Compare the methods, each with its best settings among its candidates."""
        pooled, separate = ([Candidate(a, e) for a in search.alphas] for e in (0.0, np.inf))
        methods = {"pooled": pooled, "separate": separate, "cross": list(search.scored)}
        everyone = list(dict.fromkeys(chain.from_iterable(methods.values())))
        at = {name: list(map(everyone.index, tried)) for name, tried in methods.items()}
        scores = nested(search.scores(everyone), at, everyone.index(chosen))
        return Comparison.of(scores, self.tasks_, rows.counts, nested=scores.n_splits > 1)


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
    return list(map(float, numbers))
