"""One task after the other, as in any loop written by hand."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import torch

from crosslearning.nn.seeds import seed_torch

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from crosslearning.nn.sampling import Feed, TaskBatch
    from crosslearning.nn.task_models import TaskModels

__all__ = ["LoopEngine"]


class LoopEngine:
    """Gradients of the tasks' losses, one task after the other.

    Parameters
    ----------
    models : TaskModels
        Whose parameters receive gradients.
    loss : callable
        Scalar loss of output and target.
    optimizer : Optimizer
        Of the models; left alone.
    feed : Feed
        Batches of the tasks.
    """

    def __init__(
        self,
        models: TaskModels,
        loss: Callable[[Any, Any], torch.Tensor],
        optimizer: torch.optim.Optimizer,  # noqa: ARG002
        feed: Feed,
    ) -> None:
        self.models, self.loss, self.feed = models, loss, feed
        self.parameters = list(models.parameters())
        self.device = self.parameters[0].device

    def gradients(self, step: int) -> tuple[list[int], torch.Tensor]:
        """Leave gradients in ``.grad``; return positions of tasks, and their losses."""
        rows, losses = [], []
        for parameter in self.parameters:
            parameter.grad = None
        for batch in self.feed.step(step):
            seed_torch(self.device, batch.seed)
            rows.append(batch.row)
            losses.append(self.task_gradient(batch))
        return rows, torch.stack(losses)

    def task_gradient(self, batch: TaskBatch) -> torch.Tensor:
        """Leave the gradient of one task, and return its loss."""
        try:
            loss = self.task_loss(batch)
            loss.backward()
        except Exception as error:
            error.add_note(f"This happened to task {self.models.tasks[batch.row]!r}.")
            raise
        return loss.detach()

    def task_loss(self, batch: TaskBatch) -> torch.Tensor:
        """Loss of one task, for its gradient to be taken."""
        return self.loss(self.models.per_task[batch.row](batch.x), batch.y)

    def released(self) -> AbstractContextManager[None]:
        """Leave the optimizer as it is."""
        return nullcontext()

    def close(self) -> None:
        """Nothing to give back."""
