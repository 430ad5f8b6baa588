"""The smooth subproblem of the augmented Lagrangian, with fixed multipliers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from crosslearning.convex.solver.losses import Loss
from crosslearning.convex.solver.tethers import BlockTethers, Hold
from crosslearning.tether import Array

_STRONGEST = 1e6


@dataclass(frozen=True, eq=False, kw_only=True)
class SmoothProblem:
    """Minimise Σ f_i(θ_i) + σ_i e_i(θ_i - c + λ_i / σ_i) over tasks and centre.

    e_i is the envelope of h / σ_i, with σ_i a `strength` in curvatures of the task. The columns
    of `unseen` are directions in which the centre stays.
    """

    loss: Loss
    coupling: BlockTethers
    forces: Array
    fixed_center: bool
    unseen: Array
    strength: float = 1.0

    @cached_property
    def sigma(self) -> Array:
        return self.strength * self.loss.curvature[:, None]

    @cached_property
    def law(self) -> BlockTethers:
        return self.coupling.scaled(self.sigma[:, 0])

    def at(self, thetas: Array, center: Array, loss_gradient: Array | None = None) -> SmoothPoint:
        """Evaluate; the gradient of the loss only if it is not known."""
        hold = self.law.hold(thetas - center + self.forces / self.sigma)
        if loss_gradient is None:
            loss_gradient = self.loss.gradient(thetas)
        return SmoothPoint(self, thetas, center, hold, loss_gradient)


@dataclass(frozen=True, eq=False)
class SmoothPoint:
    problem: SmoothProblem
    thetas: Array
    center: Array
    hold: Hold
    loss_gradient: Array

    @cached_property
    def value(self) -> float:
        losses = self.problem.loss.value(self.thetas).sum()
        return float(losses + self.problem.sigma[:, 0] @ self.hold.value)

    @cached_property
    def forces(self) -> Array:
        """Forces that the envelopes exert here: the multipliers to take next."""
        return self.problem.sigma * self.hold.moves

    @cached_property
    def task_gradient(self) -> Array:
        return self.loss_gradient + self.forces

    @cached_property
    def center_gradient(self) -> Array:
        return -self._net(self.forces)

    @cached_property
    def gradient_norm(self) -> float:
        """Largest component of the gradient in the tasks plus that in the centre."""
        return float(np.abs(self.task_gradient).max() + np.abs(self.center_gradient).max())

    @cached_property
    def force_change(self) -> float:
        """How far the forces are from those exerted, as the tasks would feel it."""
        change = np.abs(self.forces - self.problem.forces).max()
        return float(change) / self.problem.strength

    @cached_property
    def residual(self) -> float:
        """Residual of the optimality conditions of the original problem, given the forces."""
        unbalanced = np.abs(self.loss_gradient + self.problem.forces).max()
        net = np.abs(self._net(self.problem.forces)).max()
        return max(float(unbalanced), float(net), self.force_change)

    def with_own_forces(self) -> SmoothPoint:
        """Return the same place in the problem with the forces exerted here."""
        return self._in(replace(self.problem, forces=self.forces))

    def with_strength(self, factor: float) -> SmoothPoint:
        """Return the same place in a problem whose envelopes hold more or less tightly."""
        strength = min(factor * self.problem.strength, _STRONGEST)
        return self._in(replace(self.problem, strength=strength))

    def _in(self, problem: SmoothProblem) -> SmoothPoint:
        return problem.at(self.thetas, self.center, self.loss_gradient)

    def _net(self, forces: Array) -> Array:
        net: Array = forces.sum(axis=0)
        return np.zeros_like(net) if self.problem.fixed_center else net
