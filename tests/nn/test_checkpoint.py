"""Checkpoints: complete, atomic, resumed to the same bits, and refused when they do not fit."""

import copy
import json
import math
import struct
import subprocess
import sys
from collections import Counter, OrderedDict, defaultdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from tests.support.networks import TASKS, TaskModels, assert_equal_states, nn, snapshot, torch

from crosslearning.nn import fit  # isort: skip
from crosslearning.archive import decode, encode  # isort: skip

LOSS = nn.CrossEntropyLoss()
ROOT = Path(__file__).parents[2]


@pytest.mark.slow  # a kill loop; below, exceptions interrupt runs
def test_a_run_that_is_killed_ends_with_the_same_bits(tmp_path):
    command = [sys.executable, "-W", "error", "-m", "tests.support.killed_training", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=120)
    for ending in ("csv", "safetensors"):
        whole, killed = (tmp_path / f"{name}.{ending}" for name in ("whole", "killed"))
        assert whole.read_bytes() == killed.read_bytes()
    assert not list(tmp_path.glob(".*.tmp"))


class InterruptionError(Exception):
    """Stands for whatever ends a process."""


def rows(sizes=(13, 8, 5), classes=2):
    generator = torch.Generator().manual_seed(0)
    return {
        task: (
            torch.randn(size, 4, generator=generator),
            torch.randint(classes, (size,), generator=generator),
        )
        for task, size in zip(TASKS, sizes, strict=True)
    }


def net(width=6):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, 2))


def sgd(parameters, lr=0.1):
    return torch.optim.SGD(parameters, lr=lr, momentum=0.9)


def train(path=None, interrupt_at=None, module=None, epsilon=0.1, tasks=TASKS, **options):
    """Models after four epochs of four steps, unless interrupted."""
    models = TaskModels(module or net(), tasks, epsilon=epsilon)
    count = 0

    def loss(output, target):
        nonlocal count
        count += 1
        if count == interrupt_at:
            raise InterruptionError
        return LOSS(output, target)

    given = {"data": rows(), "optimizer": sgd, "epochs": 4, "batch_size": 4, **options}
    given["data"] = dict(zip(tasks, given["data"].values(), strict=True))
    history = fit(models, loss=loss, engine="loop", checkpoint=path, **given)
    return models, history


def assert_resumes(path, interrupt_at=3 * 11 + 2, **options):
    uninterrupted = {name: options[name] for name in options if name != "checkpoint_every"}
    expected, history = train(**uninterrupted)
    with pytest.raises(InterruptionError):
        train(path, interrupt_at, **options)
    found, again = train(path, **options)
    assert_equal_states(snapshot(expected), snapshot(found))
    columns = ["step", "loss", "learning_rate", "score"]
    np.testing.assert_array_equal(history.epochs[columns], again.epochs[columns])
    assert history.tasks.equals(again.tasks)
    assert history.best_epoch == again.best_epoch
    return found


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": sgd,
    "adam": lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True),
    "adam fused": lambda p: torch.optim.Adam(p, lr=0.01, fused=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, foreach=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.01),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_states_of_optimizers(tmp_path, name):
    assert_resumes(tmp_path / "run", optimizer=OPTIMIZERS[name], checkpoint_every=3)


SCHEDULERS = {
    "multistep": lambda o: torch.optim.lr_scheduler.MultiStepLR(o, [1, 3]),
    "one cycle": lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.2, total_steps=5),
    "plateau": lambda o: torch.optim.lr_scheduler.ReduceLROnPlateau(o, patience=0, threshold=0.5),
    "lambda": lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda epoch: 0.5**epoch),
}


@pytest.mark.parametrize("name", SCHEDULERS)
def test_states_of_schedulers(tmp_path, name):
    assert_resumes(tmp_path / "run", scheduler=SCHEDULERS[name])


def test_validation_loaders_and_untethered_parameters(tmp_path):
    loaders = {
        task: torch.utils.data.DataLoader(
            torch.utils.data.TensorDataset(*pair), batch_size=4, shuffle=True
        )
        for task, pair in rows().items()
    }
    options = {"data": loaders, "validation": rows(), "patience": 2, "checkpoint_every": 2}
    assert_resumes(tmp_path / "run", epsilon={"0": 0.1}, sampling="proportional", **options,
                   interrupt_at=8 + 7)  # fmt: skip


def test_a_complete_run_is_only_read_and_may_go_on(tmp_path):
    path = tmp_path / "run"
    short, _ = train(path, epochs=2)
    written = path.read_bytes()
    again, history = train(path, epochs=2, interrupt_at=1)
    assert path.read_bytes() == written
    assert len(history) == 2
    assert_equal_states(snapshot(short), snapshot(again))
    expected, _ = train(epochs=4)
    longer, _ = train(path, epochs=4)
    assert_equal_states(snapshot(expected), snapshot(longer))


def test_a_run_that_was_stopped_stays_stopped(tmp_path):
    stop = [lambda record: record.epoch == 2]
    _, history = train(tmp_path / "run", callbacks=stop)
    _, again = train(tmp_path / "run", callbacks=stop)
    assert len(history) == len(again) == 2


def test_resuming_goes_on_from_the_last_epoch_not_from_the_best(tmp_path):
    options = {"validation": rows(), "patience": 9, "metric": lambda *_: 0.0}
    expected, _ = train(epochs=3)  # without patience: the last epoch
    first, _ = train(epochs=1)
    found, history = train(tmp_path / "run", epochs=2, **options)
    assert history.best_epoch == 1
    assert_equal_states(snapshot(first), snapshot(found))
    states = []

    def remember(_):
        states.append(snapshot(expected_models))

    expected_models = TaskModels(net(), TASKS, epsilon=0.1)
    fit(expected_models, rows(), LOSS, sgd, 3, batch_size=4, engine="loop",
        checkpoint=tmp_path / "run", callbacks=[remember], **options)  # fmt: skip
    assert_equal_states(states[-1], snapshot(expected))


OTHERS = {
    "tasks": ({"tasks": ("a", "b", "c")}, r"tasks is \['art', 'clipart', 'product'\] there"),
    "architecture": ({"module": net(7)}, r"architecture: per_task.0.0.weight is .float32 \[6"),
    "dtype": ({"module": net().double()}, "'float32 .* there and 'float64"),
    "epsilon": ({"epsilon": 0.2}, "tethers: all: epsilon is 0.1 there and 0.2 here"),
    "optimizer": ({"optimizer": OPTIMIZERS["adam"]}, "optimizer: class is 'SGD' there and 'Adam'"),
    "rate": ({"optimizer": lambda p: sgd(p, 0.2)}, "optimizer: group 0: lr is '0.1' there"),
    "scheduler": ({"scheduler": SCHEDULERS["lambda"]}, "scheduler is None there and 'LambdaLR'"),
    "seed": ({"seed": 1}, "seed is 0 there and 1 here"),
    "sizes": ({"data": rows((13, 8, 6))}, r"rows is \[13, 8, 5\] there and \[13, 8, 6\] here"),
    "batches": ({"batch_size": 2}, "rows per task and step is 4 there and 2 here; steps per"),
    "project_every": ({"project_every": 2}, "project_every is 1 there and 2 here"),
    "validation": ({"validation": rows()}, r"validation rows is None there and \[13, 8, 5\] here"),
    "epochs": ({"epochs": 1}, "`epochs` is 1, but 2 are done"),
}  # fmt: skip


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    path = tmp_path_factory.mktemp("written") / "run"
    train(path, epochs=2)
    return path


@pytest.mark.parametrize("what", OTHERS)
def test_another_run_is_refused(written, what):
    options, message = OTHERS[what]
    before = written.read_bytes()
    with pytest.raises(ValueError, match=message) as caught:
        train(written, **options)
    assert "Delete it to start from the beginning" in str(caught.value)
    assert written.read_bytes() == before


def test_damaged_and_foreign_files_are_refused(written, tmp_path):
    whole, path = written.read_bytes(), tmp_path / "run"
    models = TaskModels(net(), TASKS, epsilon=0.1)
    models.save(tmp_path / "models")
    foreign = (tmp_path / "models").read_bytes()
    pickled = b"\x80\x04cbuiltins\nexec\n(Vraise Exception('unpickled')\ntR."
    for damaged in (whole[:-10], whole[:40], b"", pickled, foreign):
        path.write_bytes(damaged)
        with pytest.raises(
            ValueError, match="does not contain a checkpoint of fit, or it is damaged"
        ):
            train(path)
        assert path.read_bytes() == damaged


def rewrite(whole, path, change):
    """Write a file with a changed header."""
    (length,) = struct.unpack("<Q", whole[:8])
    header = json.loads(whole[8 : 8 + length])
    content = json.loads(header["__metadata__"]["crosslearning"])
    change(content)
    header["__metadata__"]["crosslearning"] = json.dumps(content)
    changed = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(changed)) + changed + whole[8 + length :])


@pytest.mark.parametrize("key", ["run", "step", "models", "optimizer"])
def test_incomplete_content_is_refused(written, tmp_path, key):
    path = tmp_path / "run"
    rewrite(written.read_bytes(), path, lambda content: content.pop(key))
    with pytest.raises(ValueError, match="cannot be resumed from"):
        train(path)


def test_the_previous_format_is_refused(written, tmp_path):
    path = tmp_path / "run"
    rewrite(written.read_bytes(), path, lambda content: content.update(version=1))
    with pytest.raises(ValueError, match=r"not marked as such for version 2\. Delete it to start"):
        train(path)


def test_files_of_models_have_their_version(tmp_path):
    models = TaskModels(net(), TASKS, epsilon=0.1)
    models.save(tmp_path / "models")
    rewrite((tmp_path / "models").read_bytes(), tmp_path / "old", lambda c: c.update(version=1))
    found = TaskModels.load(tmp_path / "old", net())
    assert_equal_states(snapshot(models), snapshot(found))


def test_the_optimizer_object_of_an_interrupted_run_may_be_used_again(tmp_path):
    """As when a cell of a notebook is run a second time."""
    models = TaskModels(net(), TASKS, epsilon=0.1)
    optimizer = sgd(models.parameters())
    options = {"batch_size": 4, "engine": "loop", "checkpoint": tmp_path / "run",
               "scheduler": lambda o: torch.optim.lr_scheduler.ExponentialLR(o, 0.5)}  # fmt: skip

    def fail(record):
        if record.epoch == 3:
            raise InterruptionError

    with pytest.raises(InterruptionError):
        fit(models, rows(), LOSS, optimizer, 4, callbacks=[fail], **options)
    fit(models, rows(), LOSS, optimizer, 4, **options)
    expected, _ = train(scheduler=options["scheduler"])
    assert_equal_states(snapshot(models), snapshot(expected))


def test_checkpoint_every_needs_a_checkpoint():
    with pytest.raises(ValueError, match="`checkpoint_every` needs `checkpoint`"):
        train(checkpoint_every=3)
    with pytest.raises(ValueError, match="`checkpoint_every` must be a whole number"):
        train(checkpoint_every=0)


def test_packing_turns_around():
    state = {
        0: [1, 2.5, math.inf, -math.inf, None, True, "word"],
        "b": (torch.arange(3), {"c": Counter({2: 1}), 1.5: ()}),
    }
    tensors = {}
    packed = encode(copy.deepcopy(state), tensors, array=torch.Tensor)
    found = decode(json.loads(json.dumps(packed, allow_nan=False)), tensors)
    assert torch.equal(found["b"][0], state["b"][0])
    found["b"], state["b"] = found["b"][1:], state["b"][1:]
    assert found == state
    assert isinstance(found["b"][0]["c"], Counter)
    assert math.isnan(decode(encode(math.nan, {}), {}))
    with pytest.raises(TypeError, match="function cannot be saved"):
        encode([{"f": net}], {})


class Remembering(torch.optim.SGD):
    """An optimizer with another value in its state."""

    extra: object

    def step(self, closure=None):
        super().step(closure)
        for parameter in self.param_groups[0]["params"]:
            self.state[parameter]["extra"] = self.extra


def remembering(extra):
    kind = type("Remembering", (Remembering,), {"extra": extra})
    return lambda parameters: kind(parameters, lr=0.1)


class Pair(NamedTuple):
    one: int
    two: list[int]


def test_subclasses_of_containers_are_saved(tmp_path):
    extra = {
        "ordered": OrderedDict(a=1),
        "default": defaultdict(list, {0: [Pair(1, [2])]}),
        "size": torch.Size([2, 3]),
    }
    assert_resumes(tmp_path / "run", optimizer=remembering(extra))


def test_a_state_that_cannot_be_saved_names_the_optimizer(tmp_path):
    with pytest.raises(ValueError, match=r"set cannot .* another optimizer or scheduler"):
        train(tmp_path / "run", optimizer=remembering({1, 2}))
