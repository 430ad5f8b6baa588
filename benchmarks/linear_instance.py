"""Problems to time the linear models on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from crosslearning import Tether
from crosslearning.convex.solver.problem import BLOCKS
from crosslearning.datasets import load_hsb82
from crosslearning.linear import CrossLogisticRegression, CrossRidge

RADIUS = 0.1  # ε as a share of its right end


@dataclass(frozen=True, eq=False)
class Instance:
    """Data, and what an estimator makes of them step by step."""

    name: str
    data: tuple[Any, Any, Any]
    binary: bool = False
    by_block: bool = False

    @classmethod
    def random(cls, n_tasks: int, n_rows: int, n_features: int) -> Instance:
        """Tasks around a common model, of sizes that differ by chance."""
        rng = np.random.default_rng(0)
        tasks = np.append(np.arange(n_tasks), rng.integers(n_tasks, size=n_rows - n_tasks))
        X = rng.normal(size=(n_rows, n_features))
        coef = rng.normal(size=n_features) + 0.5 * rng.normal(size=(n_tasks, n_features))
        y = np.einsum("rp,rp->r", X, coef[tasks]) + rng.normal(size=n_rows)
        return cls(f"{n_tasks:,} tasks, {n_rows:,} rows, {n_features} features", (X, y, tasks))

    @classmethod
    def schools(cls) -> Instance:
        data = load_hsb82()
        return cls("hsb82 (160 tasks)", (data.X, data.y, data.tasks))

    def logistic(self) -> Instance:
        X, y, tasks = self.data
        return Instance(f"{self.name}, logistic", (X, y > np.median(y), tasks), True)

    def in_two_blocks(self) -> Instance:
        return replace(self, name=f"{self.name}, two blocks", by_block=True)

    @property
    def kind(self) -> type[CrossRidge | CrossLogisticRegression]:
        return CrossLogisticRegression if self.binary else CrossRidge

    @cached_property
    def parts(self) -> tuple[Any, Any, Any]:
        """Rows, their scaled columns, and the problem."""
        model = self.kind()
        rows = model._check_rows(*self.data, None)
        design = model._design()
        scaling = design.scaling(rows)
        columns = scaling.columns(rows.X, intercept=True)
        return rows, columns, design.problem(rows, scaling).with_ridge(model.alpha)

    @cached_property
    def coupling(self) -> Any:
        knob = dict.fromkeys(BLOCKS, np.inf) if self.by_block else np.inf
        free = self.parts[2].coupling(knob, 0.0, 0.0)
        ends = [self.parts[2].end(free, block) for block in range(len(free.blocks))]
        return replace(free, tethers=tuple(Tether(RADIUS * end) for end in ends))

    def solve(self) -> Any:
        """Solve, with nothing remembered from an earlier solution."""
        problem = self.parts[2]
        return replace(problem, loss=replace(problem.loss)).fit(self.coupling)

    def fit(self) -> Any:
        radii = [tether.epsilon for tether in self.coupling.tethers]
        epsilon = dict(zip(BLOCKS, radii, strict=True)) if self.by_block else radii[0]
        return self.kind(epsilon).fit(*self.data)

    def objective(self, thetas: Any, center: Any) -> float:
        feasible = center + self.coupling.clipped(thetas - center)
        return float(self.parts[2].loss.value(feasible).sum())
