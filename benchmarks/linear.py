"""How fast are the linear models? Measured against CVXPY and statsmodels, in one run.

Run it with ``python benchmarks/linear.py`` (about fifteen minutes), or try it with ``--quick``.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import warnings
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
from matplotlib.figure import Figure
from projection import RESULTS, times
from projection_report import _table, _time, _times
from scipy.sparse import block_diag
from statsmodels.regression.mixed_linear_model import MixedLM
from threadpoolctl import threadpool_limits

from crosslearning import Tether
from crosslearning.datasets import load_hsb82
from crosslearning.linear import CrossLogisticRegression, CrossRidge, CrossRidgeCV, cross_ridge_path
from crosslearning.linear.blocks import BLOCKS, coupling_of

RADIUS = 0.1  # ε as a share of its right end
SOLVER, ESTIMATOR = 20, 10  # times faster than CVXPY, as expected
STATEMENTS = ("task by task", "vectorised", "compressed")
PACKAGES = ("crosslearning", "numpy", "scikit-learn", "cvxpy", "clarabel", "statsmodels")
NOTES = f"""
Expected: the solver at least {SOLVER}×, the estimator at least {ESTIMATOR}× faster than CVXPY.

- ε is {RADIUS} of its right end, by block if there are two (coefficients, intercept); α = 1.
- *solver*: `Problem.fit`, given Gram matrices (ridge) or rows (logistic); *estimator*: all of
  `fit`, from checks of its input to `epsilon_max_`.
- CVXPY is given a loss and bounds for each task, as one would write it (*task by task*); the rows
  as one block-diagonal matrix (*vectorised*); or triangular factors in place of the rows, as our
  solver is given Gram matrices (*compressed*). In parentheses: Clarabel's own time, and its ratios.
- f of CVXPY's point, made feasible, is its excess over ours relative to 1 + |f|.
"""


class Plan(NamedTuple):
    """What to measure; a comparison ends after so many seconds if it has had two turns."""

    n_tasks: tuple[int, ...] = (10, 30, 100, 300, 1_000, 3_000, 10_000)
    n_rows: tuple[int, ...] = (10**3, 10**4, 10**5, 10**6)
    n_features: tuple[int, ...] = (2, 5, 10, 20, 50, 100, 200)
    runs: int = 9
    budget: float = 60.0


QUICK = Plan((10, 300), (10**3, 10**4), (2, 20), runs=1, budget=3.0)


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
        return rows, columns, design.problem(rows, scaling, model.alpha)

    @cached_property
    def coupling(self) -> Any:
        knob = dict.fromkeys(BLOCKS, np.inf) if self.by_block else np.inf
        free = coupling_of(knob, 0.0, 0.0, self.parts[2])
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


@dataclass(eq=False)
class Rival:
    """An instance stated anew for CVXPY by every call; remembers what came out."""

    instance: Instance
    statement: str
    solver_seconds: list[float] = field(default_factory=list)
    status: str = ""
    objective: float = np.nan

    @cached_property
    def tasks(self) -> list[tuple[Any, Any, float]]:
        """Matrix, targets and share of the ridge term of each task."""
        rows, X, _ = self.instance.parts
        tasks = []
        for own in (rows.tasks == task for task in range(rows.n_tasks)):
            matrix, target = X[own], rows.y[own]
            if self.statement == "compressed":
                rotation, matrix = np.linalg.qr(matrix)
                target = rotation.T @ target
            tasks.append((matrix, target, np.mean(own)))
        return tasks

    def __call__(self) -> None:
        n, p = self.instance.parts[2].loss.shape
        thetas, center = cp.Variable((n, p)), cp.Variable((1, p))
        size = 1 if self.statement == "task by task" else n
        groups = [self._group(thetas, center, slice(i, i + size)) for i in range(0, n, size)]
        cost, bounds = sum(group[0] for group in groups), [b for group in groups for b in group[1]]
        problem = cp.Problem(cp.Minimize(cost), bounds)
        problem.solve(solver=cp.CLARABEL)
        self.status = problem.status
        self.solver_seconds.append(problem.solver_stats.solve_time)
        self.objective = self.instance.objective(thetas.value, center.value)

    def _group(self, thetas: Any, center: Any, at: slice) -> tuple[Any, list[Any]]:
        """Cost and bounds of some tasks."""
        matrices, targets, shares = zip(*self.tasks[at], strict=True)
        root = np.tile(np.sqrt(shares)[:, None], thetas.shape[1] - 1)
        cost = 0.5 * cp.sum_squares(cp.multiply(root, thetas[at, :-1]))
        scores = block_diag(matrices, format="csr") @ cp.vec(thetas[at], order="C")
        target = np.concatenate(targets)
        logistic = cp.sum(cp.logistic(scores)) - target @ scores
        cost += logistic if self.instance.binary else 0.5 * cp.sum_squares(scores - target)
        offsets = thetas[at] - np.ones((len(shares), 1)) @ center
        tethers = zip(self.instance.coupling.blocks, self.instance.coupling.tethers, strict=True)
        return cost, [cp.norm(offsets[:, b], axis=1) <= t.epsilon for b, t in tethers]


def against_cvxpy(instance: Instance, plan: Plan) -> list[list[str]]:
    print(instance.name, file=sys.stderr)
    rivals = [Rival(instance, s) for s in STATEMENTS[: 2 if instance.binary else 3]]
    turns = times(instance.solve, instance.fit, *rivals, runs=plan.runs, budget=plan.budget)
    solver, estimator, *others = np.median(turns, axis=0)
    best = instance.solve()
    f = instance.objective(best.thetas, best.center)
    proof = f"f = {f:.8g}, {best.n_iter} steps, KKT residual {best.kkt_residual:.0e}"
    rows = [[instance.name, "solver", _time(solver), "", "", proof]]
    rows.append(["", "estimator", _time(estimator), "", "", ""])
    for rival, seconds in zip(rivals, others, strict=True):
        alone = float(np.median(rival.solver_seconds[1:]))
        cells = [f"CVXPY {rival.statement}", f"{_time(seconds)} ({_time(alone)})"]
        for own, expected in ((solver, SOLVER), (estimator, ESTIMATOR)):
            cells.append(f"{_verdict(seconds / own, expected)} ({_times(alone / own)})")
        rows.append(["", *cells, f"f {(rival.objective - f) / (1 + abs(f)):+.0e}, {rival.status}"])
    return rows


def _verdict(ratio: float, expected: float) -> str:
    return _times(ratio) + ("" if ratio >= expected else " **missed**")


def mixed(*, slopes: bool, **options: Any) -> str:
    """Fit a mixed model to hsb82, with standardised features, which it needs; say how it went."""
    data = load_hsb82()
    features = (data.X - data.X.mean()) / data.X.std()
    features.insert(0, "constant", 1.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = MixedLM(data.y, features, data.tasks, exog_re=features if slopes else None)
        result = model.fit(**options)
    word = "converged" if result.converged else "not converged"
    return f"{word}, log-likelihood {result.llf:.1f}, {len(caught)} warnings"


def against_mixed(plan: Plan) -> list[list[str]]:
    data = Instance.schools().data
    path = partial(cross_ridge_path, *data, n_epsilons=20)
    choice = partial(CrossRidgeCV(per_block=True, n_epsilons=20, cv=5).fit, *data)
    slopes = partial(mixed, slopes=True)
    rows = []
    for name, ours, rival, theirs, share in (
        ("path, 20 radii", path, "random intercept", partial(mixed, slopes=False), 1.0),
        ("`CrossRidgeCV`, two blocks", choice, "half of random slopes", slopes, 0.5),
        ("", choice, "half of the same by `lbfgs`", partial(slopes, method="lbfgs"), 0.5),
    ):
        print(rival, file=sys.stderr)
        own, other = np.median(times(ours, theirs, runs=plan.runs, budget=plan.budget), axis=0)
        times_faster = _verdict(share * other / own, 1.0)
        rows.append([name, _time(own), rival, _time(share * other), times_faster, theirs()])
    return rows


def growth(plan: Plan, *sizes: int) -> tuple[tuple[int, ...], float, float, Any]:
    """Sizes, seconds of solver and estimator, and the solution."""
    print(*sizes, file=sys.stderr)
    instance = Instance.random(*sizes)
    turns = times(instance.solve, instance.fit, runs=plan.runs, budget=plan.budget / 3)
    return sizes, *np.median(turns, axis=0), instance.solve()


def figure(grown: dict[str, list[Any]], path: Path) -> None:
    drawing = Figure(figsize=(11, 3.8), layout="constrained")
    panels = drawing.subplots(1, len(grown), sharey=True)
    for k, (axes, (label, rows)) in enumerate(zip(panels, grown.items(), strict=True)):
        sizes, solver, estimator, _ = zip(*rows, strict=True)
        varied = [size[k] for size in sizes]
        axes.loglog(varied, estimator, "o-", color="C3", label="CrossRidge.fit")
        axes.loglog(varied, solver, "s--", color="0.5", label="solver alone")
        axes.set(xlabel=label, ylabel="" if k else "seconds")
        axes.xaxis.set_minor_formatter("")
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].legend(frameon=False, loc="upper left")
    drawing.savefig(path, format="png", dpi=150)


def table(head: str, rows: list[list[str]]) -> str:
    return "\n".join(_table(head.split(", "), rows))


def page(cvxpy: list[list[str]], mixed: list[list[str]], grown: list[Any]) -> str:
    machine = f"{platform.machine()}, {os.cpu_count()} cores, BLAS on one thread"
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    command = " ".join(["python benchmarks/linear.py", *sys.argv[1:]])
    sizes = [
        [*map("{:,}".format, size), _time(s), _time(e), str(x.n_iter), f"{x.kkt_residual:.0e}"]
        for size, s, e, x in grown
    ]
    return f"""# The linear models, measured

`{command}` wrote this page and its figure. {machine}; Python
{platform.python_version()}, {versions}.
Load of the last 15 minutes: {os.getloadavg()[2]:.1f}, where 1 is this program alone. Times are
medians of up to 9 turns (one with `--quick`) in which all methods of a comparison take part.

## Against CVXPY and Clarabel
{NOTES}
{table("problem, method, time, × solver, × estimator, remarks", cvxpy)}

## Against mixed models

Expected: at least as fast.

{table("hsb82, time, `MixedLM`, its time, times faster, remarks", mixed)}

## How the time grows

![Time against tasks, rows and features](linear.png)

{table("tasks, rows, features, solver, estimator, steps, KKT residual", sizes)}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, one turn, no files")
    parser.add_argument("--out", type=Path, help="folder for the results (benchmarks/results)")
    options = parser.parse_args()
    plan = QUICK if options.quick else Plan()
    bases = (Instance.random(20, 300, 10), Instance.schools())
    losses = [one for base in bases for one in (base, base.logistic())]
    instances = [instance for one in losses for instance in (one, one.in_two_blocks())]
    axes = {
        "tasks (20 rows each, 5 features)": [(n, 20 * n, 5) for n in plan.n_tasks],
        "rows (100 tasks, 5 features)": [(100, n, 5) for n in plan.n_rows],
        "features (50 tasks, 20,000 rows)": [(50, 20_000, p) for p in plan.n_features],
    }
    with threadpool_limits(1, user_api="blas"):
        cvxpy = [row for instance in instances for row in against_cvxpy(instance, plan)]
        mixed_rows = against_mixed(plan)
        grown = {name: [growth(plan, *size) for size in sizes] for name, sizes in axes.items()}
    text = page(cvxpy, mixed_rows, [row for rows in grown.values() for row in rows])
    print(text)
    if options.out or not options.quick:
        folder = options.out or RESULTS
        folder.mkdir(parents=True, exist_ok=True)
        figure(grown, folder / ".linear.png")
        (folder / ".linear.md").write_text(text, encoding="utf-8")
        for name in ("linear.png", "linear.md"):
            (folder / f".{name}").replace(folder / name)


if __name__ == "__main__":
    main()
