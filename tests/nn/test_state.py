"""Views survive what people do to modules; states and files come back as they were."""

import copy
import pickle

import numpy as np
import pytest

from crosslearning import Tether
from tests.support.networks import (
    TASKS,
    TaskModels,
    assert_equal_states,
    network,
    nn,
    scatter,
    snapshot,
    torch,
    vectors,
)

safetensors = pytest.importorskip("safetensors.torch")


def trained(**arguments) -> TaskModels:
    models = TaskModels(network(), TASKS, **(arguments or {"epsilon": 0.5}))
    for k, task in enumerate(TASKS):
        models[task](torch.randn(6, 4) + k)
    scatter(models)
    models.project()
    return models


def assert_linked(models: TaskModels) -> None:
    """Writing into any task's parameter is seen by the projection, and the other way round."""
    for task in models:
        before = models.distances()
        with torch.no_grad():
            next(models[task].parameters()).add_(10.0)
        moved = models.distances() != before
        assert [label for label, far in zip(models, moved, strict=True) if far] == [task]
    models.project()
    thetas, center = vectors(models)
    np.testing.assert_allclose(np.linalg.norm(thetas - center, axis=1), 0.5, rtol=0.02)


OPERATIONS = {
    "nothing": lambda m: m,
    "deepcopy": copy.deepcopy,
    "pickle": lambda m: pickle.loads(pickle.dumps(m)),
    "double": lambda m: m.double(),
    "float": lambda m: m.double().float(),
    "to dtype": lambda m: m.to(torch.float64),
    "to device": lambda m: m.to("cpu"),
    "half": lambda m: m.half().float(),
    "channels last": lambda m: m.to(memory_format=torch.channels_last),
    "share memory": lambda m: m.share_memory(),
    "copy of a double": lambda m: copy.deepcopy(m.double()),
    "train": lambda m: m.eval().train(),
    "freeze": lambda m: m.requires_grad_(False).requires_grad_(True),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_links_survive(name):
    models = OPERATIONS[name](trained())
    assert_linked(models)


@pytest.mark.parametrize("assign", [False, True])
def test_links_survive_loading_one_task(assign):
    models = trained()
    models["art"].load_state_dict(models.export("product"), assign=assign)
    np.testing.assert_array_equal(*vectors(models)[0][[0, 2]])
    assert_linked(models)


def test_links_are_made_again_for_replaced_layers():
    models = trained()
    models["art"][1] = nn.Linear(5, 2)
    assert_linked(models)


def test_a_task_converted_alone_is_refused_and_the_remedy_works():
    models = trained()
    models["clipart"].double()
    with pytest.raises(ValueError, match=r"of task 'clipart' must have .* `models.to\(...\)`"):
        models.project()
    assert_linked(models.double())


def test_a_lost_parameter_is_refused():
    models = trained()
    models["art"][1] = nn.Identity()
    with pytest.raises(ValueError, match="task 'art' has lost a tethered parameter"):
        models.project()


def test_copies_are_apart():
    models = trained()
    before = snapshot(models)
    scatter(copy.deepcopy(models))
    assert_equal_states(before, models.state_dict())


def test_conversion_keeps_optimizer_and_gradients():
    models = trained()
    optimizer = torch.optim.SGD(models.parameters(), lr=0.1)
    models["art"](torch.ones(3, 4)).sum().backward()
    models.double()
    assert models["art"][1].weight.grad.dtype is torch.float64
    before = models["art"][1].bias.detach().clone()
    optimizer.step()
    assert not torch.equal(models["art"][1].bias, before)


def test_state_dict_round_trip():
    models, other = trained(), TaskModels(network(7), TASKS, epsilon=0.5)
    keys = other.load_state_dict(models.state_dict())
    assert not keys.missing_keys
    assert not keys.unexpected_keys
    assert_equal_states(models.state_dict(), other.state_dict())
    assert np.array_equal(other._pulls["all"], models._pulls["all"])
    assert_linked(other)


def test_state_dict_by_assignment():
    models, other = trained(), TaskModels(network(7), TASKS, epsilon=0.5)
    other.load_state_dict(snapshot(models), assign=True)
    assert_equal_states(models.state_dict(), other.state_dict())
    assert_linked(other)


def test_state_dict_is_strict():
    models = trained()
    state = models.state_dict()
    del state["center.1.bias"]
    with pytest.raises(RuntimeError, match=r"Missing key.*center\.1\.bias"):
        models.load_state_dict(state)
    assert models.load_state_dict(state, strict=False).missing_keys == ["center.1.bias"]
    with pytest.raises(ValueError, match=r"belongs to the tasks \['art', 'clipart', 'product'\]"):
        TaskModels(network(), sorted(TASKS, reverse=True), epsilon=0.5).load_state_dict(
            models.state_dict()
        )


def test_training_goes_on_bit_by_bit_from_a_state():
    models = trained()
    other = TaskModels(network(5), TASKS, epsilon=0.5)
    other.load_state_dict(models.state_dict())
    for seed in (3, 4):
        for one in (models, other):
            scatter(one, 0.3, seed)
            one.project()
    assert_equal_states(models.state_dict(), other.state_dict())


def test_export_is_an_ordinary_state_dict():
    models = trained()
    for task, module in [("art", models["art"]), (None, models.center)]:
        exported = models.export(task)
        assert_equal_states(exported, module.state_dict())
        storages = {value.untyped_storage().nbytes() for value in exported.values()}
        assert max(storages) == 5 * 4 * 4  # the largest layer, not the buffer
        network().load_state_dict(exported)


@pytest.mark.parametrize(
    "arguments",
    [
        {"epsilon": 0.5},
        {"epsilon": {"0": 0.1, "1": np.inf}},
        {"epsilon": [0.1, np.inf, 0.0], "center_weight": 0.25},
    ],
)
def test_file_round_trip(tmp_path, arguments):
    models = trained(**arguments)
    models.save(tmp_path / "models.safetensors")
    loaded = TaskModels.load(tmp_path / "models.safetensors", network(9))
    assert_equal_states(models.state_dict(), loaded.state_dict())
    assert loaded.blocks == models.blocks
    assert (loaded.tasks, loaded.center_weight) == (models.tasks, models.center_weight)
    assert [file.name for file in tmp_path.iterdir()] == ["models.safetensors"]


def test_file_with_a_spring_and_labels_of_other_kinds(tmp_path):
    tether = Tether(2.0, stiffness=0.3, tension=0.1)
    models = TaskModels(network(), [1, ("a", 2), None], tether=tether)
    models.save(tmp_path / "models.safetensors")
    loaded = TaskModels.load(tmp_path / "models.safetensors", network())
    assert loaded.tasks == (1, ("a", 2), None)
    assert loaded.blocks[0].tether == tether
    with pytest.raises(ValueError, match="Only task labels that are"):
        TaskModels(network(), [frozenset("a")], epsilon=1.0).save(tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "models.safetensors"
    trained().save(path)
    before = path.read_bytes()

    def fail(*_, **__):
        raise OSError("disk full")

    monkeypatch.setattr("crosslearning.nn._files.save_file", fail)
    with pytest.raises(OSError, match="disk full"):
        trained().save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_damaged_and_foreign_files_are_refused(tmp_path):
    path = tmp_path / "models.safetensors"
    trained().save(path)
    whole = path.read_bytes()
    for damaged in (whole[:-10], whole[:40], b"", b"\x80\x04N.", whole[:8] + b"x" + whole[9:]):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="does not contain TaskModels, or it is damaged"):
            TaskModels.load(path, network())
    for metadata in (None, {"crosslearning": "{}"}, {"crosslearning": "[1]"}, {"other": "1"}):
        safetensors.save_file({"x": torch.zeros(2)}, path, metadata=metadata)
        with pytest.raises(ValueError, match="does not contain TaskModels"):
            TaskModels.load(path, network())
    with pytest.raises(FileNotFoundError, match="There is no file"):
        TaskModels.load(tmp_path / "nowhere", network())


def test_files_of_another_architecture_are_refused(tmp_path):
    path = tmp_path / "models.safetensors"
    trained().save(path)
    for module in (nn.Linear(4, 5), network().double()):
        with pytest.raises(ValueError, match="does not match the module"):
            TaskModels.load(path, module)
