"""The parameters of many runs in one matrix, and one vmap over all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.func import functional_call, grad_and_value, vmap
from torch.nn.utils import parameters_to_vector

from crosslearning.coupling import Status, couple
from crosslearning.nn._flat_members import dtype_storage

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from numpy.typing import NDArray

    from crosslearning.coupling import Storage
    from crosslearning.tether import Tether


class Stack:
    """Runs of every seed with every tether, each with one model per task and a centre.

    An optimizer gets `tasks`, of shape (n_tasks, n_seeds, n_tethers, n_parameters). One that treats
    each number by itself, as SGD and Adam do, trains every run as if it were alone.
    """

    def __init__(
        self,
        modules: Sequence[nn.Module],
        labels: Sequence[Hashable],
        tethers: Sequence[Tether],
        center_weight: float,
        runs: Sequence[str],
    ) -> None:
        starts = torch.stack([parameters_to_vector(m.parameters()).detach() for m in modules])
        matrix = starts[None, :, None].repeat(len(labels) + 1, 1, len(tethers), 1)
        self.tasks = nn.Parameter(matrix[:-1])
        self.center = matrix[-1]
        self.pulls: list[NDArray[np.float64] | None] = [None] * (len(modules) * len(tethers))
        self._tethers = list(tethers) * len(modules)
        self._weight = center_weight
        self._skeleton = modules[0]
        self._members = StackMembers(self, [f"task {label!r}" for label in labels], runs)
        self._told_resolution = False
        self._names = [name for name, _ in self._skeleton.named_parameters()]
        self._shapes = [parameter.shape for parameter in self._skeleton.parameters()]

    def forward(self, flat: torch.Tensor, x: torch.Tensor) -> Any:
        """Output of a model whose parameters are a vector."""
        pieces = flat.split([shape.numel() for shape in self._shapes])
        parameters = {
            name: piece.view(shape)
            for name, piece, shape in zip(self._names, pieces, self._shapes, strict=True)
        }
        return functional_call(self._skeleton, parameters, (x,))

    def gradients(self, loss: Callable[[Any, Any], torch.Tensor]) -> Callable[..., Any]:
        """Make a function of inputs and targets that returns gradients and losses.

        Inputs and targets have the axes (n_tasks, n_seeds) in front: runs of one seed see the
        same batches.
        """

        def objective(flat: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return loss(self.forward(flat, x), y)

        over_tethers = vmap(grad_and_value(objective), in_dims=(0, None, 0))
        over_all = vmap(vmap(over_tethers))

        def gradients(x: torch.Tensor, y: torch.Tensor) -> Any:
            # Some losses cannot batch outputs without targets, so these get the third axis too.
            shape = *self.tasks.shape[:3], *y.shape[2:]
            return over_all(self.tasks.detach(), x, y.unsqueeze(2).expand(shape))

        return gradients

    def project(self, step_size: float) -> None:
        """Project every run, as :meth:`TaskModels.project` does one."""
        with torch.no_grad():
            steps = couple(
                self._members,
                [tether.scaled(step_size=step_size) for tether in self._tethers],
                center_weight=self._weight,
                start=self.pulls,
                tell_resolution=not self._told_resolution,
                stacklevel=2,
            )
        self.pulls = [step.pull for step in steps]
        self._told_resolution |= any(step.status is Status.UNRESOLVED for step in steps)

    def distances(self) -> NDArray[np.float64]:
        """Distances to the centres, of shape (n_tasks, n_seeds, n_tethers)."""
        with torch.no_grad():
            return self._members.distances().T.reshape(self.tasks.shape[:-1])


class StackMembers:
    """The runs of a stack as members of a coupling: a group per run."""

    def __init__(self, stack: Stack, tasks: Sequence[str], groups: Sequence[str]) -> None:
        self.stack, self.tasks, self.groups = stack, tasks, groups
        self._room = torch.empty_like(stack.tasks)

    def gram(self) -> NDArray[np.float64]:
        """Inner products of the differences to the centre, of every run."""
        rows = self._differences().transpose(0, 1)
        gram = torch.bmm(rows, rows.transpose(1, 2)).double().cpu().numpy()
        return np.asarray(0.5 * (gram + gram.transpose(0, 2, 1)))

    def move(self, pull: NDArray[np.float64], weights: NDArray[np.float64]) -> None:
        """Move tasks and centre of every run, from the differences that :meth:`gram` took."""
        tasks, center = self.stack.tasks, self.stack.center
        weights_, pulls = (torch.from_numpy(one.T).to(tasks) for one in (weights, pull))
        shift = torch.einsum("nr,nrs->rs", weights_, self._room.flatten(1, 2))
        center += shift.view_as(center)
        # A share of 0 or 1 is exact in lerp: pooled rows stay equal, free ones untouched.
        tasks.lerp_(center, pulls.view(*tasks.shape[:-1], 1))

    def distances(self) -> NDArray[np.float64]:
        """Distances to the centres, run by run."""
        norms = torch.linalg.vector_norm(self._differences(), dim=-1, dtype=torch.float64)
        return np.asarray(norms.T.cpu().numpy())

    def storage(self) -> Storage:
        """How finely the runs are stored."""
        center = self.stack.center.flatten(0, 1)
        norms = torch.linalg.vector_norm(center, dim=-1).double().cpu().numpy()
        n_runs, size = center.shape
        return dtype_storage([center.dtype] * n_runs, np.asarray(norms), [size] * n_runs)

    def culprits(self) -> tuple[list[str], str]:
        """Names of tasks, and of centres, that are not finite, and of their runs."""
        rows = torch.cat([self.stack.tasks, self.stack.center[None]]).flatten(1, 2)
        bad = (~rows.isfinite().all(dim=-1)).nonzero().tolist()
        names = [*self.tasks, "the centre"]
        return [f"{names[row]} in {self.groups[run]}" for row, run in bad], ""

    def _differences(self) -> torch.Tensor:
        """Tasks minus centre, of shape (n_tasks, n_runs, n_parameters)."""
        return torch.sub(self.stack.tasks, self.stack.center, out=self._room).flatten(1, 2)
