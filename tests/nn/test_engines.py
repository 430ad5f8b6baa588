"""Engines: the same numbers from each, the rule that chooses, and what they refuse."""

import math
import threading

import numpy as np
import pytest

from crosslearning import Tether
from tests.support.networks import (
    TASKS,
    TaskModels,
    architectures,
    assert_equal_states,
    nn,
    torch,
    vectors,
)

from crosslearning.nn import fit  # isort: skip
from crosslearning.nn._data import Feed, as_sources, schedule  # isort: skip
from crosslearning.nn._engines import automatic  # isort: skip
from crosslearning.nn._vmap import FlatOptimizer, can_be_flat  # isort: skip

SAME = {torch.float32: 2e-5, torch.float64: 1e-12}  # rounding of 10 steps in another order
LOSS = nn.CrossEntropyLoss()
OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=1e-3),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, fused=True, amsgrad=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.01),
    "nadam": lambda p: torch.optim.NAdam(p, lr=0.01),
    "adafactor": lambda p: torch.optim.Adafactor(p, lr=0.01),
}


def rows(tasks=TASKS, shape=(4,), dtype=torch.float32, size=10):
    generator = torch.Generator().manual_seed(0)
    data = {}
    for k, task in enumerate(tasks):
        x = torch.randn(size + k, *shape, generator=generator).to(dtype)
        data[task] = x, (x.flatten(1).sum(1) > 0.1 * k).long()
    return data


def mlp(dtype=torch.float32, **options):
    torch.manual_seed(0)
    return architectures.mlp(4, 2, hidden=(6, 5), **options).to(dtype)


def trained(engine, module=None, tasks=TASKS, tether=None, **options):
    models = TaskModels(module or mlp(), tasks, tether=tether or Tether(0.1))
    dtype = next(models.parameters()).dtype
    given = {"data": rows(tasks, dtype=dtype), "loss": LOSS, "optimizer": OPTIMIZERS["sgd"]}
    given |= {"epochs": 3, "batch_size": 4, **options}
    history = fit(models, engine=engine, **given)
    return models, history


def assert_same(left, right):
    dtype = next(left.parameters()).dtype
    for one, other in zip(vectors(left), vectors(right), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=SAME[dtype])


@pytest.mark.parametrize("dtype", SAME)
@pytest.mark.parametrize(
    ("engine", "name"), [("threads", "momentum"), *(("vmap", name) for name in OPTIMIZERS)]
)
def test_engines_agree(engine, name, dtype):
    options = {"optimizer": OPTIMIZERS[name]}
    expected, history = trained("loop", mlp(dtype), **options)
    found, again = trained(engine, mlp(dtype), **options)
    assert_same(expected, found)
    columns = ["loss", "distance", "pull"]
    np.testing.assert_allclose(history.tasks[columns], again.tasks[columns], rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("tether", [Tether(stiffness=1), {"layers": Tether(0.05)},
                                    {"head": Tether(0.05), "layers": Tether(0.1)}])  # fmt: skip
def test_springs_blocks_and_untethered_parameters(tether):
    expected, _ = trained("loop", tether=tether)
    assert_same(expected, trained("vmap", tether=tether)[0])


def test_batches_of_a_pass_over_all_tasks_are_those_of_the_loop(monkeypatch):
    """Taken for two steps at a time, task by task with augmentation, and all rows at once."""
    monkeypatch.setattr("crosslearning.nn._data._ROWS_AHEAD", 8)
    equal = {task: (x[:10], y[:10]) for task, (x, y) in rows().items()}

    def noisy(x, generator):
        return x + 0.1 * torch.randn(x.shape, generator=generator)

    for options in ({}, {"augment": noisy}, {"batch_size": None, "data": equal}):
        expected, _ = trained("loop", **options)
        assert_same(expected, trained("vmap", **options)[0])


def test_frozen_parameters():
    module = mlp()
    module.head.bias.requires_grad_(False)
    expected, _ = trained("loop", module)
    found, _ = trained("vmap", module)
    assert_same(expected, found)
    assert torch.equal(found["art"].head.bias, module.head.bias)


@pytest.mark.parametrize("engine", ["loop", "vmap"])
def test_parameters_frozen_by_a_callback(engine):
    """They stay as they are, bit for bit, whatever the optimizer does."""
    weights = []

    def freeze(_):
        for task in models:
            models[task].head.requires_grad_(False)
        weights.append([one.detach().clone() for one in models["art"].head.parameters()])

    models = TaskModels(mlp(), TASKS, epsilon=math.inf)
    optimizer = torch.optim.SGD(models.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1)
    options = {"batch_size": 4, "callbacks": [freeze], "engine": engine}
    fit(models, rows(), nn.CrossEntropyLoss(), optimizer, 4, **options)
    for later in weights[1:]:
        assert all(torch.equal(*pair) for pair in zip(weights[0], later, strict=True))


class Odd(nn.Module):
    """Has a parameter that its output does not depend on, and a constant buffer."""

    def __init__(self):
        super().__init__()
        self.used, self.unused = nn.Linear(4, 2), nn.Linear(4, 2)
        self.register_buffer("scale", torch.tensor(2.0))

    def forward(self, x):
        return self.used(x) * self.scale


def test_a_parameter_that_is_not_used():
    with pytest.raises(ValueError, match=r"does not depend on the parameter 'unused.weight'"):
        trained("vmap", Odd())
    module, tether = Odd(), {"used": Tether(0.1)}
    expected, _ = trained("loop", module, tether=tether)
    found, _ = trained("vmap", module, tether=tether)
    for left, right in zip(expected.parameters(), found.parameters(), strict=True):
        torch.testing.assert_close(left, right, rtol=0, atol=1e-5)


@pytest.mark.parametrize("engine", ["threads", "vmap"])
def test_dropout_is_repeatable(engine):
    module = mlp(dropout=0.5)
    first, _ = trained(engine, module)
    second, _ = trained(engine, module)
    without, _ = trained(engine, mlp())
    assert_equal_states(first.state_dict(), second.state_dict())
    assert not torch.equal(first["art"].head.weight, without["art"].head.weight)


def test_threads_draw_the_same_dropout_as_the_loop():
    """Convolutions, BatchNorm and dropout, in more threads than cores; bit by bit."""
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.Dropout2d(0.3), nn.Flatten(),
        nn.Linear(3 * 16, 2), nn.Dropout(0.2),
    )  # fmt: skip
    tasks = range(6)
    options = {"tasks": tasks, "data": rows(tasks, (1, 6, 6)), "epochs": 2}
    names = set()

    def loss(output, target):
        names.add(threading.current_thread().name)
        return LOSS(output, target)

    expected, _ = trained("loop", module, **options)
    found, _ = trained("threads", module, **options, loss=loss)
    assert_equal_states(expected.state_dict(), found.state_dict())
    assert all(name.startswith("crosslearning") for name in names)


def test_threads_give_torch_its_threads_back():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        trained("threads", epochs=1)
        assert torch.get_num_threads() == 2
        with pytest.raises(RuntimeError) as caught:
            trained("threads", data=rows(shape=(3,)))
        assert caught.value.__notes__[0].startswith("This happened to task")
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_threads_inherit_autocast():
    seen = []

    def loss(output, target):
        seen.append(output.dtype)
        return LOSS(output.float(), target)

    with torch.autocast("cpu", torch.bfloat16):
        trained("threads", epochs=1, loss=loss)
    assert set(seen) == {torch.bfloat16}


@pytest.mark.parametrize("engine", ["threads", "vmap"])
def test_checkpoints_are_resumed_by_any_engine(engine, tmp_path):
    """The state of the optimizer is stored by parameter, however the engine holds it."""
    options = {"optimizer": OPTIMIZERS["adam"], "checkpoint": tmp_path / "run"}
    trained(engine, epochs=1, **options)
    found, _ = trained("loop", epochs=2, **options)
    again, _ = trained(engine, epochs=3, **options)
    expected, _ = trained("loop", optimizer=OPTIMIZERS["adam"])
    assert len(again.tasks) == len(found.tasks) == 3
    assert_same(expected, again)


@pytest.mark.parametrize("name", ["momentum", "adam", "adagrad"])
def test_an_optimizer_goes_on_after_a_pass_over_all_tasks(name):
    """It holds the parameters again, each with its state."""
    models = [TaskModels(mlp(), TASKS, epsilon=0.1) for _ in range(2)]
    for engine, one in zip(["loop", "vmap"], models, strict=True):
        optimizer = OPTIMIZERS[name](one.parameters())
        for _ in range(2):
            fit(one, rows(), LOSS, optimizer, 1, batch_size=4, engine=engine)
        held = optimizer.param_groups[0]["params"]
        assert [id(p) for p in held] == [id(p) for p in one.parameters()]
        assert all(value.shape in (p.shape, ()) for p in held
                   for value in optimizer.state[p].values() if value is not None)  # fmt: skip
    assert_same(*models)


def test_which_optimizers_step_over_the_flat_buffer():
    models = TaskModels(mlp(), TASKS, epsilon=0.1)
    made = {name: make(models.parameters()) for name, make in OPTIMIZERS.items()}
    flat = {name for name, optimizer in made.items() if can_be_flat(optimizer, models)}
    assert flat == set(OPTIMIZERS) - {"adafactor"}
    hooked = OPTIMIZERS["sgd"](models.parameters())
    hooked.register_step_pre_hook(lambda *_: None)
    groups = torch.optim.SGD([{"params": [p], "lr": 0.1} for p in models.parameters()])
    some = OPTIMIZERS["sgd"](models["art"].parameters())
    uneven = OPTIMIZERS["adam"](models.parameters())
    for k, parameter in enumerate(models.parameters()):
        uneven.state[parameter] = {"step": torch.tensor(float(k))}
    assert not any(can_be_flat(one, models) for one in (hooked, groups, some, uneven))
    blocks = TaskModels(mlp(), TASKS, epsilon={"head": 0.1})
    assert not can_be_flat(OPTIMIZERS["sgd"](blocks.parameters()), blocks)


def test_flat_state_turns_around():
    models = TaskModels(mlp(), TASKS, epsilon={"layers": 0.1, "head": 0.2})
    optimizer = OPTIMIZERS["adam"](models.parameters())
    for parameter in models.parameters():
        parameter.grad = torch.randn_like(parameter)
    optimizer.step()
    before = {p: {k: v.clone() for k, v in s.items()} for p, s in optimizer.state.items()}
    flat = FlatOptimizer(optimizer, models)
    flat.flatten()
    assert len(optimizer.state) == 2
    flat.scatter()
    assert len(optimizer.state) == len(before)
    for parameter, state in before.items():
        for key, value in state.items():
            assert torch.equal(optimizer.state[parameter][key], value)


REFUSED = {
    "batch norm": ({"module": nn.Sequential(nn.Linear(4, 2), nn.BatchNorm1d(2))},
                   "BatchNorm; every task has its own '1.running_mean'"),
    "no batch": ({"sampling": "proportional", "batch_size": 1}, "needs a batch of each"),
    "shapes": ({"batch_size": None}, "all of the same shape; got 3 of 3, with shapes of x and y"),
    "make": ({"module": {t: mlp(dropout=0.1 * k) for k, t in enumerate(TASKS)}},
             "that of task 'clipart' differs from that of task 'art'"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_a_pass_over_all_tasks_refuses(what):
    options, message = REFUSED[what]
    with pytest.raises((ValueError, RuntimeError), match=message):
        trained("vmap", **options)


def test_a_loss_that_looks_at_numbers_is_told_of_the_loop():
    def loss(output, target):
        return LOSS(output, target) if output.sum() > 0 else output.sum()

    with pytest.raises(RuntimeError) as caught:
        trained("vmap", loss=loss)
    assert "engine='loop' takes any model" in caught.value.__notes__[0]


def chosen(module, n_tasks=8, loss=LOSS, data=None, batch_size=4, sampling="cycle"):
    models = TaskModels(module, range(n_tasks), epsilon=0.1)
    sources = as_sources(data or rows(range(n_tasks)))
    plan = schedule(tuple(sources.values()), batch_size, sampling)
    return automatic(models, loss, Feed(sources, plan, 0, None, torch.device("cpu")))


def test_the_rule_of_auto(monkeypatch):
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 2)

    loaders = {k: torch.utils.data.DataLoader(list(zip(*pair, strict=True)))
               for k, pair in rows(range(8)).items()}  # fmt: skip
    assert chosen(mlp()) == "vmap"
    assert chosen(mlp(), loss=nn.functional.cross_entropy) == "vmap"
    assert chosen(nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3), nn.GELU())) == "vmap"
    assert chosen(mlp(), n_tasks=4) == "vmap"
    assert chosen(mlp(), n_tasks=3) == "loop"
    assert chosen(mlp(), loss=lambda output, target: LOSS(output, target)) == "loop"
    assert chosen(mlp(), sampling="proportional") == "loop"
    assert chosen(mlp(), batch_size=None) == "loop"  # of unequal numbers of rows
    assert chosen(mlp(), data=loaders) == "loop"
    assert chosen(Own()) == "loop"
    small = architectures.small_cnn(2)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    assert chosen(small) == "threads"
    assert chosen(small, n_tasks=1) == "loop"
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    assert chosen(small) == "loop"


def test_auto_trains():
    tasks = range(8)
    found, _ = trained("auto", tasks=tasks)
    expected, _ = trained("vmap", tasks=tasks)
    assert_equal_states(found.state_dict(), expected.state_dict())
