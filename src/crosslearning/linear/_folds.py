"""Scores of candidates on held-out rows, by fold and task."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from crosslearning.convex._solver import ConvexSolution
    from crosslearning.convex.design import Design, TaskTable
    from crosslearning.convex.problem import ConvexProblem
    from crosslearning.convex.scaling import Scaling
    from crosslearning.linear._candidates import Candidate

    # (scores' coefficients, scores' intercepts) of all models -> score and weight by task
    Judge = Callable[
        [NDArray[np.float64], NDArray[np.float64]],
        tuple[NDArray[np.float64], NDArray[np.float64]],
    ]
    # (held-out rows, number of the model that speaks for each task) -> judge
    Scorer = Callable[[TaskTable, NDArray[np.intp]], Judge]

__all__ = ["Evaluation", "Fold"]

_CONVERGED = 1e-5  # a larger relative residual may show in a score


class _Scored(NamedTuple):
    """What a fold has to say about some candidates."""

    fold: Fold
    scores: list[NDArray[np.float64]]  # score and weight of each task, shape (2, n_tasks)
    n_unconverged: int


@dataclass(eq=False)
class Fold:
    """A problem on some rows and a judge who knows the others; both keep what they need."""

    design: Design
    scaling: Scaling
    problem: ConvexProblem
    judge: Judge
    _ridged: dict[float, ConvexProblem] = field(default_factory=dict)

    @classmethod
    def of(cls, design: Design, train: TaskTable, test: TaskTable, scorer: Scorer) -> Fold:
        """Learn from some rows, be judged by others."""
        scaling = design.scaling(train)
        # Known are tasks with rows to fit on; the centre, the last model, speaks for the others.
        present = np.bincount(train.tasks, minlength=train.n_tasks) > 0
        models = np.where(present, np.arange(train.n_tasks), train.n_tasks)
        return cls(design, scaling, design.problem(train, scaling), scorer(test, models))

    def scored(self, candidates: Sequence[Candidate]) -> _Scored:
        """Fit and score candidates, neighbours in an order in which they are similar."""
        results: dict[Candidate, NDArray[np.float64]] = {}
        # Bounds need fewest steps when followed from separate on, tensions from pooled on.
        bounds = not any(any(c.stiffness) or any(c.tension) for c in candidates)
        last: ConvexSolution | None = None
        n_unconverged = 0
        for candidate in reversed(candidates) if bounds else candidates:
            problem = self._problem(candidate.alpha)
            last = problem.fit(candidate.coupling(problem), last)
            everyone = np.vstack([last.thetas, last.center])
            models = self.scaling.to_user(self.design.matrices(everyone))
            results[candidate] = np.stack(self.judge(*models))
            n_unconverged += not last.kkt_residual <= _CONVERGED
        return _Scored(self, [results[candidate] for candidate in candidates], n_unconverged)

    def _problem(self, alpha: float) -> ConvexProblem:
        if alpha not in self._ridged:
            self._ridged[alpha] = self.problem.with_ridge(alpha)
        return self._ridged[alpha]


@dataclass(eq=False)
class Evaluation:
    """Scores of all candidates that were asked for, each fitted once per fold."""

    folds: list[Fold]
    by_task: bool
    n_jobs: int | None
    known: dict[Candidate, NDArray[np.float64]] = field(default_factory=dict)
    n_unconverged: int = 0

    @property
    def n_fits(self) -> int:
        """Number of fits so far."""
        return len(self.folds) * len(self.known)

    def of(self, candidates: Sequence[Candidate]) -> NDArray[np.float64]:
        """Scores and weights, shape (n_candidates, 2, n_folds, n_tasks)."""
        new = [c for c in dict.fromkeys(candidates) if c not in self.known]
        if new:
            done: list[Any] = Parallel(n_jobs=self.n_jobs)(
                delayed(Fold.scored)(fold, new) for fold in self.folds
            )
            self.folds = [part.fold for part in done]
            self.n_unconverged += sum(part.n_unconverged for part in done)
            for i, candidate in enumerate(new):
                self.known[candidate] = np.stack([part.scores[i] for part in done], axis=1)
        return np.stack([self.known[candidate] for candidate in candidates])

    def fold_scores(self, candidates: Sequence[Candidate]) -> NDArray[np.float64]:
        """Mean score of each fold, NaN if it has none, shape (n_candidates, n_folds)."""
        score, weight = np.moveaxis(self.of(candidates), 1, 0)
        share = np.ones_like(weight) if self.by_task else weight
        return _mean(score, np.where(weight > 0, share, 0.0), axis=2)

    def task_scores(self, scored: NDArray[np.float64]) -> NDArray[np.float64]:
        """Score of each task from scores and weights by fold and task; NaN if never scored."""
        score, weight = scored
        return _mean(score, weight, axis=0)


def _mean(
    score: NDArray[np.float64], weight: NDArray[np.float64], axis: int
) -> NDArray[np.float64]:
    """Weighted mean of the scores that are finite; NaN if there is none."""
    present = np.isfinite(score)
    share = np.where(present, weight, 0.0)
    total = share.sum(axis=axis)
    sums = np.sum(share * np.where(present, score, 0.0), axis=axis)
    return np.asarray(np.divide(sums, total, out=np.full_like(total, np.nan), where=total > 0))
