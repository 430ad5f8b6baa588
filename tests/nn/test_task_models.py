"""The contract of `TaskModels`: labels, blocks, modules."""

import numpy as np
import pytest

from crosslearning import Tether
from tests.support.networks import TASKS, TaskModels, network, nn, scatter, torch, vector, vectors


def test_like_a_mapping_of_modules():
    net = network()
    models = TaskModels(net, TASKS, epsilon=0.1)
    assert len(models) == 3
    assert list(models) == list(TASKS) == list(models.tasks)
    assert "art" in models
    assert "photo" not in models
    assert [module for _, module in models.items()] == [models[task] for task in TASKS]
    for module in (*(models[task] for task in models), models.center):
        assert type(module) is type(net)
        assert np.array_equal(vector(module), vector(net))
    assert models.center_weight == 1.0
    assert "tasks=['art', 'clipart', 'product'], all: Tether(epsilon=0.1" in repr(models)


def test_the_given_module_is_left_alone():
    net = network()
    before = vector(net)
    models = TaskModels(net, TASKS, epsilon=0.1)
    scatter(models)
    models.project()
    assert np.array_equal(vector(net), before)


def test_unknown_task():
    with pytest.raises(KeyError, match=r"no task 'photo'.*'art', .* Use `models.center`"):
        TaskModels(network(), TASKS, epsilon=0.1)["photo"]


def test_calling_all_models_at_once():
    with pytest.raises(TypeError, match=r"call `models\[task\]\(x\)`"):
        TaskModels(network(), TASKS, epsilon=0.1)(torch.zeros(1, 4))


def test_parameters_are_those_of_the_tasks():
    models = TaskModels(network(), TASKS, epsilon=0.1)
    parameters = list(models.parameters())
    assert len(parameters) == 3 * len(list(network().parameters()))
    assert all(parameter.is_leaf and parameter.requires_grad for parameter in parameters)
    hidden = {id(parameter) for parameter in models.center.parameters()}
    assert not hidden & {id(parameter) for parameter in parameters}
    assert not any(parameter.requires_grad for parameter in models.center.parameters())
    nested = nn.ModuleDict({"a": models})
    assert len(list(nested["a"].named_parameters(prefix="x"))) == len(parameters)


def test_labels_of_any_kind():
    models = TaskModels(network(), np.array([3, 5]), epsilon=0.1)
    assert models.tasks == (3, 5)
    assert all(type(task) is int for task in models)
    assert ("a", 1) in TaskModels(network(), [("a", 1), None], epsilon=0.1)


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        (None, "`tasks` must name the tasks"),
        ("art", "single label 'art'"),
        ([], "at least one label and no duplicates"),
        (["a", "b", "a"], "no duplicates"),
    ],
)
def test_refused_labels(tasks, message):
    with pytest.raises(ValueError, match=message):
        TaskModels(network(), tasks, epsilon=0.1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "either `epsilon` or `tether`; got neither"),
        ({"epsilon": 0.1, "tether": Tether(0.1)}, "got both"),
        ({"epsilon": -1.0}, "`epsilon` is a distance"),
        ({"epsilon": Tether(0.1)}, "`epsilon` must be a number"),
        ({"tether": 0.1}, "`tether` must be a Tether"),
        ({"epsilon": [0.1, 0.2]}, "needs 3 values here; got 2"),
        (
            {"epsilon": {"head": 0.1}},
            "'head' matches no parameter that is trained. The names of those begin with '0', '1'",
        ),
        ({"epsilon": {"0": 0.1, "0.1": 0.2}}, "'0.1.weight' matches the prefixes '0' and '0.1'"),
        ({"epsilon": {}}, "empty mapping"),
        ({"epsilon": 0.1, "center_weight": -1.0}, "`center_weight` must be"),
        (
            {"epsilon": 0.1, "center_init": "zero", "center_weight": 0},
            "has no initial value; got center_init='zero'",
        ),
        ({"epsilon": 0.1, "center_init": "first"}, "`center_init` must be 'mean' or 'zero'"),
    ],
)
def test_refused_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        TaskModels(network(), TASKS, **arguments)


def test_a_prefix_is_whole_words():
    net = nn.ModuleDict({"conv": nn.Linear(2, 2), "conv1": nn.Linear(2, 2)})
    models = TaskModels(net, TASKS, epsilon={"conv": 0.1})
    assert models.blocks[0].parameters == ("conv.weight", "conv.bias")


def heads(sizes=(2, 5, 3)):
    modules = {}
    for seed, (task, n_classes) in enumerate(zip(TASKS, sizes, strict=True)):
        torch.manual_seed(seed)
        modules[task] = nn.ModuleDict({"body": nn.Linear(4, 6), "head": nn.Linear(6, n_classes)})
    return modules


def test_heads_of_different_sizes():
    given = heads()
    models = TaskModels(given, epsilon={"body": 0.1})
    assert models.tasks == TASKS
    for task in TASKS:
        assert np.array_equal(vector(models[task], "head"), vector(given[task], "head"))
        assert np.array_equal(vector(models[task], "body"), vector(given["art"], "body"))
    scatter(models)
    before = {task: vector(models[task], "head") for task in TASKS}
    models.project()
    np.testing.assert_allclose(models.distances(), 0.1, rtol=1e-5)
    for task in TASKS:
        assert np.array_equal(vector(models[task], "head"), before[task])
    assert np.array_equal(vector(models.center, "head"), vector(given["art"], "head"))


@pytest.mark.parametrize("center_init", ["mean", "zero"])
def test_modules_may_keep_their_start(center_init):
    given = heads()
    models = TaskModels(given, epsilon={"body": 9.0}, same_start=False, center_init=center_init)
    thetas, center = vectors(models, "body")
    assert np.array_equal(thetas, [vector(given[task], "body") for task in TASKS])
    mean = thetas.mean(axis=0) if center_init == "mean" else np.zeros_like(center)
    np.testing.assert_allclose(center, mean, atol=1e-7)


def test_modules_must_agree_on_what_is_tethered():
    with pytest.raises(ValueError, match=r"'head.weight' is \(2, 6\) in task 'art' and \(5, 6\)"):
        TaskModels(heads(), epsilon=0.1)
    larger = {"a": nn.Linear(2, 1, bias=False), "b": nn.Linear(2, 1)}
    with pytest.raises(ValueError, match="'bias' is missing in task 'a'"):
        TaskModels(larger, epsilon=0.1)
    with pytest.raises(ValueError, match=r"'bias' is .* and missing in task 'a'"):
        TaskModels(larger, ["b", "a"], epsilon=0.1)
    with pytest.raises(ValueError, match="'c' is in only one of them"):
        TaskModels(larger, ["a", "b", "c"], epsilon=0.1)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (nn.ReLU(), "must not be empty"),
        (lambda x: x, "must be a torch.nn.Module"),
        (nn.LazyLinear(2), "has no shape yet"),
        (nn.Linear(2, 2, dtype=torch.complex64), "must be real"),
        (nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2).double()), "one dtype and device"),
    ],
)
@pytest.mark.filterwarnings("ignore:Lazy modules are a new feature")
def test_refused_modules(module, message):
    with pytest.raises(ValueError, match=message):
        TaskModels(module, TASKS, epsilon=0.1)


def test_tied_parameters_stay_tied():
    net = nn.ModuleDict({"a": nn.Linear(3, 3), "b": nn.Linear(3, 3)})
    net["b"].weight = net["a"].weight
    models = TaskModels(net, TASKS, epsilon=0.1)
    assert models["art"]["a"].weight is models["art"]["b"].weight
    scatter(models)
    models.project()
    np.testing.assert_allclose(models.distances(), 0.1, rtol=1e-5)


def test_buffers_belong_to_tasks_and_the_centre_has_their_average():
    models = TaskModels(network(), TASKS, epsilon=0.1)
    for k, task in enumerate(TASKS):
        models[task](torch.randn(6, 4) + k)
    models.project()
    means = [models[task][0][1].running_mean for task in TASKS]
    assert not torch.equal(means[0], means[1])
    torch.testing.assert_close(models.center[0][1].running_mean, torch.stack(means).mean(dim=0))
    assert models.center[0][1].num_batches_tracked == 1


def test_buffers_that_tasks_do_not_share_are_left():
    modules = {
        task: nn.ModuleDict({"body": nn.Linear(2, 2), "norm": nn.BatchNorm1d(k + 2)})
        for k, task in enumerate(TASKS)
    }
    models = TaskModels(modules, epsilon={"body": 0.1})
    models["art"]["norm"].running_mean += 1.0
    models.project()
    assert not models.center["norm"].running_mean.any()


def test_train_and_eval_reach_all():
    models = TaskModels(network(), TASKS, epsilon=0.1).eval()
    assert not any(module.training for module in models.modules())
    assert all(module.training for module in models.train().modules())


def test_a_star_stands_for_all_other_parameters():
    net = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2))
    models = TaskModels(net, [0, 1], epsilon={"1": 0.5, "*": 0.1})
    assert [(one.name, one.parameters) for one in models.blocks] == [
        ("1", ("1.weight", "1.bias")),
        ("*", ("0.weight", "0.bias")),
    ]
    with pytest.raises(ValueError, match="prefixes match all trained parameters; leave out"):
        TaskModels(net, [0, 1], epsilon={"0": 0.5, "1": 0.5, "*": 0.1})
