"""The convex problem: its solution, its exact limits, and undetermined parameters."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from crosslearning.convex.solver.augmented_lagrangian import ConvexSolution, certified, solve
from crosslearning.convex.solver.losses import Loss
from crosslearning.convex.solver.tethers import BlockTethers
from crosslearning.convex.sums.rows import times_each
from crosslearning.coupling import nearest_center, smallest_enclosing_ball
from crosslearning.tether import Array, Flags, Tether

PerBlock = float | dict[str, float]

BLOCKS = ("coef", "intercept")
_FREE = {"epsilon": np.inf, "stiffness": 0.0, "tension": 0.0}
_POOLED, _SEPARATE = Tether(0.0), Tether()
_NO_FORCE = 1e-8  # forces below this share of the scale hold nothing
_MAX_ROUNDS = 100
_WARM = 50  # Newton steps from a similar solution, before another start is tried
_FAR = 10.0  # residual, in tolerances, that asks for another start
_SHARED = ("pooled", "separate", "_unseen", "_undetermined", "_balls")  # whatever the tolerance
_ROUGH = 1e-7  # relative residual that is plenty for the end of a path
_RANK = 1e-13  # eigenvalues of a Gram matrix below this share of the largest are rounding
_TOL = 1e-10  # largest component of a gradient, relative to its size at 0
_DECREASE = 1e-4  # Armijo's constant
_ROUNDING = 1e-13  # relative error of a value


@dataclass(frozen=True, eq=False)
class ConvexProblem:
    """Losses, weights of tasks in a mean, shares in a ridge term, and where the intercepts are."""

    loss: Loss
    weights: Array
    shares: Array
    intercept: slice
    tol: float = 1e-10  # relative residual to aim for
    max_iter: int = 2000

    def with_ridge(self, alpha: float) -> "ConvexProblem":
        """Add a ridge term on the coefficients, divided among the tasks."""
        ridge = np.tile(alpha * self.shares[:, None], self.loss.shape[1])
        ridge[:, self.intercept] = 0.0
        return replace(self, loss=self.loss.with_ridge(ridge))

    def in_variables(self, matrix: Array | None) -> "ConvexProblem":
        """Return the problem in u, where parameters are matrix u, if there is one."""
        return self if matrix is None else replace(self, loss=self.loss.in_variables(matrix))

    def coupling(self, epsilon: PerBlock, stiffness: PerBlock, tension: PerBlock) -> BlockTethers:
        """Return the tethers for values as users give them: one for all, or one per block."""
        knobs = {"epsilon": epsilon, "stiffness": stiffness, "tension": tension}
        P, at = self.loss.shape[1], self.intercept
        apart = per_block(*knobs.values()) and at.start < P
        slices = (slice(0, at.start), at) if apart else (slice(0, P),)
        values = [_by_block(name, knob, BLOCKS[: len(slices)]) for name, knob in knobs.items()]
        return BlockTethers(slices, tuple(Tether(*knob) for knob in zip(*values, strict=True)))

    @cached_property
    def separate(self) -> ConvexSolution:
        thetas = independent(self.loss, self.intercept, self.max_iter)
        return self._limit(thetas, self.mean(thetas), _SEPARATE)

    @cached_property
    def pooled(self) -> ConvexSolution:
        center = independent(self.loss.pooled(), self.intercept, self.max_iter)[0]
        return self._limit(center + np.zeros(self.loss.shape), center, _POOLED)

    @cached_property
    def _unseen(self) -> Array:
        """Orthonormal directions, as columns, that no task's data see; most often none."""
        together = self.loss.hessian(np.zeros(self.loss.shape)).sum(axis=0, keepdims=True)
        values, vectors = np.linalg.eigh(together)
        return np.asarray(vectors[0][:, ~_significant(values)[0]])

    @cached_property
    def _undetermined(self) -> Flags:
        """Which tasks have directions that their data do not see."""
        values = np.linalg.eigvalsh(self.loss.hessian(np.zeros(self.loss.shape)))
        return np.asarray(~_significant(np.asarray(values)).all(axis=1))

    def mean(self, thetas: Array) -> Array:
        return np.asarray(self.weights @ thetas / self.weights.sum())

    def fit(self, coupling: BlockTethers, start: ConvexSolution | None = None) -> ConvexSolution:
        """Solve for a coupling, from a similar solution if there is one."""
        if all(tether == _POOLED for tether in coupling.tethers):
            return self.pooled
        if all(tether == _SEPARATE for tether in coupling.tethers):
            return self.separate
        separate = self._separate_within(coupling)
        if separate is not None:
            return self._settled(coupling, separate)
        if start is not None:
            near = self._solved(coupling, start, min(self.max_iter, _WARM))
            solution = self._settled(coupling, near)
            if solution.kkt_residual <= _FAR * self.tol:
                return solution  # otherwise near, but on the wrong side of a kink
        solution = self._solved(coupling, self._first(coupling), self.max_iter)
        return self._settled(coupling, solution)

    def _solved(
        self, coupling: BlockTethers, start: ConvexSolution, max_iter: int, *, fixed: bool = False
    ) -> ConvexSolution:
        goal, unseen = self.tol * self.loss.scale, self._unseen
        return solve(self.loss, coupling, start, unseen, goal, max_iter, fixed_center=fixed)

    def _first(self, coupling: BlockTethers) -> ConvexSolution:
        """Start at the pooled model or, under tension, which is flat, at a task in the middle."""
        none = np.zeros(self.loss.shape)
        if not any(np.any(tether.tension) for tether in coupling.tethers):
            return replace(self.pooled, forces=none)
        thetas = self.separate.thetas
        return ConvexSolution(thetas, np.sort(thetas, axis=0)[len(thetas) // 2], none)

    def _separate_within(self, coupling: BlockTethers) -> ConvexSolution | None:
        """Return the separate solutions around a centre that has them within the radii, if any."""
        if not all(tether.is_ball and np.ndim(tether.epsilon) == 0 for tether in coupling.tethers):
            return None
        center = self.separate.center.copy()
        for b, tether in zip(coupling.blocks, coupling.tethers, strict=True):
            points = self.separate.thetas[:, b]
            # Half a distance is cheap, and most often enough to say no.
            if np.linalg.norm(points - points[0], axis=1).max() > 2.0 * tether.epsilon:
                return None
            if tether.epsilon < np.inf:
                key = (b.start, b.stop)
                if key not in self._balls:
                    self._balls[key] = smallest_enclosing_ball(points)
                center[b], radius = self._balls[key]
                if radius > tether.epsilon:
                    return None
        return replace(self.separate, center=center)

    @cached_property
    def _balls(self) -> dict[tuple[int, int], tuple[Array, float]]:
        """Smallest balls around blocks of the separate solutions."""
        return {}

    def fit_task(self, coupling: BlockTethers, center: Array) -> ConvexSolution:
        """Solve for the tasks alone, around a given centre."""
        none = np.zeros(self.loss.shape)
        start = ConvexSolution(center + none, center, none)
        solution = self._solved(coupling, start, self.max_iter, fixed=True)
        solution = self._nearest_tasks(coupling, solution)
        return certified(self.loss, coupling, solution, fixed_center=True)

    def ends(self, coupling: BlockTethers, start: ConvexSolution) -> list[float]:
        """Smallest radius of each block at which its bound is inactive."""
        return [self.end(coupling, b, start) for b in range(len(coupling.blocks))]

    def end(self, coupling: BlockTethers, block: int, start: ConvexSolution | None = None) -> float:
        tether, at = coupling.tethers[block], coupling.blocks[block]
        free = Tether(np.inf, tether.stiffness, tether.tension)
        tethers = (*coupling.tethers[:block], free, *coupling.tethers[block + 1 :])
        if start is not None and tether.is_ball:
            start = replace(start, forces=start.forces.copy())
            start.forces[:, at] = 0.0
        rough = replace(self, tol=max(self.tol, _ROUGH))
        rough.__dict__.update({k: v for k, v in vars(self).items() if k in _SHARED})
        solution = rough.fit(BlockTethers(coupling.blocks, tethers), start)
        if tether.is_ball:
            return smallest_enclosing_ball(solution.thetas[:, at])[1]
        offsets = solution.thetas[:, at] - solution.center[at]
        return float(np.linalg.norm(offsets, axis=1).max())

    def _limit(self, thetas: Array, center: Array, tether: Tether) -> ConvexSolution:
        coupling = BlockTethers((slice(None),), (tether,))
        return certified(self.loss, coupling, ConvexSolution(thetas, center, np.zeros_like(thetas)))

    def _settled(self, coupling: BlockTethers, solution: ConvexSolution) -> ConvexSolution:
        """Take the tasks nearest the centre, and the centre nearest the mean, if left open."""
        for _ in range(_MAX_ROUNDS):
            solution = self._nearest_tasks(coupling, solution)
            # The centre nearest the mean of the tasks, in the blocks where no force determines it.
            center = solution.center.copy()
            for b, tether in zip(coupling.blocks, coupling.tethers, strict=True):
                if np.abs(solution.forces[:, b]).max() <= _NO_FORCE * self.loss.scale:
                    points = solution.thetas[:, b]
                    center[b] = nearest_center(points, tether.epsilon, self.mean(points), center[b])
            moved = np.abs(center - solution.center).max()
            solution = replace(solution, center=center)
            if moved <= 1e-12 * (1.0 + np.abs(center).max()):
                break
        shift = self._unseen @ (self._unseen.T @ solution.center)
        thetas, center = solution.thetas - shift, solution.center - shift
        return certified(self.loss, coupling, replace(solution, thetas=thetas, center=center))

    def _nearest_tasks(self, coupling: BlockTethers, solution: ConvexSolution) -> ConvexSolution:
        """Drop from the offsets what neither data nor tether see."""
        fixed = np.empty(self.loss.shape, dtype=bool)
        for b, tether in zip(coupling.blocks, coupling.tethers, strict=True):
            force = np.abs(solution.forces[:, b]).max(axis=1)
            fixed[:, b] = ((force > _NO_FORCE * self.loss.scale) | (not tether.is_ball))[:, None]
        loose = self._undetermined & ~fixed.all(axis=1)
        if not loose.any():
            return solution
        H = self.loss.hessian(solution.thetas)[loose]
        size = np.trace(H, axis1=1, axis2=2)
        diagonal = np.arange(H.shape[1])
        H[:, diagonal, diagonal] += fixed[loose] * (size + (size == 0))[:, None]
        offsets = solution.thetas - solution.center
        values, vectors = np.linalg.eigh(H)
        seen = vectors * _significant(values)[:, None, :]
        offsets[loose] = times_each(seen, times_each(seen.transpose(0, 2, 1), offsets[loose]))
        fits = np.all(coupling.clipped(offsets) == offsets, axis=1) & loose
        thetas = np.where(fits[:, None], solution.center + offsets, solution.thetas)
        return replace(solution, thetas=thetas)


def per_block(*knobs: PerBlock) -> bool:
    """Whether any of the values is given by block."""
    return any(isinstance(knob, dict) for knob in knobs)


def _by_block(name: str, knob: PerBlock, blocks: tuple[str, ...]) -> list[float]:
    """Value of each block; those that are left out are free."""
    if not isinstance(knob, dict):
        return [knob] * len(blocks)
    unknown = set(knob) - set(BLOCKS)
    if unknown:
        raise ValueError(
            f"The blocks of `{name}` are 'coef' and 'intercept'; got {sorted(unknown)}. "
            "Omit a block to leave it free."
        )
    return [knob.get(block, _FREE[name]) for block in blocks]


def independent(loss: Loss, intercept: slice, max_iter: int) -> Array:
    """Minimise each task's loss by itself: Newton steps with one step length per task.

    Where the data leave parameters open, those with the least coefficients are taken. Parameters
    of a separable classification grow until the gradient is negligible.
    """
    thetas = np.zeros(loss.shape)
    value, gradient = loss.value(thetas), loss.gradient(thetas)
    goal = _TOL * np.maximum(np.abs(gradient).max(axis=1), 1e-4 * loss.scale)
    for _ in range(max_iter):
        unfinished = np.abs(gradient).max(axis=1) > goal
        if not unfinished.any():
            break
        step = -_least_norm_solution(loss.hessian(thetas), gradient, intercept)
        step[~unfinished] = 0.0
        slope = np.einsum("np,np->n", gradient, step)
        length = np.ones(len(thetas))
        for _ in range(30):
            further = thetas + length[:, None] * step
            new = loss.value(further)
            too_high = new > value + _DECREASE * length * slope + _ROUNDING * np.abs(value)
            if not too_high.any():
                break
            length[too_high] *= 0.5
        thetas, value, gradient = further, new, loss.gradient(further)
    return thetas


def _least_norm_solution(H: Array, g: Array, intercept: slice) -> Array:
    """Solve H x = g for each task; of several solutions the one with the least coefficients."""
    at = np.arange(H.shape[1])[intercept]
    rest = np.setdiff1d(np.arange(H.shape[1]), at)
    inverse = _pseudo_inverse(H[:, at[:, None], at])
    coupling = H[:, rest[:, None], at]
    onto = inverse @ coupling.transpose(0, 2, 1)  # intercepts that go with each coefficient
    alone = np.matmul(inverse, g[:, at, None])
    right = g[:, rest, None] - coupling @ alone
    coefficients = _pseudo_inverse(H[:, rest[:, None], rest] - coupling @ onto) @ right
    result = np.empty_like(g)
    result[:, rest] = coefficients[:, :, 0]
    result[:, at] = (alone - onto @ coefficients)[:, :, 0]
    return result


def _pseudo_inverse(H: Array) -> Array:
    return np.asarray(np.linalg.pinv(H, rcond=_RANK * H.shape[1], hermitian=True))


def _significant(values: Array) -> Flags:
    """Which eigenvalues, in ascending order, are more than rounding errors of the largest."""
    return np.asarray(values > _RANK * values.shape[1] * np.maximum(values[:, -1:], 0.0))
