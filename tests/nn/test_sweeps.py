import json
import math

import numpy as np
import pandas as pd
import pytest

from tests.support.networks import TaskModels, architectures, nn, torch, vector

from crosslearning.nn import evaluate, fit, select_epsilon, sweep  # isort: skip
from crosslearning.nn import _sweep_runs as single  # isort: skip

LOSS = nn.CrossEntropyLoss()


def network():
    return architectures.mlp(5, 3, hidden=(8,))


def with_dropout():
    return architectures.mlp(5, 3, hidden=(8,), dropout=0.5)


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def adam(parameters):
    return torch.optim.Adam(parameters, lr=0.01)


@pytest.fixture
def data():
    generator = torch.Generator().manual_seed(0)
    sizes = {"a": 30, "b": 20, "c": 13}
    return {
        task: (
            torch.randn(size, 5, generator=generator),
            torch.randint(0, 3, (size,), generator=generator),
        )
        for task, size in sizes.items()
    }


def test_a_run_is_what_fit_gives(data):
    table = sweep(
        network, data, LOSS, sgd, 2, epsilons=[0.05], seeds=[3], batch_size=4, metric="accuracy"
    )
    torch.manual_seed(3)
    models = TaskModels(network(), data, epsilon=0.05)
    history = fit(models, data, LOSS, sgd, 2, batch_size=4, seed=3)
    np.testing.assert_allclose(table["loss"], history.records[-1].losses, rtol=1e-5)
    np.testing.assert_allclose(table["distance"], models.distances(), rtol=1e-4)
    np.testing.assert_array_equal(table["score"], evaluate(models, data))


def test_baselines_are_named_and_ordered(data):
    table = sweep(
        network, data, LOSS, sgd, 1, epsilons=[0.1], batch_size=8, stiffness=[1.0, 2.0],
        baselines=["fine-tuned", "spring", "separate", "pooled"],
    )  # fmt: skip
    runs = table.drop_duplicates(["method", "epsilon", "stiffness"])
    assert runs["method"].tolist() == [
        "pooled", "cross", "separate", "spring", "spring", "fine-tuned",
    ]  # fmt: skip
    pooled = table[table["method"] == "pooled"]
    assert (pooled["distance"] == 0).all()
    assert table.loc[table["method"] == "fine-tuned", "distance"].min() > 0


def test_one_of_each_needs_no_list_and_a_number_of_seeds_is_a_number(data):
    table = sweep(network, data, LOSS, sgd, 1, epsilons=0.1, seeds=2, baselines="pooled")
    runs = table.groupby(["method", "seed"]).size().to_dict()
    assert runs == {(method, seed): 3 for method in ("cross", "pooled") for seed in (0, 1)}
    with pytest.raises(ValueError, match=r"`seeds` must be a whole number of at least 1; got 0"):
        sweep(network, data, LOSS, sgd, 1, epsilons=0.1, seeds=0)


def test_fine_tuning_starts_from_the_pooled_model(data):
    table = sweep(network, data, LOSS, sgd, 4, baselines=["pooled", "fine-tuned"], batch_size=8)
    scores = table.groupby("method")["score"].mean()
    assert scores["fine-tuned"] < scores["pooled"]


def test_no_finished_run_is_trained_twice(data, tmp_path, monkeypatch):
    first = sweep(with_dropout, data, LOSS, sgd, 2, epsilons=[0.1], batch_size=8, folder=tmp_path)
    trained = []
    original = single.fit
    monkeypatch.setattr(single, "fit", lambda *a, **k: trained.append(1) or original(*a, **k))
    both = sweep(
        with_dropout, data, LOSS, sgd, 2, epsilons=[0.1, 1.0], batch_size=8, folder=tmp_path
    )
    assert len(trained) == 1
    pd.testing.assert_frame_equal(both[both["epsilon"] == 0.1], first)
    assert not list(tmp_path.glob("*.safetensors"))


def test_an_interrupted_run_goes_on(data, tmp_path):
    arguments = with_dropout, data, LOSS, adam, 4
    epochs = []

    def watch(_, record):
        epochs.append(record.epoch)
        if epochs == [1, 2, 3]:
            raise KeyboardInterrupt

    options = {"epsilons": [0.1], "batch_size": 8}
    whole = sweep(*arguments, **options)
    options["on_epoch"] = watch
    with pytest.raises(KeyboardInterrupt):
        sweep(*arguments, **options, folder=tmp_path)
    resumed = sweep(*arguments, **options, folder=tmp_path)
    assert epochs == [1, 2, 3, 3, 4]
    pd.testing.assert_frame_equal(resumed, whole, check_exact=True)


def test_a_folder_of_another_sweep_is_refused(data, tmp_path):
    sweep(network, data, LOSS, sgd, 1, epsilons=[0.1], batch_size=8, folder=tmp_path)
    with pytest.raises(ValueError, match="differs in epochs, optimizer"):
        sweep(network, data, LOSS, adam, 2, epsilons=[0.1], batch_size=8, folder=tmp_path)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"metric": "accuracy"}, "metric"),
        ({"loss": nn.MultiMarginLoss()}, "loss"),
        ({"data": None}, "data"),
    ],
)
def test_a_folder_knows_what_its_scores_are_of(data, tmp_path, change, named):
    arguments = {"data": data, "loss": LOSS, "epsilons": [0.1], "batch_size": 8}
    sweep(network, optimizer=sgd, epochs=1, folder=tmp_path, **arguments)
    if "data" in change:
        x, y = data["a"]
        change = {"data": data | {"a": (x, (y + 1) % 3)}}
    with pytest.raises(ValueError, match=f"differs in {named}"):
        sweep(network, optimizer=sgd, epochs=1, folder=tmp_path, **(arguments | change))


def test_other_folds_are_not_taken_for_these(related, tmp_path):
    arguments = lambda: nn.Linear(10, 1), related, nn.MSELoss(), sgd, 1
    options = {"epsilons": [1.0], "cv": 3, "folder": tmp_path}
    select_epsilon(*arguments, **options)
    with pytest.raises(ValueError, match="differs in data"):
        select_epsilon(*arguments, **options, random_state=1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"module": network()}, "`module` must be a function"),
        ({"optimizer": sgd(network().parameters())}, "`optimizer` must be a function"),
        ({"epsilons": []}, "nothing to compare"),
        ({"epsilons": [-1.0]}, "at least 0"),
        ({"baselines": ["federated"]}, "`baselines` may be"),
        ({"test": {}}, "none of 'a'"),
    ],
)
def test_bad_input(data, change, message):
    arguments = {
        "module": network, "data": data, "loss": LOSS, "optimizer": sgd, "epochs": 1,
        "epsilons": [0.1], "batch_size": 8,
    }  # fmt: skip
    with pytest.raises(ValueError, match=message):
        sweep(**(arguments | change))


def test_runs_that_diverge_are_noticed(data):
    with pytest.raises(ValueError, match=r"task 'a'.* Nothing was moved") as caught:
        sweep(
            network, data, LOSS, lambda p: torch.optim.SGD(p, lr=1e30), 3, epsilons=[1e30],
            seeds=[0, 4], batch_size=8,
        )  # fmt: skip
    assert caught.value.__notes__ == ["This was run cross-1e+30 with seed 0."]


@pytest.fixture
def related():
    """Linear tasks a distance of about 1 apart, with noise."""
    generator = torch.Generator().manual_seed(1)
    center = torch.randn(10, 1, generator=generator)
    tasks = {}
    for task in "abcdef":
        x = torch.randn(12, 10, generator=generator)
        own = center + 0.3 * torch.randn(10, 1, generator=generator)
        tasks[task] = x, x @ own + 0.5 * torch.randn(12, 1, generator=generator)
    return tasks


@pytest.mark.parametrize("cv", [3, 0.3])
def test_held_out_rows_choose_a_radius_in_between(related, cv):
    selection = select_epsilon(
        lambda: nn.Linear(10, 1), related, nn.MSELoss(), lambda p: torch.optim.SGD(p, lr=0.1), 30,
        epsilons=[0.0, 0.5, math.inf], cv=cv, batch_size=None,
    )  # fmt: skip
    assert selection.epsilon == 0.5
    assert selection.scores.loc[0.5, "score"] == selection.scores["score"].min()
    assert set(selection.table["fold"]) == set(range(3 if cv == 3 else 1))


def test_folds_hold_out_every_row_once(related):
    seen = []

    def remember(_, target):
        seen.append(len(target))
        return 0.0

    select_epsilon(
        lambda: nn.Linear(10, 1), related, nn.MSELoss(), lambda p: torch.optim.SGD(p, lr=0.05), 1,
        epsilons=[1.0], cv=4, metric=remember, batch_size=None,
    )  # fmt: skip
    assert seen == [3] * 6 * 4


@pytest.mark.parametrize(
    ("cv", "message"),
    [(1, "`cv` must be"), (13, "from 2 to 12"), (2.5, "`cv` must be"), (0.0, "`cv` must be")],
)
def test_a_bad_number_of_folds(related, cv, message):
    with pytest.raises(ValueError, match=message):
        select_epsilon(
            lambda: nn.Linear(10, 1), related, nn.MSELoss(), sgd, 1, epsilons=[1.0], cv=cv
        )


def test_loaders_cannot_be_divided(related):
    loaders = {
        task: torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*pair))
        for task, pair in related.items()
    }
    with pytest.raises(ValueError, match="a DataLoader"):
        select_epsilon(lambda: nn.Linear(10, 1), loaders, nn.MSELoss(), sgd, 1, epsilons=[1.0])


def test_the_files_of_a_sweep_are_readable(data, tmp_path):
    sweep(network, data, LOSS, sgd, 1, epsilons=[0.1], batch_size=8, folder=tmp_path)
    rows = json.loads((tmp_path / "cross-0.1-seed-0.json").read_text())
    assert set(rows[0]) == {"loss", "score", "distance", "pull"}


def test_runs_are_told_measured_and_kept(data, tmp_path):
    told, measured = [], []
    arguments = network, data, LOSS, sgd, 2
    options = {"epsilons": [0.0, 0.1], "seeds": [3], "batch_size": 8, "folder": tmp_path}

    def measure(run, models, history):
        measured.append(run)
        epochs = [record.epoch for record in history.records]
        return [{"norm": float(vector(models[t]).sum()), "epochs": epochs} for t in models.tasks]

    def tell(run, record):
        told.append((run, record.epoch))

    first = sweep(*arguments, **options, measure=measure, on_epoch=tell)
    runs = [
        {"method": method, "epsilon": epsilon, "stiffness": 0.0, "seed": 3}
        for method, epsilon in (("pooled", 0.0), ("cross", 0.1))
    ]
    assert measured == runs
    assert told == [(run, epoch) for run in runs for epoch in (1, 2)]
    assert first["epochs"].tolist() == [[1, 2]] * 6
    assert first.groupby("epsilon")["norm"].nunique().tolist() == [1, 3]
    pd.testing.assert_frame_equal(sweep(*arguments, **options), first)
    assert len(measured) == 2
