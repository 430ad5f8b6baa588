"""The projection by a generic solver, in a process of its own that can be given up."""

from __future__ import annotations

import multiprocessing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from projection_stopwatch import Stopwatch

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

LIMIT = 300.0  # seconds of a solve
PATIENCE = 3.0 * LIMIT  # by the clock, which on a busy machine runs faster
FORMULATIONS = ("tasks and centre", "centre only")


@dataclass(frozen=True, eq=False)
class Answer:
    """Seconds with CVXPY's compilation, and the solution if there is one."""

    remark: str
    seconds: float | None = None
    thetas: Array | None = None
    center: Array | None = None


def solve_in_child(
    formulation: str, solver: str, z: Array, center: Array, epsilon: float
) -> Answer:
    """Solve in a new process; over the limit, or after a failure, the remark says what happened."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    arguments = (sender, formulation, solver, z, center, epsilon)
    child = context.Process(target=_answer, args=arguments, daemon=True)
    child.start()
    sender.close()  # so that a child that dies closes the pipe
    try:
        answer = receiver.recv() if receiver.poll(PATIENCE) else None
        in_time = answer is not None and (answer.seconds or 0.0) <= LIMIT
        return answer if in_time else Answer(f"over {LIMIT / 60:.0f} min")
    except EOFError:
        child.join()
        return Answer(f"the process ended with code {child.exitcode} and no answer")
    finally:
        child.kill()
        child.join()


def _answer(pipe: Connection, *problem: Any) -> None:
    formulation, solver, *_ = problem
    try:
        _solve(formulation, solver, np.ones((1, 1)), np.zeros(1), 0.5)  # imports; not counted
        pipe.send(_solve(*problem))
    except Exception as error:
        first_sentence = str(error).partition(". ")[0].partition("\n")[0]
        pipe.send(Answer(f"{type(error).__name__}: {first_sentence}"))


def _solve(formulation: str, solver: str, z: Array, z_g: Array, epsilon: float) -> Answer:
    """Second-order cones either way, stated relative to the centre, default settings."""
    import cvxpy as cp

    clock = Stopwatch()
    u = z - z_g
    c = cp.Variable((1, z.shape[1]))
    if formulation == FORMULATIONS[0]:
        x = cp.Variable(z.shape)
        cost = cp.sum_squares(x - u) + cp.sum_squares(c)
        problem = cp.Problem(cp.Minimize(cost), [cp.norm(x - c, axis=1) <= epsilon])
    else:  # every task at its best place around the centre
        excess = cp.pos(cp.norm(u - c, axis=1) - epsilon)
        problem = cp.Problem(cp.Minimize(cp.sum_squares(excess) + cp.sum_squares(c)))
    data, chain, inverse = problem.get_problem_data(solver.upper(), solver_opts={})
    compilation = clock.seconds()
    problem.unpack_results(chain.solve_via_data(problem, data), chain, inverse)
    seconds = clock.seconds()
    remark = f"{seconds - compilation:.3f} s without compilation"
    if problem.status != cp.OPTIMAL:
        remark += f"; {problem.status}"
    if c.value is None:
        return Answer(remark, seconds)
    thetas = x.value if formulation == FORMULATIONS[0] else _tasks(u, c.value, epsilon)
    return Answer(remark, seconds, z_g + thetas, z_g + c.value[0])


def _tasks(u: Array, c: Array, epsilon: float) -> Array:
    """Nearest points of the ball around the centre."""
    distance = np.linalg.norm(u - c, axis=1, keepdims=True)
    return c + (u - c) * np.minimum(1.0, epsilon / distance)
