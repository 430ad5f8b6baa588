"""Epochs at ε = 0 before the radius applies."""

import math
import shutil

import numpy as np
import pandas as pd
import pytest

from tests.support.networks import (
    TASKS,
    TaskModels,
    architectures,
    assert_equal_states,
    network,
    nn,
    snapshot,
    torch,
    vectors,
)  # fmt: skip

from crosslearning import Tether  # isort: skip
from crosslearning.nn import fit, select_epsilon, sweep  # isort: skip

LOSS = nn.CrossEntropyLoss()


@pytest.fixture
def data():
    generator = torch.Generator().manual_seed(0)
    return {
        task: (
            torch.randn(8, 4, generator=generator),
            torch.randint(0, 2, (8,), generator=generator),
        )
        for task in TASKS
    }


def mlp():
    return architectures.mlp(4, 2, hidden=(6,))


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def halving(optimizer):
    return torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)


def trained(data, epsilon=0.05, epochs=4, tether=None, module=None, **options):
    models = TaskModels(
        module or network(), TASKS, epsilon=epsilon if tether is None else None, tether=tether
    )
    given = {"batch_size": 4, "engine": "loop", "scheduler": halving, **options}
    return models, fit(models, data, LOSS, sgd, epochs, **given)


def by_epoch(history):
    return history.tasks["distance"].to_numpy().reshape(-1, len(TASKS))


@pytest.mark.parametrize("engine", ["loop", "threads", "vmap"])
@pytest.mark.parametrize("epsilon", [0.02, math.inf])
def test_the_tasks_are_equal_until_the_radius_applies(data, engine, epsilon):
    options = {"module": mlp(), "epsilon": epsilon, "engine": engine, "project_every": 3}
    _, history = trained(data, pooled_epochs=2, **options)
    distances = by_epoch(history)
    assert (distances[:2] == 0).all()
    assert (distances[2:] > 0).all()
    assert distances.max() <= epsilon * (1 + 1e-5)


@pytest.mark.parametrize("tether", [Tether(0.05), Tether(stiffness=0.5), Tether(math.inf)])
def test_pooled_epochs_are_those_at_radius_0_bit_for_bit(data, tether):
    pooled, expected = trained(data, epsilon=0.0)
    every, history = trained(data, tether=tether, pooled_epochs=4)
    assert_equal_states(snapshot(pooled), snapshot(every))
    assert history.tasks.equals(expected.tasks)
    _, history = trained(data, tether=tether, pooled_epochs=3)
    first = history.tasks["epoch"] <= 3
    assert history.tasks[first].equals(expected.tasks[first])
    assert not history.tasks.equals(expected.tasks)


@pytest.mark.parametrize("epsilon", [0.0, 0.05])
def test_without_them_and_at_radius_0_nothing_changes(data, epsilon):
    found, _ = trained(data, epsilon=epsilon, pooled_epochs=0 if epsilon else 2)
    expected, _ = trained(data, epsilon=epsilon)
    assert_equal_states(snapshot(found), snapshot(expected))


def test_blocks_that_are_not_named_keep_their_tether(data):
    epsilon = {"0.0": 0.05, "1": 0.1}  # BatchNorm is in no block
    models, _ = trained(data, epsilon, epochs=2, pooled_epochs={"0.0": 2})
    assert (models.distances("0.0") == 0).all()
    np.testing.assert_allclose(models.distances("1"), 0.1, rtol=1e-4)
    models, _ = trained(data, epsilon, epochs=2, pooled_epochs=2)
    assert (models.distances("1") == 0).all()
    assert np.ptp(vectors(models, "0.1")[0], axis=0).min() > 0


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (-1, "`pooled_epochs` must be a whole number of at least 0; got -1"),
        (0.5, "whole number"),
        ({"0": 1}, "`pooled_epochs` must name blocks of the models, 'all'; got '0'"),
    ],
)
def test_bad_input(data, value, message):
    with pytest.raises(ValueError, match=message):
        trained(data, pooled_epochs=value)


@pytest.mark.parametrize("stop", [3, 4, 7])  # of 8 steps, 4 of them pooled
def test_a_run_interrupted_in_either_stage_goes_on_to_the_same_bits(data, tmp_path, stop):
    steps = 0

    def augment(x, generator):  # noqa: ARG001
        nonlocal steps
        steps += 1
        if steps == 3 * stop + 2:
            raise KeyboardInterrupt
        return x

    options = {"pooled_epochs": 2, "checkpoint": tmp_path / "run", "checkpoint_every": 1}
    expected, history = trained(data, pooled_epochs=2, augment=lambda x, _: x)
    with pytest.raises(KeyboardInterrupt):
        trained(data, augment=augment, **options)
    found, again = trained(data, augment=lambda x, _: x, **options)
    assert_equal_states(snapshot(found), snapshot(expected))
    assert again.tasks.equals(history.tasks)


def test_a_checkpoint_of_pooled_epochs_serves_every_radius(data, tmp_path):
    stage = tmp_path / "stage"
    trained(data, epochs=2, pooled_epochs=2, checkpoint=stage)
    for epsilon in (0.0, 0.01, math.inf):
        path = shutil.copy(stage, tmp_path / str(epsilon))
        found, _ = trained(data, epsilon, pooled_epochs=2, checkpoint=path)
        expected, _ = trained(data, epsilon, pooled_epochs=2)
        assert_equal_states(snapshot(found), snapshot(expected))
        with pytest.raises(ValueError, match="pooled steps: all is 4 there and 6 here"):
            trained(data, epsilon, pooled_epochs=3, checkpoint=path)
    with pytest.raises(ValueError, match="pooled steps: all is 4 there and 2 here"):
        trained(data, pooled_epochs=1, checkpoint=stage)


SWEEP = {"epsilons": [0.0, 0.05, math.inf], "batch_size": 4, "seeds": [0, 5], "scheduler": halving}


def test_only_radii_below_infinity_begin_pooled(data):
    options = SWEEP | {"baselines": ["spring", "fine-tuned"], "seeds": 1}
    plain, pooled = (
        sweep(mlp, data, LOSS, sgd, 4, pooled_epochs=k, **options).set_index("method")
        for k in (0, 3)
    )
    for method in ("pooled", "separate", "spring"):
        pd.testing.assert_frame_equal(plain.loc[method], pooled.loc[method])
    for method in ("cross", "fine-tuned"):  # the latter is pooled for 2 of 4 epochs by default
        assert not plain.loc[method].equals(pooled.loc[method])


def test_fine_tuning_is_the_limit_of_large_radii(data):
    options = {"batch_size": 4, "pooled_epochs": 1}
    table = sweep(mlp, data, LOSS, sgd, 3, epsilons=1e6, baselines="fine-tuned", **options)
    large, tuned = (table[table["method"] == name] for name in ("cross", "fine-tuned"))
    np.testing.assert_allclose(tuned["score"], large["score"], rtol=1e-4)


@pytest.mark.parametrize("blocks", [None, {"*": None, "0.1": math.inf}])
def test_pooled_epochs_are_trained_once_for_all_radii_of_a_seed(data, tmp_path, blocks):
    options = SWEEP | {"pooled_epochs": 2, "blocks": blocks, "engine": "loop"}
    expected = sweep(network, data, LOSS, sgd, 3, **options)
    told = []

    def tell(run, record):
        told.append((run["epsilon"], run["seed"], record.epoch))
        if len(told) in (5, 8):  # in the pooled epochs of the second seed, and after them
            raise KeyboardInterrupt

    options |= {"folder": tmp_path, "on_epoch": tell}
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            sweep(network, data, LOSS, sgd, 3, **options)
    found = sweep(network, data, LOSS, sgd, 3, **options)
    pd.testing.assert_frame_equal(found, expected, check_exact=True)
    assert not list(tmp_path.glob("*.safetensors"))
    separate = [(math.inf, seed, epoch) for seed in (0, 5) for epoch in (1, 2, 3)]
    once = [(0.0, 0, 1), (0.0, 0, 2), (0.0, 0, 3), (0.0, 5, 1), (0.0, 5, 2), (0.0, 5, 3)]
    assert list(dict.fromkeys(told)) == [*once, (0.05, 0, 3), (0.05, 5, 3), *separate]


def test_more_pooled_epochs_than_epochs_are_all_of_them(data, tmp_path):
    options = {"epsilons": [0.0, 0.05], "batch_size": 4, "pooled_epochs": 9}
    for folder in (None, tmp_path):
        table = sweep(mlp, data, LOSS, sgd, 2, folder=folder, **options)
        assert table.loc[3:, "score"].tolist() == table.loc[:2, "score"].tolist()


def test_blocks_of_infinite_radius_are_free_from_the_first_step(data):
    blocks = {"*": None, "0.1": math.inf, "1": 0.1}
    seen = {}

    def measure(run, models, history):  # noqa: ARG001
        seen["norm"], seen["head"] = models.distances("0.1"), models.distances("1")
        return [{}] * len(models)

    options = {"blocks": blocks, "batch_size": 4, "pooled_epochs": 2, "measure": measure}
    sweep(network, data, LOSS, sgd, 2, epsilons=0.05, **options)
    assert (seen["norm"] > 0).all()
    assert (seen["head"] == 0).all()


def test_a_radius_is_chosen_with_pooled_epochs(data):
    options = {"epsilons": [0.0, 0.1], "cv": 2, "batch_size": 4, "pooled_epochs": 2}
    found = select_epsilon(mlp, data, LOSS, sgd, 2, **options)
    np.testing.assert_array_equal(*found.scores["score"].to_numpy().reshape(2, 1))
