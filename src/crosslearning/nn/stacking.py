"""Batches of all tasks as one tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from crosslearning.nn.sampling import Feed

__all__ = ["StackedFeed"]

_ROWS = 1024  # of each task that are taken ahead


class StackedFeed:
    """Inputs and targets of a step with an axis for the tasks in front.

    Rows of tensors are taken for many steps at once, since taking a few costs more in calls than
    in copying.

    Parameters
    ----------
    feed : Feed
        Batches by task.
    """

    def __init__(self, feed: Feed) -> None:
        self.feed = feed
        size = feed.plan.per_step
        ahead = size is not None and feed.stackable and feed.augment is None
        self._steps = max(1, _ROWS // size) if ahead and size is not None else None
        self._block = -1
        self._x = self._y = torch.empty(0)

    def step(self, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return inputs and targets of a step, of shape (n_tasks, n_rows, ...)."""
        if self._steps is None:
            return self._stacked(step)
        block, number = divmod(step, self._steps)
        if block != self._block:
            self._take_ahead(block, self._steps)
        return self._x[:, number], self._y[:, number]

    def _take_ahead(self, block: int, steps: int) -> None:
        pieces = [self.feed.rows(row, block * steps, (block + 1) * steps) for row in self._tasks]
        x, y = (torch.stack(parts) for parts in zip(*pieces, strict=True))
        self._x = x.unflatten(1, (steps, -1)).to(self.feed.device)
        self._y = y.unflatten(1, (steps, -1)).to(self.feed.device)
        self._block = block

    def _stacked(self, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        batches = list(self.feed.step(step))
        shapes = {(tuple(batch.x.shape), tuple(batch.y.shape)) for batch in batches}
        if len(batches) < len(self._tasks) or len(shapes) > 1:
            raise ValueError(
                "A pass over all tasks at once needs a batch of each, all of one shape; got "
                f"{len(batches)} of {len(self._tasks)}, with shapes of x and y "
                f"{', '.join(map(str, sorted(shapes)))}. Use a fixed `batch_size` with "
                "sampling='cycle', or engine='loop'."
            )
        return torch.stack([b.x for b in batches]), torch.stack([b.y for b in batches])

    @property
    def _tasks(self) -> range:
        return range(len(self.feed.plan.sizes))
