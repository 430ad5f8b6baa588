"""Checkpoints: all a run needs to go on as if nothing had happened, in one file.

Models, pulls, optimizer, scheduler, the sums of the present epoch, the best epoch and the history.
What is random has no state; see `seeds`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from crosslearning.nn._packed import pack, unpack
from crosslearning.nn.configuration import configuration, differences
from crosslearning.nn.history import from_matrix, to_matrix
from crosslearning.nn.persistence import read_file, write_file

if TYPE_CHECKING:
    import os

    from crosslearning.nn.run import Run

__all__ = ["Checkpoint"]

_KIND = "a checkpoint of fit"
_SHOWN = 3  # differences that a message lists


class Checkpoint:
    """A file that a run is saved to after every epoch, and in between.

    Parameters
    ----------
    path : path
        The file; replaced as a whole.
    every : int or None
        Also save whenever the number of steps is a multiple of it.
    run : Run
        To be saved; it has not begun.
    """

    def __init__(self, path: str | os.PathLike[str], every: int | None, run: Run) -> None:
        self.path, self.every, self.run = Path(path), every, run
        self.configuration = configuration(run)  # schedulers change options later

    @property
    def is_due(self) -> bool:
        """Whether an epoch has ended, or so many steps."""
        ends_epoch = self.run.step % self.run.steps == 0
        return ends_epoch or (self.every is not None and self.run.step % self.every == 0)

    def save(self) -> None:
        """Save the run as it is."""
        tensors, content = _stored(self.run)
        write_file(self.path, _KIND, tensors, {"run": self.configuration, **content})

    def resume(self, epochs: int) -> None:
        """Bring the run to where the file left it, if there is one."""
        for leftover in self.path.parent.glob(f".{self.path.name}.*.tmp"):
            leftover.unlink()  # of a process that was killed while it wrote
        if not self.path.exists():
            return
        try:
            tensors, content = read_file(self.path, _KIND, "")
            self._refuse_another(content, epochs)
            _restore(self.run, tensors, content)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise ValueError(
                f"The checkpoint {self.path} cannot be resumed from: {error} "
                "Delete it to start from the beginning, or give another path."
            ) from error

    def _refuse_another(self, content: dict[str, Any], epochs: int) -> None:
        found = differences(content["run"], self.configuration)
        done = content["step"] // self.run.steps
        if not found and epochs < done:
            found = [f"`epochs` is {epochs}, and {done} are done"]
        if found:
            more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
            raise ValueError(f"it is of another run: {'; '.join(found[:_SHOWN])}{more}.")


def _stored(run: Run) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    tensors = {
        "epoch": torch.from_numpy(np.stack([run.sums, run.counts])),
        "history": torch.from_numpy(to_matrix(run.history.records, len(run.models))),
    }
    content = {
        "step": run.step,
        "stopped": run.stopped,
        "seconds": run.seconds,
        "models": pack(dict(run.models.state_dict()), "models", tensors),
        "optimizer": pack(run.optimizer.state_dict(), "optimizer", tensors),
    }
    if run.scheduler is not None:
        content["scheduler"] = pack(run.scheduler.state_dict(), "scheduler", tensors)
    if run.validation is not None:
        content["best"] = pack(run.validation.state(), "best", tensors)
    return tensors, content


def _restore(run: Run, tensors: dict[str, torch.Tensor], content: dict[str, Any]) -> None:
    run.models.load_state_dict(unpack(content["models"], tensors))
    run.optimizer.load_state_dict(unpack(content["optimizer"], tensors))
    if run.scheduler is not None:
        run.scheduler.load_state_dict(unpack(content["scheduler"], tensors))
    if run.validation is not None:
        run.validation.load_state(unpack(content["best"], tensors))
        run.history.best_epoch = run.validation.best_epoch
    run.step, run.stopped, run.seconds = content["step"], content["stopped"], content["seconds"]
    run.sums, run.counts = tensors["epoch"].numpy()
    run.history.records = from_matrix(tensors["history"].numpy(), len(run.models))
