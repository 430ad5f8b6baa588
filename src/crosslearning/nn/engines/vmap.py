"""All tasks in one pass, stacked along a new axis."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch.func import functional_call

from crosslearning.nn.engines.alike import refuse_unlike
from crosslearning.nn.engines.flat_optimizer import FlatOptimizer, can_be_flat
from crosslearning.nn.seeds import seed_torch
from crosslearning.nn.stacking import StackedFeed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from crosslearning.nn.sampling import Feed
    from crosslearning.nn.task_models import TaskModels

    Tensors = dict[str, torch.Tensor]

__all__ = ["VmapEngine"]


class VmapEngine:
    """Gradients of the tasks' losses in one vectorised pass over the rows of the flat buffers.

    Parameters
    ----------
    models : TaskModels
        Of one architecture, whose buffers do not change in training.
    loss : callable
        Scalar loss of output and target.
    optimizer : Optimizer
        Of the models; it steps over the flat buffers as well where that makes no difference.
    feed : Feed
        Batches of the tasks.
    """

    def __init__(
        self,
        models: TaskModels,
        loss: Callable[[Any, Any], torch.Tensor],
        optimizer: torch.optim.Optimizer,
        feed: Feed,
    ) -> None:
        refuse_unlike(models)
        self._feed = StackedFeed(feed)
        self.models, self.loss = models, loss
        self.device = next(models.parameters()).device
        self.losses = torch.vmap(self._loss_of_one, randomness="different")
        self._rows = [dict(module.named_parameters()) for module in models.per_task]
        self._flat = FlatOptimizer(optimizer, models) if can_be_flat(optimizer, models) else None
        self._held = [one for row in self._rows for one in row.values()]
        if self._flat is not None:
            self._flat.flatten()
            self._held = []

    def gradients(self, step: int) -> tuple[list[int], torch.Tensor]:
        """Leave gradients where the optimizer looks; return positions of tasks, and losses."""
        for parameter in self._held:  # before new gradients take as much memory
            parameter.grad = None
        x, y = self._feed.step(step)
        parameters, buffers = self._parameters(), self._buffers()
        leaves = {name: one for name, one in parameters.items() if one.requires_grad}
        seed_torch(self.device, self._feed.feed.dropout_seed(0, step))
        try:
            losses = self.losses(parameters, buffers, x, y)
            found = torch.autograd.grad(losses.sum(), list(leaves.values()), allow_unused=True)
        except Exception as error:
            error.add_note("This happened in a pass over all tasks; engine='loop' takes any model.")
            raise
        _refuse_changed(buffers)
        self._hand_over(dict(zip(leaves, found, strict=True)))
        return list(range(len(losses))), losses.detach()

    @contextmanager
    def released(self) -> Iterator[None]:
        """Let the optimizer hold the models' parameters for a while."""
        self.close()
        yield
        if self._flat is not None:
            self._flat.flatten()

    def close(self) -> None:
        """Let the optimizer hold the models' parameters again."""
        if self._flat is not None:
            self._flat.scatter()

    def _loss_of_one(self, parameters: Tensors, buffers: Tensors, x: Any, y: Any) -> torch.Tensor:
        module = self.models.per_task[0]
        return self.loss(functional_call(module, (parameters, buffers), (x,)), y)

    def _parameters(self) -> Tensors:
        """Parameters of all tasks, stacked: views of the flat buffers, and copies of others."""
        found = {
            slot.name: flat.tasks[:, slot.start : slot.stop].unflatten(1, slot.shape).detach()
            for flat in self.models._flats
            for slot in flat.slots
        }
        for name, first in self._rows[0].items():
            if name not in found:
                found[name] = torch.stack([row[name].detach() for row in self._rows])
            found[name].requires_grad_(first.requires_grad)
        return found

    def _buffers(self) -> Tensors:
        modules = self.models.per_task
        return {
            name: torch.stack([module.get_buffer(name) for module in modules])
            for name, _ in modules[0].named_buffers()
        }

    def _hand_over(self, gradients: dict[str, torch.Tensor | None]) -> None:
        if self._flat is None:
            for name, gradient in gradients.items():
                if gradient is not None:
                    for row, part in zip(self._rows, gradient, strict=True):
                        row[name].grad = part
            return
        for name, place in self._flat.gradients.items():
            gradient = gradients[name]
            if gradient is None:
                raise ValueError(
                    f"The loss does not depend on the parameter {name!r}. Freeze it with "
                    "`requires_grad_(False)`, leave it untethered, or use engine='loop'."
                )
            place.copy_(gradient)


def _refuse_changed(buffers: Tensors) -> None:
    changed = [name for name, buffer in buffers.items() if buffer._version]
    if changed:
        raise ValueError(
            "A pass over all tasks at once needs buffers that do not change in training; "
            f"{changed[0]!r} does, as that of BatchNorm. Use engine='loop'."
        )
