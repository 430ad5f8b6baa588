"""Scores of candidates on held-out rows, by fold and task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from crosslearning.convex.solver.design import Design
from crosslearning.convex.solver.problem import ConvexProblem
from crosslearning.convex.sums.columns import Scaling
from crosslearning.convex.sums.table import Data, TaskTable
from crosslearning.evaluation import Scores
from crosslearning.evaluation.scoring import Predicted, Scorer, score_tasks
from crosslearning.linear._search import Candidate
from crosslearning.tether import Array, Indices

Pair = tuple[Array, Array]
FoldScorers = Callable[[Any, Indices], Callable[..., Pair]]
Roots = Callable[[Design, Data, Scaling], tuple[Array | None, float | None]]


_CONVERGED = 1e-5  # a larger relative residual may show in a score


@dataclass(frozen=True, eq=False)
class FoldScorer:
    """Scores the predictions of linear models for held-out rows, task by task."""

    scorer: Scorer | None
    predicted: Callable[[Array], Predicted]  # from linear scores
    targets: Callable[[NDArray[Any]], NDArray[Any]]  # users' targets from encoded ones
    rows: TaskTable
    models: Indices  # number of the model that predicts each task

    def __call__(self, coef: Array, intercept: Array) -> Pair:
        """Score and weight of each task."""
        rows, at = self.rows, self.models[self.rows.tasks]
        predicted = self.predicted(np.einsum("rp,rqp->rq", rows.X, coef[at]) + intercept[at])
        y = self.targets(rows.y)
        return score_tasks(
            self.scorer, predicted, rows.X, y, rows.weights, rows.tasks, rows.n_tasks
        )


@dataclass(eq=False)
class Fold:
    """A problem on the training rows, and a judge that scores the held-out rows."""

    design: Design
    scaling: Scaling
    problem: ConvexProblem
    root: Array | None  # of the metric
    scorer: Callable[..., Pair]
    _ridged: dict[float, ConvexProblem] = field(default_factory=dict)

    @classmethod
    def of(cls, design: Design, train: Data, test: Data, judges: FoldScorers, roots: Roots) -> Fold:
        """Build a fold from training and held-out data; the metric is learned from the former."""
        scaling = design.scaling(train)
        # The centre, which is the last model, predicts tasks without training rows.
        models = np.where(train.counts > 0, np.arange(train.n_tasks), train.n_tasks)
        problem, root = design.problem(train, scaling), roots(design, train, scaling)[0]
        return cls(design, scaling, problem, root, judges(test, models))

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
            models = self.scaling.to_user(self.design.matrices(everyone))
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
