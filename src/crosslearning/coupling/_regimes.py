"""Where to solve: among the tasks, among the parameters, or as the paper does."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from crosslearning.coupling._center_function import CenterFunction
from crosslearning.coupling._checks import check_start, check_stopping
from crosslearning.coupling._columns import gram_of_differences
from crosslearning.coupling._dual_subgradient import subgradient_pulls
from crosslearning.coupling._gram import solve_gram
from crosslearning.coupling._newton import minimise
from crosslearning.coupling._problem import Problem, Solution
from crosslearning.coupling._result import Projection, Status
from crosslearning.coupling._solve import SAFETY, solve

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["algorithm_2", "newton"]


def newton(problem: Problem, start: ArrayLike | None, tol: float, max_iter: int) -> Projection:
    """Solve exactly, in the smaller of the two spaces."""
    check_stopping(tol, max_iter)
    pull = check_start(start, len(problem.z))
    n_tasks, n_parameters = problem.z.shape
    if n_parameters < n_tasks:
        function, scale = _function_of_parameters(problem)
        point, n_iter = solve(function, pull, tol, max_iter)
        return problem.apply(Solution(point.pull, point.center * scale, n_iter), tol, max_iter)
    gram = gram_of_differences(problem.z, problem.base)
    step = solve_gram(gram, problem.tether, problem.weight, pull, tol, max_iter)
    solution = Solution(step.pull, problem.combination(step.weights), step.n_iter)
    result = problem.apply(solution, tol, max_iter)
    if result.status in (Status.CONVERGED, Status.UNRESOLVED):
        return result
    # The squares in a Gram matrix hide distances below 1e-8 of the largest one.
    return problem.apply(_polished(problem, solution, tol, max_iter), tol, max_iter)


def algorithm_2(problem: Problem, start: ArrayLike | None, tol: float, max_iter: int) -> Projection:
    """Solve approximately, by the paper's dual subgradient method and its own stopping rule."""
    if problem.weight == 0:
        raise ValueError(
            "The paper's Algorithm 2 starts from a given centre; got none. Give `center`, or use "
            "method='newton' for a free centre."
        )
    check_stopping(tol, max_iter)
    pull, n_iter, converged = subgradient_pulls(
        gram_of_differences(problem.z, problem.base),
        problem.tether.epsilon,
        problem.weight,
        check_start(start, len(problem.z)),
        tol,
        max_iter,
    )
    offset = problem.combination(pull / (problem.weight + pull.sum()))
    result = problem.apply(Solution(pull, offset, n_iter), tol, max_iter)
    status = Status.CONVERGED if converged else Status.MAX_ITER
    return replace(result, status=status)


def _function_of_parameters(problem: Problem) -> tuple[CenterFunction, float]:
    """Build the function of the centre over all parameters, in units of the largest distance."""
    points = np.subtract(problem.z, problem.base, dtype=np.float64)
    scale = float(np.einsum("ij,ij->i", points, points).max()) ** 0.5 or 1.0
    points /= scale
    return CenterFunction(points, problem.tether.scaled(length=scale), problem.weight), scale


def _polished(problem: Problem, solution: Solution, tol: float, max_iter: int) -> Solution:
    """Newton steps over all parameters, from a centre that is exact but for a Gram matrix."""
    function, scale = _function_of_parameters(problem)
    budget = max(1, max_iter - solution.n_iter)
    point, n_iter = minimise(function, solution.offset / scale, SAFETY * tol, budget)
    return Solution(point.pull, point.center * scale, solution.n_iter + n_iter)
