"""Models on ranks and the same in one process, for the checks that run on every rank."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

from crosslearning.nn import fit

TASKS = ("art", "clipart", "product", "real", "sketch")
ALIKE = 1e-6  # of parameters after training: other sums of the same numbers


def mesh(*shape, names=("task", "data")):
    return init_device_mesh("cpu", shape or (dist.get_world_size(),), mesh_dim_names=names)


def spread():
    """All ranks in one dimension."""
    return mesh(names=("task",))


def network(norm=True, dtype=torch.float32):
    torch.manual_seed(0)
    between = [nn.BatchNorm1d(17)] if norm else []
    return nn.Sequential(nn.Linear(13, 17), *between, nn.ReLU(), nn.Linear(17, 3)).to(dtype)


def step(models, number, scale=0.1):
    """Move every task by an amount of its own, which is the same wherever the task is."""
    for task in models.local_tasks:
        generator = torch.Generator().manual_seed(1000 * number + models.tasks.index(task))
        with torch.no_grad():
            for value in models[task].state_dict().values():
                if value.dtype.is_floating_point:
                    change = torch.randn(value.shape, generator=generator, dtype=torch.float64)
                    value += (scale * change).to(value.dtype)


def assert_same(spread_models, models, atol=0.0):
    """Local tasks and the centre are those of models in one process."""
    pairs = [(spread_models[task], models[task]) for task in spread_models.local_tasks]
    for one, other in [*pairs, (spread_models.center, models.center)]:
        expected = other.state_dict()
        for name, value in one.state_dict().items():
            whole = value.full_tensor() if hasattr(value, "full_tensor") else value
            torch.testing.assert_close(whole, expected[name], rtol=0.0, atol=atol)


def data(rows=(40, 31, 17, 8, 3)):
    generator = torch.Generator().manual_seed(5)
    x = [torch.randn(n, 13, generator=generator) for n in rows]
    return {task: (one, (one[:, :3] * (1 + i)).argmax(1)) for i, (task, one) in
            enumerate(zip(TASKS, x, strict=True))}  # fmt: skip


def train(models, given, optimizer="SGD", **options):
    kind = getattr(torch.optim, optimizer)
    arguments = {"batch_size": 4, "validation": data(), "metric": "accuracy", **options}
    return fit(models, given, nn.CrossEntropyLoss(), lambda p: kind(p, lr=0.05), 2, **arguments)
