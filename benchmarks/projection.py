"""How fast is the exact projection? Measured against Algorithm 2, CVXPY and a memcpy, in one run.

Run it with ``make bench`` (about twenty minutes), or try it out with
``python benchmarks/projection.py --quick``.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
from projection_algorithm_2 import CLOSE, STEPS, iterations_needed, pulls_after, stand_ins
from projection_cvxpy import FORMULATIONS, solve_in_child
from projection_instance import Instance
from projection_report import Case, Growth, Report, Row
from projection_stopwatch import Stopwatch
from threadpoolctl import threadpool_limits

from crosslearning import Tether
from crosslearning.coupling import certificate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from crosslearning.coupling import Projection

    Array = NDArray[np.float64]

RADII = (0.5, 0.1)  # ε as a share of the median distance to the given centre
RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Plan:
    """What to measure."""

    sizes: tuple[tuple[int, int], ...] = ((4, 10**4), (4, 10**5), (32, 10**5), (200, 10**3))
    n_tasks: tuple[int, ...] = (2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000)
    n_parameters: tuple[int, ...] = (10**3, 10**4, 10**5, 10**6, 10**7)
    iterations: int = 100_000
    solvers: tuple[str, ...] = ("Clarabel", "SCS")


QUICK = Plan(
    sizes=((4, 10**4), (200, 10**3)),
    n_tasks=(2, 20, 200),
    n_parameters=(10**3, 10**4, 10**5),
    iterations=10_000,
    solvers=(),
)


@dataclass(frozen=True, eq=False)
class Contender:
    """A row of the table, and what is still to be timed for it."""

    row: Row
    function: Callable[[], object] | None = None


def times(*functions: Callable[[], object], runs: int = 9, budget: float = 20.0) -> Array:
    """Seconds of each function (columns) in each run; fewer runs where they take long.

    The functions take turns, so that they meet the same noise and the same state of the memory
    allocator; the first turn does not count.
    """
    turns: list[list[float]] = []
    start = perf_counter()
    while len(turns) < 2 or (len(turns) <= runs and perf_counter() < start + budget):
        turns.append([])
        for function in functions:
            clock = Stopwatch()
            function()
            turns[-1].append(clock.seconds())
    return np.array(turns[1:])


def memcpy(z: Array) -> Callable[[], None]:
    """Copy the tasks to memory that is already there."""
    target = z.copy()
    return lambda: np.copyto(target, z)


def errors(thetas: Array, center: Array, exact: Projection, epsilon: float) -> tuple[float, float]:
    """Distance to the exact solution in units of ε: the largest of the tasks, and the centre's."""
    tasks = max(float(np.linalg.norm(row)) for row in thetas - exact.thetas)
    return tasks / epsilon, float(np.linalg.norm(center - exact.center)) / epsilon


def newton(instance: Instance, exact: Projection) -> Contender:
    """Newton's method; its distance to the solution is a bound that its certificate proves.

    The function of the centre is strongly convex with constant 1, the weight of the centre, so its
    gradient bounds the error of the centre; and no task errs more than the centre it goes to.
    """
    z, center = instance.z, instance.center
    proof = certificate(exact.thetas, exact.center, z, Tether(instance.epsilon), center=center)
    unit = max(1.0, np.linalg.norm(z - center, axis=1).max() / instance.epsilon)
    of_center = unit * proof.imbalance * (1 + len(z))
    off = (of_center + unit * proof.misplacement, of_center)
    row = Row("`project` (Newton)", 0.0, *off, f"{exact.n_iter} steps", proven=True)
    return Contender(row, instance.project)


def algorithm_2(instance: Instance, exact: Projection, limit: int) -> Iterator[Contender]:
    """The paper's Algorithm 2 with the default step constant, and with the best in hindsight."""
    gram, epsilon = instance.gram(), instance.epsilon
    needed = {step: iterations_needed(gram, epsilon, step, limit) for step in STEPS}
    best = min(STEPS, key=lambda step: (needed[step][1] > CLOSE, *needed[step]))
    for step, name in ((STEPS[0], "default"), (best, "best")):
        iterations, distance = needed[step]
        run = partial(pulls_after, gram, epsilon, step, iterations)
        result = instance.apply(run())
        row = Row(
            f"Algorithm 2, {name} α = {step:,}",
            0.0,
            *errors(result.thetas, result.center, exact, epsilon),
            f"{iterations:,} iterations",
            finished=distance <= CLOSE,
        )
        yield Contender(row, lambda run=run: instance.apply(run()))


def cvxpy(instance: Instance, exact: Projection, solvers: tuple[str, ...]) -> Iterator[Contender]:
    """CVXPY on the full problem in two formulations, and on the small one that `project` solves."""
    epsilon = instance.epsilon
    for solver, formulation in product(solvers, FORMULATIONS):
        answer = solve_in_child(formulation, solver, instance.z, instance.center, epsilon)
        name = f"CVXPY + {solver}, {formulation}"
        print(f"  {name}: {answer.remark}", file=sys.stderr)
        solved = answer.thetas is not None
        off = errors(answer.thetas, answer.center, exact, epsilon) if solved else (None, None)
        yield Contender(Row(name, answer.seconds, *off, answer.remark))
    for solver in solvers:
        yield reduced_cvxpy(instance, exact, solver)


def reduced_cvxpy(instance: Instance, exact: Projection, solver: str) -> Contender:
    """CVXPY in N dimensions: how much of the gain is the Gram matrix, how much is Newton."""
    name = f"CVXPY + {solver} on the Gram matrix"
    tasks = stand_ins(instance.gram())
    origin = np.zeros(len(tasks))
    answer = solve_in_child(FORMULATIONS[0], solver, tasks, origin, instance.epsilon)
    if answer.thetas is None:
        return Contender(Row(name, answer.seconds, remark=answer.remark))
    distance = np.linalg.norm(tasks - answer.center, axis=1)
    pull = np.maximum(1.0 - instance.epsilon / distance, 0.0)
    result = instance.apply(pull)
    off = errors(result.thetas, result.center, exact, instance.epsilon)
    return Contender(Row(name, answer.seconds, *off, answer.remark), partial(instance.apply, pull))


def timed(contenders: list[Contender]) -> list[Row]:
    """Rows with the median time of what was still to be timed."""
    functions = [c.function for c in contenders if c.function]
    medians = iter(np.median(times(*functions), axis=0))
    return [
        replace(c.row, seconds=c.row.seconds + float(next(medians))) if c.function else c.row
        for c in contenders
    ]


def case(n_tasks: int, n_parameters: int, radius: float, plan: Plan) -> Case:
    """Compare all methods on one problem; CVXPY on the first radius only."""
    print(f"N = {n_tasks:,}, S = {n_parameters:,}, ε = {radius} median", file=sys.stderr)
    instance = Instance.random(n_tasks, n_parameters, radius)
    exact = instance.project()
    contenders = [
        newton(instance, exact),
        *algorithm_2(instance, exact, plan.iterations),
        *cvxpy(instance, exact, plan.solvers if radius == RADII[0] else ()),
    ]
    references = [
        Row("memcpy of the tasks", float(np.median(times(memcpy(instance.z))))),
        Row("Gram matrix of the differences", float(np.median(times(instance.gram)))),
    ]
    n_active = int(exact.active.sum())
    return Case(n_tasks, n_parameters, radius, n_active, timed(contenders), references)


def growth(n_tasks: int, n_parameters: int) -> Growth:
    """Time of one projection beside a memcpy; the fastest runs, since noise only slows down."""
    print(f"N = {n_tasks:,}, S = {n_parameters:,}", file=sys.stderr)
    instance = Instance.random(n_tasks, n_parameters, RADII[0])
    exact = instance.project()
    copy = times(memcpy(instance.z), runs=51).min()
    seconds = times(instance.project, runs=21).min()
    return Growth(n_tasks, n_parameters, seconds, copy, exact.n_iter, exact.kkt_residual)


def measure(plan: Plan) -> Report:
    with threadpool_limits(1, user_api="blas"):
        return Report(
            cases=[case(n, s, radius, plan) for n, s in plan.sizes for radius in RADII],
            by_tasks=[growth(n, 2_000) for n in plan.n_tasks],
            by_parameters=[growth(4, s) for s in plan.n_parameters],
            iterations=plan.iterations,
            steps=STEPS,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="no CVXPY, no large sizes, no files")
    parser.add_argument("--out", type=Path, help="folder for the results (benchmarks/results)")
    options = parser.parse_args()
    missing = [name for name in ("cvxpy", "clarabel", "scs") if find_spec(name) is None]
    if missing and not options.quick:
        sys.exit(f"{', '.join(missing)} not installed: run `make bench`, or try --quick.")
    report = measure(QUICK if options.quick else Plan())
    print(report.markdown())
    if options.out or not options.quick:
        report.save(options.out or RESULTS)


if __name__ == "__main__":
    main()
