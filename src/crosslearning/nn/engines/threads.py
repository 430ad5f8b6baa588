"""One thread per task, each with one thread for its arithmetic."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from crosslearning.nn.engines.loop import LoopEngine

if TYPE_CHECKING:
    from crosslearning.nn.sampling import TaskBatch

__all__ = ["ThreadsEngine"]


class ThreadsEngine(LoopEngine):
    """Gradients of the tasks' losses at the same time, on the CPU.

    Batches are loaded in the calling thread, while tasks whose batch is there compute.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        if self.device.type != "cpu":
            raise ValueError(
                f"engine='threads' is for the CPU; the models are on {self.device}. "
                "Use engine='loop'."
            )
        self._threads_before = torch.get_num_threads()
        torch.set_num_threads(1)
        self._pool = ThreadPoolExecutor(
            len(self.models), "crosslearning", initializer=torch.set_num_threads, initargs=(1,)
        )

    def gradients(self, step: int) -> tuple[list[int], torch.Tensor]:
        """Leave gradients in ``.grad``; return positions of tasks, and their losses."""
        enabled, dtype = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")

        def work(batch: TaskBatch) -> torch.Tensor:
            with torch.autocast("cpu", dtype, enabled=enabled):
                return self.task_gradient(batch)

        for parameter in self.parameters:
            parameter.grad = None
        started = [(batch.row, self._pool.submit(work, batch)) for batch in self.feed.step(step)]
        losses = [future.result() for _, future in started]
        return [row for row, _ in started], torch.stack(losses)

    def task_loss(self, batch: TaskBatch) -> torch.Tensor:
        """Loss of one task, for its gradient to be taken."""
        with OwnGenerator(batch.seed):
            return super().task_loss(batch)

    def close(self) -> None:
        """End the threads, and give torch as many as it had."""
        self._pool.shutdown(cancel_futures=True)
        torch.set_num_threads(self._threads_before)


class OwnGenerator(TorchDispatchMode):
    """Draws random numbers of this thread, such as dropout, from a generator of its own.

    Torch's global generator is shared by all threads, which would race for it. A generator with
    the same seed draws the same numbers.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(
        self, func: Any, _types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Pass the generator to whatever takes one."""
        kwargs = kwargs or {}
        if _takes_generator(func) and kwargs.get("generator") is None:
            kwargs = {**kwargs, "generator": self.generator}
        return func(*args, **kwargs)


@cache
def _takes_generator(func: Any) -> bool:
    return any(argument.name == "generator" for argument in func._schema.arguments)
