"""The optional progress bar."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from crosslearning.tether import Array

_SHOWN = 6  # tasks that are listed one by one


class Bar:
    """Shows losses, distances and the remaining time on standard error."""

    def __init__(self, visible: bool, tasks: tuple[Hashable, ...], epochs: int, steps: int) -> None:
        self.visible = visible
        self._tasks, self._epochs, self._steps = tasks, epochs, steps
        text, state = TextColumn("{task.description}"), TextColumn("{task.fields[state]}")
        columns = text, BarColumn(bar_width=24), TimeRemainingColumn(), state
        self._progress = Progress(*columns, console=Console(stderr=True), disable=not visible)
        self._id = self._progress.add_task("training", total=epochs * steps, state="")

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, step: int, losses: Array, distances: Array | None) -> None:
        """Show the mean losses of this epoch so far, and the distances of the last projection."""
        epoch = f"epoch {1 + (step - 1) // self._steps}/{self._epochs}"
        state = describe(self._tasks, losses, distances)
        self._progress.update(self._id, completed=step, description=epoch, state=state)


def describe(tasks: tuple[Hashable, ...], losses: Array, distances: Array | None) -> str:
    """Loss and distance of each task, or ranges where there are many."""
    if len(tasks) > _SHOWN:
        text = f"loss {losses.min():.3g} to {losses.max():.3g}, mean {losses.mean():.3g}"
        return text if distances is None else f"{text}; distance up to {distances.max():.3g}"
    parts = [f"{task} {loss:.3g}" for task, loss in zip(tasks, losses, strict=True)]
    if distances is not None:
        parts = [f"{part} at {far:.3g}" for part, far in zip(parts, distances, strict=True)]
    return ", ".join(parts)
