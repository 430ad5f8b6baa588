"""A training run on ranks, one of which dies, run by `tests/nn/test_ranks.py`.

``torchrun --max-restarts 1 … -m tests.support.killed_rank FOLDER EPOCHS`` trains with a checkpoint
in FOLDER. The first time that it starts on two ranks, the second of them dies of SIGKILL when half
of its part of the second checkpoint is on the disk.
"""

import json
import os
import signal
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
from torch.distributed.device_mesh import init_device_mesh

from crosslearning.nn import TaskModels, fit

TASKS = ("art", "clipart", "product")
STEPS = 5  # of an epoch


def train(epochs, mesh=None, checkpoint=None):
    """Return the models, and how many steps it took them."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.5), nn.Linear(6, 2))
    models = TaskModels(net, TASKS, epsilon=0.05, mesh=mesh)
    x = torch.randn(3, 4 * STEPS, 4)
    data = {task: (rows, (rows[:, 0] > 0).long()) for task, rows in zip(TASKS, x, strict=True)}
    calls = []

    def augment(x, generator):
        calls.append(1)
        return x + 0.1 * torch.randn(x.shape, generator=generator)

    fit(
        models,
        data,
        nn.CrossEntropyLoss(),
        lambda p: torch.optim.Adam(p, lr=0.02),
        epochs,
        batch_size=4,
        augment=augment,
        engine="loop",
        checkpoint=checkpoint,
        checkpoint_every=checkpoint and 3,
    )
    return models, len(calls) // len(models.local_tasks)


def die_in_second_write():
    """Tear the second checkpoint, and die."""
    write, calls = HuggingFaceStorageWriter.write_data, []

    def torn(self, plan, planner):
        written = write(self, plan, planner)
        calls.append(1)
        if len(calls) == 2:
            written.wait()
            (file,) = Path(self.path).glob("shard-00002-*")
            os.truncate(file, file.stat().st_size // 2)
            os.kill(os.getpid(), signal.SIGKILL)
        return written

    HuggingFaceStorageWriter.write_data = torn


def main(folder, epochs):
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    start, rank = os.environ["TORCHELASTIC_RESTART_COUNT"], dist.get_rank()
    if start == "0" and rank == 1:
        die_in_second_write()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("task",))
    models, steps = train(epochs, mesh, folder / "checkpoint")
    models.save(folder / "models.safetensors")
    if rank == 0:
        (folder / "steps.json").write_text(json.dumps([int(start), steps]))
    dist.destroy_process_group()
    os._exit(0)  # after a restart, torch at times aborts in its destructors


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
