"""Cross-validation: scores of candidates by fold and task, and the search for the best."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed

from crosslearning.convex.solver.problem import ConvexProblem
from crosslearning.convex.sums.columns import Scaling
from crosslearning.convex.sums.table import Data, TaskTable
from crosslearning.evaluation import Scores
from crosslearning.evaluation.scores import best, standard_error
from crosslearning.evaluation.scoring import Scorer, score_tasks
from crosslearning.tether import Array, Indices

Pair = tuple[Array, Array]

_CONVERGED = 1e-5  # a larger relative residual may show in a score
_ROUNDS, _LAST_ROUNDS = 2, 10  # of refinement, and of searches along whole axes
_FEW = 3  # every third value is enough for a first look
_STRENGTHS = (1e-3, 1e3)  # of springs, in curvatures of a typical task
_TENSIONS = 1e-3  # smallest tension, as a share of one that makes all tasks the centre
_AXES: dict[str, tuple[str, ...]] = {
    "ball": ("epsilon",),
    "spring": ("stiffness",),
    "tension": ("tension",),
    "bounded spring": ("stiffness", "epsilon"),
}


class Candidate(NamedTuple):
    """A ridge strength and a tether."""

    alpha: float
    epsilon: float = math.inf
    stiffness: float = 0.0
    tension: float = 0.0

    def at(self, axis: str, value: float) -> Candidate:
        """Return the candidate with another value on an axis."""
        return self._replace(**{axis: value})


@dataclass(frozen=True, eq=False)
class FoldScorer:
    """Scores the predictions of linear models for held-out rows, task by task."""

    estimator: Any
    scorer: Scorer | None
    rows: TaskTable
    models: Indices  # number of the model that predicts each task

    def __call__(self, coef: Array, intercept: Array) -> Pair:
        """Score and weight of each task."""
        rows, at = self.rows, self.models[self.rows.tasks]
        scores = np.einsum("rp,rqp->rq", rows.X, coef[at]) + intercept[at]
        predicted, y = self.estimator._predicted(scores), self.estimator._decoded(rows.y)
        return score_tasks(
            self.scorer, predicted, rows.X, y, rows.weights, rows.tasks, rows.n_tasks
        )


@dataclass(eq=False)
class Fold:
    """A problem on the training rows, and what scores its solutions on the held-out rows."""

    scaling: Scaling
    problem: ConvexProblem
    n_scores: int  # of a row
    root: Array | None  # of the metric
    scorer: Callable[..., Pair]
    _ridged: dict[float, ConvexProblem] = field(default_factory=dict)

    @classmethod
    def of(cls, estimator: Any, train: Data, test: Data) -> Fold:
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

    def scored(self, candidates: Sequence[Candidate]) -> tuple[Fold, list[Array], int]:
        """Fit and score candidates: fold, scores and weights by task, number not converged."""
        results = {}
        # Warm starts save most if bounds start from separate models, tensions from pooled ones.
        bounds = not any(c.stiffness or c.tension for c in candidates)
        last, n_unconverged = None, 0
        for candidate in reversed(candidates) if bounds else candidates:
            problem = self._problem(candidate.alpha)
            last = problem.fit(problem.coupling(*candidate[1:]), last)
            everyone = np.vstack([last.thetas, last.center])
            if self.root is not None:
                everyone = everyone @ self.root.T
            models = self.scaling.to_user(everyone.reshape(len(everyone), -1, self.n_scores))
            results[candidate] = np.stack(self.scorer(*models))
            n_unconverged += not last.kkt_residual <= _CONVERGED
        return self, [results[candidate] for candidate in candidates], n_unconverged

    def _problem(self, alpha: float) -> ConvexProblem:
        if alpha not in self._ridged:
            self._ridged[alpha] = self.problem.with_ridge(alpha).in_variables(self.root)
        return self._ridged[alpha]


@dataclass(eq=False)
class Evaluation:
    """Scores of candidates, each fitted once per fold."""

    folds: Sequence[Fold]
    by_rows: bool
    n_jobs: int | None
    scored: dict[Candidate, Array] = field(default_factory=dict)
    n_unconverged: int = 0

    def of(self, candidates: Sequence[Candidate]) -> Scores:
        """Scores of candidates, by fold and task."""
        new = [c for c in dict.fromkeys(candidates) if c not in self.scored]
        if new:
            work = (delayed(Fold.scored)(fold, new) for fold in self.folds)
            self.folds, scores, failures = zip(*Parallel(n_jobs=self.n_jobs)(work), strict=True)
            self.n_unconverged += sum(failures)
            for candidate, *parts in zip(new, *scores, strict=True):
                self.scored[candidate] = np.stack(parts, axis=1)
        values, weights = np.stack([self.scored[c] for c in candidates], axis=1)
        return Scores(candidates, values, weights[0], self.by_rows)


@dataclass(frozen=True, eq=False)
class Search:
    """Coordinate search: the number of fits grows with the sum of the axes, not the product."""

    evaluation: Evaluation
    problem: Callable[[float], ConvexProblem]  # on all rows; determines the ends of the axes
    alphas: Sequence[float]
    n_values: int  # along an axis
    smallest: float  # positive radius, as a fraction of the largest
    epsilons: Sequence[float] | None  # overrides the grid from the data
    one_standard_error: bool

    def best(self, tether: str) -> tuple[Candidate, str]:
        """Best candidate of a family of tethers, or of all families, and its family."""
        families = ("ball", "spring", "tension") if tether == "auto" else (tether,)
        leaders = {name: self._climbed(name) for name in families}
        if tether == "auto":
            # Bound and spring: the better of the two, with the other added.
            leader = max((leaders["ball"], leaders["spring"]), key=self.score)
            leaders["bounded spring"] = self._climb(leader, _AXES["bounded spring"])
        family = max(leaders, key=lambda name: self.score(leaders[name]))
        if self.one_standard_error:
            return self._shared_more(leaders[family], family), family
        return leaders[family], family

    def score(self, candidate: Candidate) -> float:
        """Mean score over the folds."""
        return float(self.evaluation.of([candidate]).means[0])

    def path(self, candidate: Candidate) -> tuple[Array, Array]:
        """Radii, and the scores of the folds there with all else as in the candidate."""
        values = sorted({*self._values("epsilon", candidate), candidate.epsilon})
        scores = self.evaluation.of([candidate.at("epsilon", v) for v in values])
        return np.array(values), scores.by_split

    def _climbed(self, family: str) -> Candidate:
        """Search a coarse grid, with both ends of the axis for every ridge strength; then climb."""
        (axis,) = _AXES[family]
        coarse = {*self.alphas[::2], self.alphas[-1]}
        candidates = []
        for start in map(Candidate, self.alphas):
            values = self._some(axis, start)
            tried = values if start.alpha in coarse else [values[0], values[-1]]
            candidates += [start.at(axis, value) for value in tried]
        return self._climb(self._best(candidates), (axis,))

    def _climb(self, candidate: Candidate, knobs: Sequence[str]) -> Candidate:
        """Search each axis, refine around the best, and search the axes of the public path."""
        axes, grids = ("alpha", *knobs), {}
        for axis in axes:
            grids[axis] = self._some(axis, candidate)
            candidate = self._best_of(axis, candidate, grids[axis])

        def around(axis: str, at: Candidate) -> list[float]:
            return self._around(axis, getattr(at, axis), grids[axis])

        candidate = self._cycled(candidate, axes, around, _ROUNDS)
        searched = [axis for axis in axes if self._is_fixed(axis) or axis == "epsilon"]
        return self._cycled(candidate, searched, self._values, _LAST_ROUNDS)

    def _cycled(
        self,
        candidate: Candidate,
        axes: Sequence[str],
        values: Callable[[str, Candidate], Sequence[float]],
        max_rounds: int,
    ) -> Candidate:
        """Improve a candidate along one axis after the other until none helps."""
        for _ in range(max_rounds):
            before = candidate
            for axis in axes:
                candidate = self._best_of(axis, candidate, values(axis, candidate))
            if candidate == before:
                break
        return candidate

    def _shared_more(self, leader: Candidate, family: str) -> Candidate:
        """Return the candidate that shares most within one standard error of the best."""
        enough = self.score(leader) - standard_error(self.evaluation.of([leader]), 0)
        for axis in _AXES[family]:
            chosen, grid = getattr(leader, axis), self._values(axis, leader)
            values = _in_order(axis, [*grid, *self._around(axis, chosen, grid), chosen])
            candidates = [leader.at(axis, value) for value in values[: values.index(chosen) + 1]]
            means = self.evaluation.of(candidates).means
            leader = candidates[int(np.argmax(means >= enough))]
        return leader

    def _best_of(self, axis: str, candidate: Candidate, values: Sequence[float]) -> Candidate:
        """Best of a candidate and those with other values on an axis."""
        ordered = _in_order(axis, [*values, getattr(candidate, axis)])
        return self._best([candidate.at(axis, value) for value in ordered])

    def _best(self, candidates: Sequence[Candidate]) -> Candidate:
        return candidates[best(self.evaluation.of(candidates))]

    def _some(self, axis: str, candidate: Candidate) -> list[float]:
        """Few values of an axis, both ends among them; all if the user gave them."""
        values = self._values(axis, candidate)
        return values if self._is_fixed(axis) else [*values[:-1:_FEW], values[-1]]

    def _around(self, axis: str, value: float, values: Sequence[float]) -> list[float]:
        """Neighbours of a value, and what is half way to them unless the user gave the values."""
        below = max((v for v in values if v < value), default=value)
        above = min((v for v in values if v > value), default=value)
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
            return radii(end, self.n_values, self.smallest)
        if axis == "stiffness":
            low, high = np.median(problem.loss.curvature) * np.array(_STRENGTHS)
        else:
            high = float(np.linalg.norm(problem.pooled.forces, axis=1).max()) or 1.0
            low = _TENSIONS * high
        return [*np.geomspace(high, low, self.n_values).tolist(), 0.0]


def _in_order(axis: str, values: Sequence[float]) -> list[float]:
    """Return distinct values, from most to least sharing."""
    return sorted(set(values), reverse=axis != "epsilon")


def radii(end: float, n_epsilons: int, smallest: float) -> list[float]:
    """Return 0, a geometric sequence up to the largest useful radius, and infinity."""
    if not (n_epsilons >= 2 and 0 < smallest < 1):
        raise ValueError(
            "`n_epsilons` must be at least 2 and `smallest` between 0 and 1; got "
            f"{n_epsilons!r} and {smallest!r}."
        )
    if end <= 0:
        return [0.0, np.inf]
    return [0.0, *np.geomspace(smallest * end, end, n_epsilons).tolist(), np.inf]
