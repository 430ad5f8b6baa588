"""How fast are the linear models? Measured against CVXPY and statsmodels, in one run.

Run it with ``python benchmarks/linear.py`` (about fifteen minutes), or try it with ``--quick``.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from linear_cvxpy import STATEMENTS, Rival
from linear_instance import Instance
from linear_report import ESTIMATOR, SOLVER, figure, page, verdict
from projection import RESULTS, times
from projection_report import _time, _times
from statsmodels.regression.mixed_linear_model import MixedLM
from threadpoolctl import threadpool_limits

from crosslearning.datasets import load_hsb82
from crosslearning.linear import CrossRidgeCV, cross_ridge_path


class Plan(NamedTuple):
    """What to measure; a comparison ends after so many seconds if it has had two turns."""

    n_tasks: tuple[int, ...] = (10, 30, 100, 300, 1_000, 3_000, 10_000)
    n_rows: tuple[int, ...] = (10**3, 10**4, 10**5, 10**6)
    n_features: tuple[int, ...] = (2, 5, 10, 20, 50, 100, 200)
    runs: int = 9
    budget: float = 60.0


QUICK = Plan((10, 300), (10**3, 10**4), (2, 20), runs=1, budget=3.0)


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
            cells.append(f"{verdict(seconds / own, expected)} ({_times(alone / own)})")
        rows.append(["", *cells, f"f {(rival.objective - f) / (1 + abs(f)):+.0e}, {rival.status}"])
    return rows


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
    choice = partial(CrossRidgeCV(n_epsilons=20, cv=5).fit, *data)
    slopes = partial(mixed, slopes=True)
    rows = []
    for name, ours, rival, theirs, share in (
        ("path, 20 radii", path, "random intercept", partial(mixed, slopes=False), 1.0),
        ("`CrossRidgeCV`", choice, "half of random slopes", slopes, 0.5),
        ("", choice, "half of the same by `lbfgs`", partial(slopes, method="lbfgs"), 0.5),
    ):
        print(rival, file=sys.stderr)
        own, other = np.median(times(ours, theirs, runs=plan.runs, budget=plan.budget), axis=0)
        times_faster = verdict(share * other / own, 1.0)
        rows.append([name, _time(own), rival, _time(share * other), times_faster, theirs()])
    return rows


def growth(plan: Plan, *sizes: int) -> tuple[tuple[int, ...], float, float, Any]:
    """Sizes, seconds of solver and estimator, and the solution."""
    print(*sizes, file=sys.stderr)
    instance = Instance.random(*sizes)
    turns = times(instance.solve, instance.fit, runs=plan.runs, budget=plan.budget / 3)
    return sizes, *np.median(turns, axis=0), instance.solve()


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
