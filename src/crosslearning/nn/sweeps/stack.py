"""The parameters of many runs in one matrix, and one vmap over all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.func import functional_call, grad_and_value, vmap
from torch.nn.utils import parameters_to_vector

from crosslearning.coupling._gram import GramProjection, solve_gram
from crosslearning.coupling._result import warn_unless_converged

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from crosslearning.tether import Tether

__all__ = ["Stack"]

_TOLERANCE = 1e-10  # of Newton's method, as in a projection of one run
_MAX_ITER = 100


class Stack:
    """Runs that differ in seed and tether, each with one model per task and a centre.

    Parameters
    ----------
    modules : sequence of Module
        The initial model of each seed; they have the same architecture and no buffers.
    n_tasks : int
        Number of tasks.
    tethers : sequence of Tether
        One per run of a seed.
    center_weight : float
        Weight of the present centre in the projection.

    Attributes
    ----------
    tasks : Parameter of shape (n_tasks, n_seeds, n_tethers, n_parameters)
        What an optimizer gets. Optimizers that treat each number by itself, as SGD and Adam do,
        train every run as if it were alone.
    center : Tensor of shape (n_seeds, n_tethers, n_parameters)
        The centres.
    pulls : list of array of shape (n_tasks,)
        Of the last projection of each run, seed by seed.
    """

    def __init__(
        self,
        modules: Sequence[nn.Module],
        n_tasks: int,
        tethers: Sequence[Tether],
        center_weight: float,
    ) -> None:
        starts = torch.stack([parameters_to_vector(m.parameters()).detach() for m in modules])
        matrix = starts[None, :, None].repeat(n_tasks + 1, 1, len(tethers), 1)
        self.tasks = nn.Parameter(matrix[:-1])
        self.center = matrix[-1]
        self.pulls: list[NDArray[np.float64] | None] = [None] * (len(modules) * len(tethers))
        self._tethers = list(tethers) * len(modules)
        self._weight = center_weight
        self._skeleton = modules[0]
        self._room = torch.empty_like(matrix[:-1])
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
        tethers = [
            tether if tether.is_ball else tether.scaled(step_size=step_size)
            for tether in self._tethers
        ]
        with torch.no_grad():
            differences = torch.sub(self.tasks, self.center, out=self._room).flatten(1, 2)
            grams = _grams(differences)
            if not np.isfinite(grams).all():
                raise ValueError(
                    "Parameters must be finite; those of a stacked run are not any more. Lower the "
                    "learning rate, or use stacked=False to see which task it is."
                )
            steps = [
                solve_gram(gram, tether, self._weight, start, _TOLERANCE, _MAX_ITER)
                for gram, tether, start in zip(grams, tethers, self.pulls, strict=True)
            ]
            self._move(differences, steps)
        self.pulls = [step.pull for step in steps]
        for step in steps:
            warn_unless_converged(step.status, step.kkt_residual, step.n_iter, stacklevel=3)

    def distances(self) -> NDArray[np.float64]:
        """Distances to the centres, of shape (n_tasks, n_seeds, n_tethers)."""
        with torch.no_grad():
            difference = torch.sub(self.tasks, self.center, out=self._room)
            norms = torch.linalg.vector_norm(difference, dim=-1, dtype=torch.float64)
        return np.asarray(norms.cpu().numpy())

    def _move(self, differences: torch.Tensor, steps: list[GramProjection]) -> None:
        weights, pulls = (
            torch.from_numpy(np.stack(columns, axis=1)).to(self.tasks)
            for columns in ([step.weights for step in steps], [step.pull for step in steps])
        )
        shift = torch.einsum("nr,nrs->rs", weights, differences)
        self.center += shift.view_as(self.center)
        # A share of 0 or 1 is exact in lerp: pooled rows stay equal, free ones untouched.
        self.tasks.lerp_(self.center, pulls.view(*self.tasks.shape[:-1], 1))


def _grams(differences: torch.Tensor) -> NDArray[np.float64]:
    """Gram matrix of each run, from differences of shape (n_tasks, n_runs, n_parameters)."""
    rows = differences.transpose(0, 1)
    gram = torch.bmm(rows, rows.transpose(1, 2)).double().cpu().numpy()
    return np.asarray(0.5 * (gram + gram.transpose(0, 2, 1)))
