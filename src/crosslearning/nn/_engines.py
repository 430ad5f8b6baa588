"""Engines that compute the gradients of all tasks; they agree up to rounding."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from crosslearning.nn._data import Feed, TaskBatch
from crosslearning.nn._seeds import seed_torch
from crosslearning.nn._task_models import TaskModels
from crosslearning.nn._vmap import VmapEngine, is_layered

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_MANY = 4  # tasks for which one pass over all is faster, for linear layers


class LoopEngine:
    """Gradients of the tasks' losses, one task after another."""

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
        for parameter in self.parameters:
            parameter.grad = None
        losses = dict(self.work(self.feed.step(step)))
        return list(losses), torch.stack([*losses.values()]) if losses else torch.zeros(0)

    def work(self, batches: Iterable[TaskBatch]) -> Iterable[tuple[int, torch.Tensor]]:
        """Compute the gradients of the batches; yield positions of tasks, and their losses."""
        for batch in batches:
            seed_torch(self.device, batch.seed)
            yield batch.row, self.task_gradient(batch)

    def task_gradient(self, batch: TaskBatch) -> torch.Tensor:
        try:
            loss = self.task_loss(batch)
            if batch.weight != 1.0:
                loss = loss * batch.weight
            loss.backward()
        except Exception as error:
            error.add_note(f"This happened to task {self.models.local_tasks[batch.row]!r}.")
            raise
        return loss.detach()

    def task_loss(self, batch: TaskBatch) -> torch.Tensor:
        return self.loss(self.models.per_task[batch.row](batch.x), batch.y)

    def released(self) -> AbstractContextManager[None]:
        """Let the optimizer hold the models' parameters for a while."""
        return nullcontext()

    def close(self) -> None:
        """Nothing to give back."""


class ThreadsEngine(LoopEngine):
    """Gradients of the tasks' losses at the same time, on the CPU; the caller loads batches."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._threads_before = torch.get_num_threads()
        torch.set_num_threads(1)
        n_threads, start = len(self.models.per_task), torch.set_num_threads
        self._pool = ThreadPoolExecutor(n_threads, "crosslearning", start, (1,))

    def work(self, batches: Iterable[TaskBatch]) -> Iterable[tuple[int, torch.Tensor]]:
        enabled, dtype = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")

        def one(batch: TaskBatch) -> torch.Tensor:
            with torch.autocast("cpu", dtype, enabled=enabled):
                return self.task_gradient(batch)

        started = [(batch.row, self._pool.submit(one, batch)) for batch in batches]
        return [(row, future.result()) for row, future in started]

    def task_loss(self, batch: TaskBatch) -> torch.Tensor:
        with OwnGenerator(batch.seed):
            return super().task_loss(batch)

    def close(self) -> None:
        """End the threads, and give torch as many as it had."""
        self._pool.shutdown(cancel_futures=True)
        torch.set_num_threads(self._threads_before)


class OwnGenerator(TorchDispatchMode):
    """Draws this thread's random numbers from its own generator."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(
        self, func: Any, _types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if _takes_generator(func) and kwargs.get("generator") is None:
            kwargs = {**kwargs, "generator": self.generator}
        return func(*args, **kwargs)


@cache
def _takes_generator(func: Any) -> bool:
    return any(argument.name == "generator" for argument in func._schema.arguments)


Engine = LoopEngine | VmapEngine
_ENGINES = {"loop": LoopEngine, "threads": ThreadsEngine, "vmap": VmapEngine}


def choose_engine(
    name: str,
    models: TaskModels,
    loss: Callable[[Any, Any], torch.Tensor],
    optimizer: torch.optim.Optimizer,
    feed: Feed,
) -> Engine:
    """Build the engine of this name; "auto" follows the rule in :func:`crosslearning.nn.fit`."""
    chosen = automatic(models, loss, feed) if name == "auto" else name
    if chosen not in _ENGINES:
        names = ", ".join(map(repr, ["auto", *_ENGINES]))
        raise ValueError(f"`engine` must be one of {names}; got {name!r}.")
    if (models.ranks.copies > 1 and chosen == "vmap") or (models.sharded and chosen != "loop"):
        raise ValueError(
            "Models shared by several ranks need engine='loop', or 'threads' if they are not "
            f"sharded; got {name!r}."
        )
    return _ENGINES[chosen](models, loss, optimizer, feed)


def automatic(models: TaskModels, loss: Any, feed: Feed) -> str:
    """Choose by what is known before training, so that the same run has the same engine."""
    if models.sharded:
        return "loop"
    layered = all(is_layered(module) for module in models.per_task)
    alike = len({repr(module) for module in models.per_task}) == 1
    of_torch = (getattr(loss, "__module__", None) or "").startswith("torch.nn.")  # for vmap
    if len(models) >= _MANY and layered and alike and of_torch and feed.stackable:
        return "vmap"
    on_cpu = next(models.parameters()).device.type == "cpu"
    convolves = any(isinstance(part, _CONVOLUTIONS) for part in models.center.modules())
    if convolves and on_cpu and len(models.per_task) > 1 and torch.get_num_threads() > 1:
        return "threads"
    return "loop"
