"""Checks of models that are sharded over ranks, and of checkpoints, sharded or not."""

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from crosslearning.nn import TaskModels, evaluate
from tests.support.rank_models import ALIKE, TASKS, assert_same, data, mesh, network, spread, train


def check_sharded(where=None):
    """FSDP2: parameters of each model are divided over the ranks of a task."""
    where = where or mesh(names=("data",))
    one = TaskModels(network(False), TASKS, epsilon={"0": 0.2, "2": 0.1})
    many = TaskModels(
        network(False), TASKS, epsilon={"0": 0.2, "2": 0.1}, mesh=where, shard=fully_shard
    )
    assert_same(many, one)
    for models in (one, many):
        train(models, data(), "Adam")
    assert_same(many, one, ALIKE)
    np.testing.assert_allclose(many.distances(), one.distances(), rtol=1e-5)
    assert evaluate(many, data()).equals(evaluate(one, data()))
    assert all(isinstance(parameter, DTensor) for parameter in many.parameters())
    expected = one.export("art")["0.weight"]
    if "art" in many.local_tasks:
        torch.testing.assert_close(many.export("art")["0.weight"], expected, rtol=0, atol=ALIKE)


def check_shard_is_checked():
    where = mesh(names=("data",))
    given = {"tasks": TASKS, "epsilon": 0.1}
    with pytest.raises(ValueError, match="needs a `mesh` with a dimension 'data'"):
        TaskModels(network(), **given, mesh=spread(), shard=fully_shard)
    with pytest.raises(ValueError, match=r"'0.weight' is not sharded. Use shard=fully_shard"):
        TaskModels(network(), **given, mesh=where, shard=lambda module, mesh: None)  # noqa: ARG005
    models = TaskModels(network(False), **given, mesh=where, shard=fully_shard)
    with pytest.raises(ValueError, match="Sharded models cannot be converted"):
        models.double()
    with pytest.raises(ValueError, match="'threads' if they are not sharded; got 'threads'"):
        train(models, data(), engine="threads")


def check_sharded_on_2_by_2():
    check_sharded(mesh(2, 2))


def check_empty_shards():
    """One row of a block's only parameter, of which most ranks hold nothing."""
    for where in (mesh(2, 2), mesh(1, 4)):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(13, 17), nn.Linear(17, 1, bias=False))
        make = {"tasks": TASKS, "epsilon": {"0": 0.3, "1": 0.1}}
        one, many = TaskModels(net, **make), TaskModels(net, **make, mesh=where, shard=fully_shard)
        for models in (one, many):
            for task in models.local_tasks:
                torch.manual_seed(TASKS.index(task))
                loss = models[task](torch.randn(8, 13)).square().mean()
                loss.backward()
            torch.optim.SGD(models.parameters(), lr=0.5).step()
            models.project()
        assert_same(many, one, ALIKE)
        np.testing.assert_allclose(many.distances("1"), one.distances("1"), rtol=1e-5)


def check_sharded_not_finite():
    """Only one rank holds the shard with the NaN."""
    models = TaskModels(
        network(False), TASKS, epsilon=0.1, mesh=mesh(names=("data",)), shard=fully_shard
    )
    if dist.get_rank() == 0:
        models["clipart"][0].weight.detach().to_local()[0, 0] = torch.nan
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        models.project()
    messages = models.ranks.objects(str(caught.value))
    assert len(set(messages)) == 1
    assert "of task 'clipart' are NaN" in messages[0]


def interrupted(where, path, **options):
    """A run that stops after an epoch, and goes on in other models, on another mesh."""
    same = {"patience": 3, "pooled_epochs": 1}
    given = {"checkpoint": path, "checkpoint_every": 3, **same}
    make = {"epsilon": {"0": 0.2}, **options}
    one = TaskModels(network(False), TASKS, epsilon={"0": 0.2})
    expected = train(one, data(), "Adam", **same)
    first = TaskModels(network(False), TASKS, mesh=where[0], **make)
    with pytest.raises(InterruptedError):
        train(first, data(), "Adam", callbacks=[interrupt], **given)
    many = TaskModels(network(False), TASKS, mesh=where[1], **make)
    found = train(many, data(), "Adam", **given)
    assert_same(many, one, ALIKE)
    left, right = (each.tasks.drop(columns="task").to_numpy() for each in (found, expected))
    np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-6)
    assert len(list(path.glob("step-*"))) == 1
    train(many, data(), "Adam", **given)  # complete: it is only read
    with pytest.raises(ValueError, match="belongs to another run: seed is 0 there and 1 here"):
        train(many, data(), "Adam", seed=1, **given)


def interrupt(record):
    if record.step > 1:
        raise InterruptedError


def check_checkpoint():
    """Resumed with the other way to divide tasks over ranks."""
    n = dist.get_world_size()
    interrupted((mesh(n, 1), mesh(1, n)), Path("checkpoint"))


def check_sharded_checkpoint():
    n = dist.get_world_size()
    interrupted((mesh(n, 1), mesh(1, n)), Path("sharded"), shard=fully_shard)
