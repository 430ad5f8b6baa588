"""A training run that is killed again and again, run as a program by `tests/nn/test_checkpoint.py`.

``python -m tests.support.killed_training FOLDER`` trains once without interruption, and once with a
checkpoint in processes that die of SIGKILL; both leave their parameters and history in FOLDER.
"""

import os
import random
import signal
import sys
import time
from pathlib import Path

import torch
import torch._dynamo  # which optimizers load when first used: once, not in every process
from safetensors.torch import save_file
from torch import nn

from crosslearning.nn import TaskModels, _files, fit

TASKS = ("art", "clipart")
STEP, WRITE, TIME = "step", "write", "time"


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_at_step(number: int):
    """Augmentation that kills the process at its so-many-th call, in the middle of a step."""
    calls = 0

    def augment(x, generator):
        nonlocal calls
        calls += 1
        if calls == number:
            die()
        return x + 0.1 * torch.randn(x.shape, generator=generator)

    return augment


def die_in_write(number: int) -> None:
    """Kill the process when half of its so-many-th checkpoint is on the disk."""
    calls = 0

    def save(tensors, path, metadata):
        nonlocal calls
        calls += 1
        save_file(tensors, path, metadata=metadata)
        if calls == number:
            os.truncate(path, Path(path).stat().st_size // 2)
            die()

    _files.save_file = save


def train(folder: Path, checkpoint: Path | None, kill_at: int = 0) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.5), nn.Linear(6, 2))
    models = TaskModels(net, TASKS, epsilon=0.05)
    x = torch.randn(2, 30, 4)
    y = (x[..., 0] > 0).long()
    torch.manual_seed(time.time_ns())  # what the caller's generator holds must not matter
    history = fit(
        models,
        {"art": (x[0], y[0]), "clipart": (x[1, :11], y[1, :11])},
        nn.CrossEntropyLoss(),
        lambda p: torch.optim.Adam(p, lr=0.02),
        6,
        batch_size=4,
        scheduler=lambda o: torch.optim.lr_scheduler.StepLR(o, 2, 0.5),
        validation={"art": (x[0, ::2], y[0, ::2])},
        patience=3,
        augment=die_at_step(kill_at),
        engine="loop",
        checkpoint=checkpoint,
        checkpoint_every=checkpoint and 3,
    )
    tables = [history.epochs.drop(columns="seconds"), history.tasks]
    name = "whole" if checkpoint is None else "killed"
    (folder / f"{name}.csv").write_text("\n".join(table.to_csv() for table in tables))
    models.save(folder / f"{name}.safetensors")


def in_process(folder: Path, checkpoint: Path | None, how: str = "", when: float = 0) -> bool:
    """Train in a process that is to die; say whether it did."""
    child = os.fork()
    if child == 0:
        if how == WRITE:
            die_in_write(int(when))
        train(folder, checkpoint, int(when) if how == STEP else 0)
        os._exit(0)
    if how == TIME:
        time.sleep(when)
        os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        sys.exit("training failed")
    return os.WIFSIGNALED(status)


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    checkpoint = folder / "checkpoint.safetensors"
    chance = random.Random(0)
    in_process(folder, None)
    died = [
        in_process(folder, checkpoint, STEP, 6),  # before there is a checkpoint
        in_process(folder, checkpoint, STEP, 2 * chance.randint(5, 8) + 1),
        in_process(folder, checkpoint, WRITE, 1),
        in_process(folder, checkpoint, WRITE, chance.randint(2, 4)),
    ]
    assert all(died)
    in_process(folder, checkpoint, TIME, 0.1 * chance.random())
    in_process(folder, checkpoint)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
