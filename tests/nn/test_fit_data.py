"""What `fit` trains on, in which order, and that its numbers are repeatable."""

import math
from itertools import chain

import numpy as np
import pytest

from tests.support.fitting import LOSS, SIZES, loaders, net, rows, sgd, trained
from tests.support.networks import TASKS, TaskModels, assert_equal_states, nn, snapshot, torch

from crosslearning.nn import fit  # isort: skip
from crosslearning.nn._data import Feed, as_sources, schedule  # isort: skip


class Items(torch.utils.data.Dataset):
    """A map-style dataset that draws from the global generators of all kinds."""

    def __init__(self, pair):
        self.pair = pair

    def __len__(self):
        return len(self.pair[0])

    def __getitem__(self, index):
        noise = np.random.normal() + torch.randn(())  # noqa: NPY002
        return self.pair[0][index] + 0 * noise, self.pair[1][index]


class Indexed:
    """What the library calls rows: a length and `batch`."""

    def __init__(self, pair):
        self.pair = pair

    def __len__(self):
        return len(self.pair[0])

    def batch(self, indices):
        assert indices.dtype == torch.int64
        return self.pair[0][indices], self.pair[1][indices]


@pytest.mark.parametrize("wrap", [Items, Indexed, lambda pair: [p.numpy() for p in pair]])
def test_kinds_of_data_give_the_same_numbers(wrap):
    expected, _ = trained()
    found, _ = trained(data={task: wrap(pair) for task, pair in rows().items()})
    assert_equal_states(snapshot(expected), snapshot(found))


@pytest.mark.parametrize("sampling", ["cycle", "proportional"])
def test_loaders_keep_their_batches(sampling):
    seen = []

    def note(x, _):
        seen.append(len(x))
        return x

    _, history = trained(data=loaders(shuffle=False), augment=note, epochs=1, sampling=sampling)
    assert history.epochs["step"].tolist() == [4]
    if sampling == "cycle":  # 13, 8 and 5 rows in batches of 4, three tasks in turn
        assert seen[0::3] == [4, 4, 4, 1]
        assert seen[1::3] == [4, 4, 4, 4]
        assert seen[2::3] == [4, 1, 4, 1]
    else:
        assert sum(seen) == 13 + 8 + 5


def test_shuffling_loaders_are_repeatable_and_change_from_pass_to_pass():
    for generators in [None, None], [torch.Generator().manual_seed(k) for k in (1, 2)]:
        states = []
        for generator in generators:
            torch.manual_seed(len(states))
            models, _ = trained(data=loaders(generator=generator))
            states.append(snapshot(models))
        assert_equal_states(*states)
    in_order, _ = trained(data=loaders(shuffle=False))
    assert not torch.equal(in_order["art"][0].weight, models["art"][0].weight)


def taken(sampling, batch_size, steps, sizes=SIZES):
    """Rows that each task takes in each step, by their numbers."""
    data = {task: (torch.arange(size), torch.arange(size)) for task, size in sizes.items()}
    sources = as_sources(data)
    plan = schedule(tuple(sources.values()), batch_size, sampling)
    feed = Feed(sources, plan, 0, None, torch.device("cpu"))
    found = {task: [] for task in sizes}
    for step in range(steps):
        for batch in feed.step(step):
            found[list(sizes)[batch.row]].append(batch.x.tolist())
    return plan, found


def test_cycle_passes_over_the_longest_task_and_starts_short_ones_anew():
    plan, found = taken("cycle", 4, steps=8)
    assert plan.steps == 4
    for task, size in SIZES.items():
        assert [len(batch) for batch in found[task]] == [4] * 8
        sequence = list(chain.from_iterable(found[task]))
        passes = [sequence[start : start + size] for start in range(0, 32 - size + 1, size)]
        assert all(sorted(one) == list(range(size)) for one in passes)
        assert len(passes) < 2 or passes[0] != passes[1]


def test_a_batch_larger_than_a_task_repeats_it():
    _, found = taken("cycle", 12, steps=1)
    assert {len(batch) for (batch,) in found.values()} == {12}
    assert sorted(np.bincount(found["product"][0])) == [2, 2, 2, 3, 3]


def test_proportional_sees_each_row_once_an_epoch():
    plan, found = taken("proportional", 2, steps=10)
    assert plan.steps == math.ceil(26 / (2 * 3))
    for task, size in SIZES.items():
        sequence = list(chain.from_iterable(found[task]))
        assert sorted(sequence[:size]) == sorted(sequence[size:]) == list(range(size))


def test_all_rows_at_once():
    plan, found = taken("cycle", None, steps=2)
    assert plan.steps == 1
    assert [len(batch) for batch in found["art"]] == [13, 13]


def test_tasks_without_a_batch_rest_in_a_step():
    sizes = {"art": 40, "clipart": 1}
    _, history = trained(
        data=rows(sizes), tasks=("art", "clipart"), sampling="proportional", epochs=2
    )
    assert np.isfinite(history.tasks["loss"]).all()
    assert history.epochs["step"].tolist() == [6, 12]


@pytest.mark.parametrize("engine", ["loop", "threads"])
def test_infinite_radius_is_separate_training(engine):
    """With dropout, augmentation and tasks of unequal size: seeds go by label and step."""

    def noisy(x, generator):
        return x + 0.1 * torch.randn(x.shape, generator=generator)

    options = {"engine": engine, "augment": noisy, "module": network_with_dropout}
    models, _ = trained(epsilon=np.inf, **options)
    for task in TASKS:
        steps = 3 * math.ceil(13 / 4)
        epochs = steps // math.ceil(SIZES[task] / 4)
        alone, history = trained(epsilon=np.inf, tasks=(task,), **options, epochs=epochs)
        assert history.epochs["step"].iloc[-1] == steps
        assert_equal_states(models[task].state_dict(), alone[task].state_dict())


def network_with_dropout():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.5), nn.Linear(6, 2))


def test_same_seed_same_numbers_whatever_the_global_state():
    np.random.seed(5)  # noqa: NPY002
    torch.manual_seed(5)
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    models = TaskModels(net(), TASKS, epsilon=0.1)
    torch.set_rng_state(before[0])
    data = {task: Items(pair) for task, pair in rows().items()}
    fit(models, data, LOSS, sgd, 1, engine="loop")
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002
    first, _ = trained()
    torch.manual_seed(99)
    second, _ = trained()
    other, _ = trained(seed=1)
    assert_equal_states(snapshot(first), snapshot(second))
    assert not torch.equal(first["art"][0].weight, other["art"][0].weight)


def test_a_step_takes_32_rows_of_each_task_by_default():
    data = {
        task: (torch.zeros(33 + k, 4), torch.zeros(33 + k).long()) for k, task in enumerate(TASKS)
    }
    history = fit(TaskModels(net(), TASKS, epsilon=0.1), data, LOSS, sgd, 1)
    assert history.records[0].step == 2


X, Y = torch.zeros(3, 4), torch.zeros(3).long()
BAD_DATA = [
    ({"art": (X, Y)}, "'clipart', 'product' is in only one of them"),
    ({**rows(), "photo": (X, Y)}, "'photo' is in only one of them"),
    ({**rows(), "art": (X, Y[:2])}, "task 'art' has 3 and 2 in `data`"),
    ({**rows(), "art": (X[:0], Y[:0])}, "task 'art' has none in `data`"),
    ({**rows(), "art": (X, Y, Y)}, "got tuple for task 'art'"),
    ({**rows(), "art": 3}, "got int for task 'art'"),
    ({**rows(), "art": {1, 2}}, "got set for task 'art'"),
    ({**rows(), "art": loaders()["art"]}, "Either all tasks or none must have a DataLoader"),
]


@pytest.mark.parametrize(("data", "message"), BAD_DATA, ids=[message for _, message in BAD_DATA])
def test_what_data_is_refused(data, message):
    models = TaskModels(net(), TASKS, epsilon=0.1)
    with pytest.raises(ValueError, match=message):
        fit(models, data, LOSS, sgd, 1)


def test_an_error_in_a_task_says_which():
    data = {**rows(), "clipart": (torch.zeros(8, 3), torch.zeros(8).long())}
    with pytest.raises(RuntimeError) as caught:
        trained(data=data)
    assert caught.value.__notes__ == ["This happened to task 'clipart'."]
