"""Scores of candidates on held-out rows, by fold and task."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import Parallel, delayed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from crosslearning.linear.candidates import Candidate
    from crosslearning.linear.design import Design, Rows
    from crosslearning.linear.fitting import Problem
    from crosslearning.linear.scaling import Scaling
    from crosslearning.linear.solver import Solution

    # (scores' coefficients, scores' intercepts, rows, known tasks) -> score and weight by task
    Scorer = Callable[
        [NDArray[np.float64], NDArray[np.float64], Rows, NDArray[np.int64]],
        tuple[NDArray[np.float64], NDArray[np.float64]],
    ]

__all__ = ["Evaluation", "Fold"]


@dataclass(eq=False)
class Fold:
    """Rows to fit on and rows to score on."""

    design: Design
    train: Rows
    test: Rows
    scorer: Scorer
    _problems: dict[float, tuple[Problem, Scaling]] = field(default_factory=dict)

    def scores(self, candidates: Sequence[Candidate]) -> list[NDArray[np.float64]]:
        """Score and weight of each task for each candidate, shape (2, n_tasks)."""
        # Known are tasks with rows to fit on; the centre speaks for the others.
        present = np.bincount(self.train.tasks, minlength=self.train.n_tasks) > 0
        codes = np.where(present[self.test.tasks], self.test.tasks, -1)
        results: dict[Candidate, NDArray[np.float64]] = {}
        # Bounds need fewest steps when followed from separate on, tensions from pooled on.
        bounds = not any(any(c.stiffness) or any(c.tension) for c in candidates)
        last: Solution | None = None
        for candidate in reversed(candidates) if bounds else candidates:
            problem, scaling = self._problem(candidate.alpha)
            last = problem.fit(candidate.coupling(problem), last)
            everyone = np.vstack([last.thetas, last.center])
            coef, intercept = scaling.to_user(self.design.matrices(everyone))
            results[candidate] = np.stack(self.scorer(coef, intercept, self.test, codes))
        return [results[candidate] for candidate in candidates]

    def _problem(self, alpha: float) -> tuple[Problem, Scaling]:
        if alpha not in self._problems:
            scaling = self.design.scaling(self.train)
            self._problems[alpha] = self.design.problem(self.train, scaling, alpha), scaling
        return self._problems[alpha]


def _scored(fold: Fold, candidates: Sequence[Candidate]) -> tuple[Fold, list[NDArray[np.float64]]]:
    return fold, fold.scores(candidates)


@dataclass(eq=False)
class Evaluation:
    """Scores of all candidates that were asked for, each fitted once per fold."""

    folds: list[Fold]
    by_task: bool
    n_jobs: int | None
    known: dict[Candidate, NDArray[np.float64]] = field(default_factory=dict)

    def of(self, candidates: Sequence[Candidate]) -> NDArray[np.float64]:
        """Scores and weights, shape (n_candidates, 2, n_folds, n_tasks)."""
        new = [c for c in dict.fromkeys(candidates) if c not in self.known]
        if new:
            done: list[Any] = Parallel(n_jobs=self.n_jobs)(
                delayed(_scored)(fold, new) for fold in self.folds
            )
            self.folds = [fold for fold, _ in done]
            for i, candidate in enumerate(new):
                self.known[candidate] = np.stack([scores[i] for _, scores in done], axis=1)
        return np.stack([self.known[candidate] for candidate in candidates])

    def fold_scores(self, candidates: Sequence[Candidate]) -> NDArray[np.float64]:
        """Mean score of each fold, NaN if it has none, shape (n_candidates, n_folds)."""
        score, weight = np.moveaxis(self.of(candidates), 1, 0)
        return self._mean(score, weight, axis=2)

    def task_scores(self, scored: NDArray[np.float64]) -> NDArray[np.float64]:
        """Score of each task from scores and weights by fold and task; NaN if never scored."""
        score, weight = scored
        seen = np.where(np.isfinite(score), weight, 0.0)
        total = seen.sum(axis=0)
        sums = np.sum(seen * np.where(np.isfinite(score), score, 0.0), axis=0)
        return np.asarray(np.divide(sums, total, out=np.full_like(total, np.nan), where=total > 0))

    def _mean(
        self, score: NDArray[np.float64], weight: NDArray[np.float64], axis: int
    ) -> NDArray[np.float64]:
        present = np.isfinite(score) & (weight > 0)
        share = np.where(present, 1.0 if self.by_task else weight, 0.0)
        total = share.sum(axis=axis)
        sums = np.sum(share * np.where(present, score, 0.0), axis=axis)
        return np.asarray(np.divide(sums, total, out=np.full_like(total, np.nan), where=total > 0))
