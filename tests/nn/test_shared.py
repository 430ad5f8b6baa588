"""Frozen parameters and constant buffers exist once, whatever the number of tasks."""

import copy
import pickle
import subprocess
import sys
from itertools import chain

import pytest

from tests.support.networks import TaskModels, assert_equal_states, nn, scatter, snapshot, torch

from crosslearning.nn import fit  # isort: skip

safetensors = pytest.importorskip("safetensors.torch")

TASKS = range(5)


class Adapted(nn.Module):
    """A frozen base with a constant and changing buffers, and a small part that is trained."""

    def __init__(self, width=6, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.base = nn.Linear(width, width).requires_grad_(False)
        self.register_buffer("mask", torch.linspace(0.5, 1.0, width))
        self.norm = nn.BatchNorm1d(width).requires_grad_(False)
        self.head = nn.Linear(width, 2)

    def forward(self, x):
        return self.head(self.norm(self.base(x) * self.mask))


def adapted(**options) -> TaskModels:
    models = TaskModels(Adapted(), TASKS, epsilon=0.3, **options)
    scatter(models)
    models.project()
    return models


def assert_shared(models: TaskModels) -> None:
    for module in models.per_task:
        for name in ("base.weight", "base.bias", "norm.weight"):
            assert module.get_parameter(name) is models.center.get_parameter(name)
        assert module.mask is models.center.mask
        assert module.norm.running_mean is not models.center.norm.running_mean
        assert module.head.weight is not models.center.head.weight
    scatter(models)
    models.project()
    assert models.distances().max() <= 0.3 * 1.01


def n_bytes(models: TaskModels) -> int:
    """Memory of all tensors, each stretch of it counted once."""
    tensors = chain(models.parameters(), models.center.parameters(), models.buffers())
    storages = [one.untyped_storage() for one in tensors]
    return sum({one.data_ptr(): one.nbytes() for one in storages}.values())


def test_memory_is_the_base_and_what_is_trained_for_each_task():
    width, rank, n_tasks = 1500, 4, 8
    base = nn.Linear(width, width).requires_grad_(False)
    adapter = nn.Sequential(nn.Linear(width, rank), nn.Linear(rank, width))
    sizes = [4 * sum(one.numel() for one in part.parameters()) for part in (base, adapter)]
    models = TaskModels(nn.Sequential(base, adapter), range(n_tasks), epsilon=0.1)
    assert n_bytes(models) == sizes[0] + (n_tasks + 1) * sizes[1]
    assert models.blocks[0].parameters == tuple(
        f"1.{name}" for name, _ in adapter.named_parameters()
    )
    assert sum(one.numel() for one in models.parameters()) * 4 == sizes[0] + n_tasks * sizes[1]
    assert models[0][0].weight.data_ptr() != base.weight.data_ptr()


OPERATIONS = {
    "nothing": lambda m: m,
    "deepcopy": copy.deepcopy,
    "pickle": lambda m: pickle.loads(pickle.dumps(m)),
    "double": lambda m: m.double(),
    "half": lambda m: m.half().float(),
    "share memory": lambda m: m.share_memory(),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_sharing_survives(name):
    assert_shared(OPERATIONS[name](adapted()))


@pytest.mark.parametrize("assign", [False, True])
def test_states_hold_the_base_once(assign):
    models, other = adapted(), TaskModels(Adapted(seed=7), TASKS, epsilon=0.3)
    state = models.state_dict()
    assert [name for name in state if "base.weight" in name or "mask" in name] == [
        "center.mask", "center.base.weight",
    ]  # fmt: skip
    other.load_state_dict(state, assign=assign)
    assert_equal_states(snapshot(models), snapshot(other))
    assert torch.equal(other[3].base.weight, models[0].base.weight)
    assert_shared(other)


def test_a_state_inside_a_larger_module():
    models, other = (nn.ModuleDict({"models": adapted(), "other": nn.Linear(1, 1)}) for _ in "ab")
    assert "models.per_task.1.base.weight" not in models.state_dict()
    other.load_state_dict(models.state_dict())
    assert_shared(other["models"])


def test_files_hold_the_base_once(tmp_path):
    models = adapted()
    models.save(tmp_path / "file")
    assert sum("base.weight" in name for name in safetensors.load_file(tmp_path / "file")) == 1
    again = TaskModels.load(tmp_path / "file", Adapted(seed=7))
    assert_equal_states(snapshot(models), snapshot(again))
    assert_shared(again)


def test_a_file_in_which_they_differ_is_refused(tmp_path):
    module = Adapted().requires_grad_(True)
    models = TaskModels(module, TASKS, epsilon=0.3)
    scatter(models)
    models.save(tmp_path / "file")
    with pytest.raises(ValueError, match="are one tensor here: the parameter is frozen"):
        TaskModels.load(tmp_path / "file", Adapted())


def test_an_export_is_complete():
    models, alone = adapted(), Adapted(seed=7)
    alone.load_state_dict(models.export(2))
    x = torch.randn(4, 6)
    assert torch.equal(alone.eval()(x), models[2].eval()(x))
    assert alone.base.weight.data_ptr() != models[2].base.weight.data_ptr()


@pytest.mark.parametrize("engine", ["loop", "threads", "vmap"])
def test_engines_train_what_is_not_frozen(engine):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(5, 8, 6, generator=generator)
    data = {task: (x[task], (x[task, :, task] > 0).long()) for task in TASKS}
    module = Adapted()
    module.norm = nn.LayerNorm(6).requires_grad_(False)
    results = []
    for one in ("loop", engine):
        models = TaskModels(module, TASKS, epsilon=0.3)
        optimizer = torch.optim.Adam(models.parameters(), lr=0.1)
        fit(models, data, nn.CrossEntropyLoss(), optimizer, 3, batch_size=4, engine=one)
        assert len(optimizer.param_groups[0]["params"]) == 4 + 2 * len(TASKS)
        results.append({task: models.export(task) for task in TASKS})
    torch.testing.assert_close(*results, atol=1e-5, rtol=1e-5)
    assert torch.equal(models[1].base.weight, module.base.weight)


def test_compiled_models_share():
    models = adapted()
    x = torch.randn(4, 6)
    expected = models[1].eval()(x)
    compiled = torch.compile(models[1], backend="eager")
    torch.testing.assert_close(compiled(x), expected)


def test_given_modules_share_what_they_shared():
    base = nn.Linear(6, 6).requires_grad_(False)
    given = {task: nn.Sequential(base, nn.Linear(6, 2)) for task in ("a", "b")}
    given["c"] = nn.Sequential(nn.Linear(6, 6).requires_grad_(False), nn.Linear(6, 2))
    models = TaskModels(given, epsilon=0.1)
    assert models["a"][0].weight is models["b"][0].weight is models.center[0].weight
    assert torch.equal(models["c"][0].weight, given["c"][0].weight)
    assert models.blocks[0].parameters == ("1.weight", "1.bias")
    again = TaskModels(given, epsilon=0.1)
    again.load_state_dict(models.state_dict())
    assert torch.equal(again["c"][0].weight, given["c"][0].weight)


def test_what_was_frozen_from_the_beginning_stays_so():
    models = adapted()
    models[2].base.requires_grad_(True)
    for _ in range(2):
        with pytest.raises(ValueError, match=r"'base.weight' was frozen when TaskModels was built"):
            models.project()
    models[2].base.requires_grad_(False)
    models.project()
    with pytest.raises(ValueError, match="must have parameters to train; all are frozen"):
        TaskModels(Adapted().requires_grad_(False), TASKS, epsilon=0.1)
    with pytest.raises(ValueError, match=r"'base' matches no parameter that is trained"):
        TaskModels(Adapted(), TASKS, epsilon={"base": 0.1})


def test_a_constant_that_changes_is_refused_and_the_remedy_works():
    models = adapted()
    models[1].load_state_dict(models.export(0))  # the same values
    models.project()
    models[1].mask.add_(1.0)
    for _ in range(2):
        with pytest.raises(ValueError, match=r"'mask' is one tensor in all tasks, and has been"):
            models.project()
    module = Adapted()
    models = TaskModels({task: copy.deepcopy(module) for task in TASKS}, epsilon=0.3)
    models[1].mask.add_(5.0)
    models.project()
    torch.testing.assert_close(models.center.mask, module.mask + 1.0)


def test_a_buffer_that_a_task_replaces_is_its_own():
    models = adapted()
    for task in TASKS:
        models[task].mask = models[task].mask + task
    models.project()
    torch.testing.assert_close(models.center.mask, models[2].mask)
    assert models.state_dict()["per_task.4.mask"][0] == 4.5


_RESIDENT = """
import resource, sys, torch
from pathlib import Path
from torch import nn
from crosslearning.nn import TaskModels

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

width, depth, rank, n_tasks = 2500, 16, 12, 100
base = nn.Sequential(*[nn.Linear(width, width, bias=False) for _ in range(depth)])
base.requires_grad_(False)
adapters = nn.ModuleList(nn.Sequential(nn.Linear(width, rank, bias=False),
    nn.Linear(rank, width, bias=False)) for _ in range(depth))
before = resident()
module = nn.ModuleDict({"base": base, "adapters": adapters})
models = TaskModels(module, range(n_tasks), epsilon=1.0)
models.project()
models.save(sys.argv[1])
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
n_base, n_adapter = (sum(p.numel() for p in part.parameters()) for part in (base, adapters))
assert n_base == 100_000_000 and n_adapter == 960_000
print(resident() - before, peak - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="resident memory is read from /proc")
def test_a_hundred_adapters_of_a_large_base(tmp_path):
    """100 M frozen parameters, 100 adapters of about a million: the base, and 2 GiB at most."""
    command = [sys.executable, "-c", _RESIDENT, tmp_path / "models.safetensors"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    grown, peak = map(int, output.split())
    trained = 101 * 4 * 960_000
    assert grown < 4e8 + 1.2 * trained
    assert peak < 4e8 + 2 * 2**30
