"""Checks of models whose tasks are divided over ranks; `rank_program` runs them on every rank."""

import copy
import warnings

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

from crosslearning import Tether
from crosslearning.nn import TaskModels, evaluate
from tests.support.rank_models import (
    ALIKE,
    TASKS,
    assert_same,
    data,
    mesh,
    network,
    spread,
    step,
    train,
)


def check_projection_is_bit_equal():
    """Several chunks of columns; some ranks have more tasks or chunks than others, or none."""
    tethers = [Tether(0.1), Tether([0.1, 0.2, 9.0, 0.05, 0.0]), Tether(0.3, 0.5, 0.1)]
    blocks = {"0": Tether(0.1), "3": Tether(0.0)}  # BatchNorm is untethered
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        for tether in [*tethers, blocks]:
            one = TaskModels(network(dtype=dtype), TASKS, tether=tether)
            many = TaskModels(network(dtype=dtype), TASKS, tether=tether, mesh=spread())
            for number in range(2):
                step(one, number), step(many, number)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # bfloat16 does not resolve the radii
                    expected, found = one.project(0.1), many.project(0.1)
                assert_same(many, one)
                assert found.status is expected.status
                assert found.kkt_residual == expected.kkt_residual
                np.testing.assert_array_equal(found.pull, expected.pull)
                np.testing.assert_array_equal(found.distances, expected.distances)
                np.testing.assert_array_equal(many.distances(), one.distances())


def check_local_tasks():
    models = TaskModels(network(), TASKS, epsilon=0.1, mesh=spread())
    parts = models.ranks.objects(models.local_tasks)
    assert [task for part in parts for task in part] == list(TASKS)
    assert dict(models.items()).keys() == set(models.local_tasks)
    (other,) = {parts[0][0], parts[-1][0]} - set(models.local_tasks[:1]) or {parts[1][0]}
    assert_same(copy.deepcopy(models), models)
    with pytest.raises(KeyError, match=r"Loop over `models.local_tasks`"):
        models[other]


def check_start():
    """Ranks whose networks differ start from that of the first; given models keep theirs."""
    torch.manual_seed(dist.get_rank())
    models = TaskModels(nn.Linear(3, 2), TASKS, epsilon=0.1, mesh=spread())
    torch.manual_seed(0)
    expected = nn.Linear(3, 2).state_dict()
    for module in [*models.per_task, models.center]:
        torch.testing.assert_close(module.state_dict(), expected, rtol=0.0, atol=0.0)
    given = {task: nn.Linear(3, 2) for task in TASKS}
    for center in ("mean", "zero"):
        options = {"epsilon": 0.1, "same_start": False, "center_init": center}
        assert_same(TaskModels(given, **options, mesh=spread()), TaskModels(given, **options))


def check_not_finite():
    """The last task turns NaN on its rank: all ranks raise the same, and nothing moved."""
    models = TaskModels(network(), TASKS, epsilon=0.1, mesh=spread())
    step(models, 0)
    if TASKS[-1] in models.local_tasks:
        with torch.no_grad():
            models[TASKS[-1]][3].weight[0, 0] = torch.nan
    before = [value.clone() for value in models.state_dict().values()]
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        models.project()
    messages = models.ranks.objects(str(caught.value))
    assert len(set(messages)) == 1
    assert "of task 'sketch' are NaN or infinite. Nothing" in messages[0]
    for value, was in zip(models.state_dict().values(), before, strict=True):
        assert torch.equal(value, was) or value.isnan().any()


def noisy(x, generator):
    return x + 0.1 * torch.randn(x.shape, generator=generator)


def check_training(where=None, norm=True):
    """20 steps and more in two epochs, with augmentation, for each way to compute and to draw."""
    where = where or spread()
    runs = [
        ("SGD", {"augment": noisy}),
        ("Adam", {"batch_size": None}),
        ("Adam", {"sampling": "proportional", "project_every": 3, "engine": "threads"}),
    ]
    for optimizer, options in runs[: None if dist.get_world_size() == 2 else 1]:
        norm = norm and "sampling" not in options  # batches of one row
        one = TaskModels(network(norm), TASKS, epsilon=0.2)
        many = TaskModels(network(norm), TASKS, epsilon=0.2, mesh=where)
        own = {task: rows for task, rows in data().items() if task in many.local_tasks}
        expected = train(one, data(), optimizer, **options)
        found = train(many, own, optimizer, **options | {"validation": own})
        assert_same(many, one, ALIKE)
        for table in ("epochs", "tasks"):
            left, right = getattr(found, table), getattr(expected, table)
            for column in set(left) - {"seconds", "task"}:
                np.testing.assert_allclose(left[column], right[column], rtol=1e-5, atol=1e-6)
        assert evaluate(many, data()).equals(evaluate(one, data()))
        unseen = {"new": data()["art"]}
        assert evaluate(many, unseen).equals(evaluate(one, unseen))


def check_vmap():
    options = {"engine": "vmap", "validation": None, "metric": None}
    one = TaskModels(network(False), TASKS, epsilon=0.2)
    many = TaskModels(network(False), TASKS, epsilon=0.2, mesh=spread())
    train(one, data(), **options), train(many, data(), **options)
    assert_same(many, one, ALIKE)


def check_file():
    """A file of models on ranks is read by one process, and the other way round."""
    many = TaskModels(network(), TASKS, epsilon={"0": 0.1}, mesh=spread())
    step(many, 0), many.project()
    many.save("models.safetensors")
    one = TaskModels.load("models.safetensors", network())
    assert_same(many, one)
    again = TaskModels.load("models.safetensors", network(), mesh=spread())
    assert_same(again, one)
    for models in (again, one):
        step(models, 1), models.project()
    assert_same(again, one)


def check_uneven_batches():
    """Loaders with 10, 8, 5, 2 and 1 batches, which a rank may have none of in a step."""

    def loaders():
        return {
            task: torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=4)
            for task, (x, y) in data().items()
        }

    one = TaskModels(network(False), TASKS, epsilon=0.2)
    many = TaskModels(network(False), TASKS, epsilon=0.2, mesh=spread())
    for models in (one, many):
        train(models, loaders(), sampling="proportional")
    assert_same(many, one, ALIKE)


def check_loss_not_finite():
    models = TaskModels(network(), TASKS, epsilon=0.1, mesh=spread())
    given = data()
    given["sketch"][0][:] = torch.inf
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        train(models, given)
    messages = models.ranks.objects(str(caught.value))
    assert len(set(messages)) == 1
    assert "that of task 'sketch' is nan in step 1." in messages[0]


def check_stops_together():
    """A callback of one rank stops all; patience ends with the best epoch's models."""
    models = TaskModels(network(), TASKS, epsilon=0.1, mesh=spread())
    last = dist.get_rank() == dist.get_world_size() - 1
    assert len(train(models, data(), callbacks=[lambda _: last])) == 1
    one = TaskModels(network(), TASKS, epsilon=0.1)
    many = TaskModels(network(), TASKS, epsilon=0.1, mesh=spread())
    for each in (one, many):
        assert train(each, data(), patience=1).best_epoch is not None
    assert_same(many, one, ALIKE)


def check_mesh_is_checked():
    for where, tasks, words in (
        (mesh(names=("model",)), TASKS, "must be named 'task', 'data' or both"),
        (spread(), ["art"], "ranks and 1 tasks. Use fewer ranks"),
    ):
        with pytest.raises(ValueError, match=words):
            TaskModels(network(), tasks, epsilon=0.1, mesh=where)


def check_mesh_2_by_2():
    """Two ranks per part of the tasks, with gradients averaged: batches of 4, of 7 and of 1."""
    check_training(mesh(2, 2), norm=False)
    for batch_size in (7, 1):
        one = TaskModels(network(False), TASKS, epsilon=0.2)
        many = TaskModels(network(False), TASKS, epsilon=0.2, mesh=mesh(2, 2))
        for models in (one, many):
            train(models, data(), batch_size=batch_size)
        assert_same(many, one, ALIKE)


def check_own_loop_on_2_by_2():
    """A loop by hand, and what happens to one that forgets to average."""
    models = TaskModels(network(), TASKS, epsilon=0.05, mesh=mesh(2, 2))
    optimizer = torch.optim.SGD(models.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(dist.get_rank())
    for forgets in (False, False, True):
        optimizer.zero_grad()
        for task in models.local_tasks:
            x = torch.randn(6, 13, generator=generator)
            nn.functional.cross_entropy(models[task](x), x[:, :3].argmax(1)).backward()
        if not forgets:
            models.average_gradients()
        optimizer.step()
        if forgets:
            with pytest.raises(ValueError, match=r"have diverged. Call `models.average_gradients"):
                models.project()
            return
        models.project()
        for value in models.state_dict().values():  # BatchNorm's, too
            other = value.clone()
            models.ranks.broadcast([other], "data")
            assert torch.equal(value, other)


def check_data_elsewhere():
    """A task's data were given to a rank that does not hold it."""
    models = TaskModels(network(), TASKS, epsilon=0.1, mesh=spread())
    foreign = {task: rows for task, rows in data().items() if task not in models.local_tasks}
    with pytest.raises(ValueError, match="must be given to the rank that holds it; those of 'art'"):
        evaluate(models, foreign)


def check_shared():
    """What is frozen from the beginning is there once on each rank, and stays as it is."""
    module = network(False)
    module[0].requires_grad_(False)
    for options in ({"mesh": spread()}, {"mesh": mesh(names=("data",)), "shard": fully_shard}):
        one = TaskModels(module, TASKS, epsilon=0.2)
        many = TaskModels(module, TASKS, epsilon=0.2, **options)
        train(one, data()), train(many, data())
        assert_same(many, one, ALIKE)
        names = [name for name in many.state_dict() if name.endswith("0.weight")]
        assert names == ["center.0.weight"]
        assert all(part[0].weight is many.center[0].weight for part in many.per_task)
        many.save("shared.safetensors")
        again = TaskModels.load("shared.safetensors", module, mesh=options["mesh"])
        assert_same(again, TaskModels.load("shared.safetensors", module))
        assert torch.equal(again.export()["0.weight"], module[0].weight)
