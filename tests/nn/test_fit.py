"""`fit`: when it stops, what it records, what it refuses; `evaluate`."""

import numpy as np
import pandas as pd
import pytest

from crosslearning import Tether
from crosslearning.exceptions import ResolutionWarning
from tests.support.fitting import LOSS, loaders, net, rows, sgd, trained
from tests.support.networks import TASKS, TaskModels, assert_equal_states, nn, snapshot, torch

from crosslearning.nn import evaluate, fit  # isort: skip
from crosslearning.nn._data import Feed, as_sources, schedule  # isort: skip


def test_history_tells_what_happened():
    models, history = trained(epochs=4, validation=rows(seed=1), metric="accuracy")
    epochs, tasks = history.epochs, history.tasks
    assert epochs.index.tolist() == [1, 2, 3, 4]
    assert tasks.columns.tolist() == ["epoch", "task", "loss", "score", "distance", "pull"]
    assert tasks["task"].tolist() == list(TASKS) * 4
    np.testing.assert_allclose(tasks.groupby("epoch")["loss"].mean(), epochs["loss"])
    np.testing.assert_allclose(tasks.groupby("epoch")["score"].mean(), epochs["score"])
    last = tasks[tasks["epoch"] == 4]
    np.testing.assert_array_equal(last["distance"], models.distances())
    expected = evaluate(models, rows(seed=1))
    np.testing.assert_array_equal(last["score"], expected)
    assert epochs["loss"].iloc[-1] < epochs["loss"].iloc[0]
    assert history.best_epoch == int(epochs["score"].idxmax())
    assert "4 epochs" in repr(history)


def test_springs_take_the_learning_rate_for_the_step():
    """Every second projection with twice the step, and the learning rate of the scheduler."""
    data = {task: (x, y.float()[:, None]) for task, (x, y) in rows().items()}
    models = [TaskModels(nn.Linear(4, 1), TASKS, tether=Tether(stiffness=2)) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    plain = {"batch_size": 5, "epochs": 2, "engine": "loop", "project_every": 2}
    halves = lambda o: torch.optim.lr_scheduler.StepLR(o, 1, 0.5)  # noqa: E731
    fit(models[0], data, nn.MSELoss(), torch.optim.SGD(models[0].parameters(), 0.1),
        scheduler=halves, **plain)  # fmt: skip
    sources = as_sources(data)
    feed = Feed(sources, schedule(tuple(sources.values()), 5, "cycle"), 0, None, "cpu")
    for step, size in enumerate([None, 0.2, 0.1, None, 0.1, 0.05]):
        models[1].zero_grad()
        for batch in feed.step(step):
            nn.MSELoss()(models[1].per_task[batch.row](batch.x), batch.y).backward()
        with torch.no_grad():
            for parameter in models[1].parameters():
                parameter -= (0.1 if step < 3 else 0.05) * parameter.grad
        if size:
            models[1].project(step_size=size)
    for task in TASKS:
        torch.testing.assert_close(models[0][task].weight, models[1][task].weight)


def test_springs_need_one_learning_rate():
    models = TaskModels(nn.Linear(4, 2), TASKS, tether=Tether(stiffness=2))
    groups = [{"params": [p], "lr": 0.1 * k} for k, p in enumerate(models.parameters(), 1)]
    with pytest.raises(ValueError, match="one learning rate"):
        fit(models, rows(), LOSS, torch.optim.SGD(groups), 1)


def test_a_learning_rate_of_zero_moves_nothing():
    models = TaskModels(nn.Linear(4, 2), TASKS, tether=Tether(stiffness=2))
    before = snapshot(models)
    fit(models, rows(), LOSS, lambda p: torch.optim.SGD(p, lr=0.0), 1)
    assert_equal_states(before, snapshot(models))


@pytest.mark.parametrize("patience", [None, 2])
def test_patience_stops_and_restores_the_best(patience):
    states, scores = {}, iter([0.5, 0.6, 0.7, 0.4, 0.7, 0.9])
    models = TaskModels(net(), TASKS, epsilon=0.3)

    def score(_output, _target):
        return score.now

    def remember(record):
        states[record.epoch] = snapshot(models)
        score.now = next(scores, 0.0)

    score.now = next(scores)
    history = fit(
        models, rows(), LOSS, sgd, 6, batch_size=4, engine="loop", callbacks=[remember],
        validation=rows(seed=1), metric=score, patience=patience,
    )  # fmt: skip
    assert len(history) == (6 if patience is None else 5)
    assert history.best_epoch == (6 if patience is None else 3)
    assert_equal_states(snapshot(models), states[6 if patience is None else 3])


def test_without_a_metric_the_loss_is_minimised():
    _, history = trained(validation=rows(seed=1), patience=50, epochs=5)
    assert history.best_epoch == int(history.epochs["score"].idxmin())


def test_callbacks_stop():
    seen = []
    _, history = trained(epochs=9, callbacks=[seen.append, lambda record: record.epoch == 2])
    assert len(history) == len(seen) == 2
    assert seen[0].loss == history.epochs["loss"].iloc[0]


@pytest.mark.parametrize("validated", [True, False])
def test_schedulers(validated):
    options = {"validation": rows(seed=1)} if validated else {}
    plateau = lambda o: torch.optim.lr_scheduler.ReduceLROnPlateau(  # noqa: E731
        o, "max", patience=0, threshold=1e9, factor=0.5
    )
    _, history = trained(scheduler=plateau, **options)
    assert history.epochs["learning_rate"].tolist() == [0.1, 0.1, 0.05]
    _, history = trained(scheduler=lambda o: torch.optim.lr_scheduler.ExponentialLR(o, 0.1))
    np.testing.assert_allclose(history.epochs["learning_rate"], [0.1, 0.01, 0.001])


def test_modes_are_given_back():
    models = TaskModels(net(), TASKS, epsilon=0.1)
    models["art"].eval()
    fit(models, rows(), LOSS, sgd, 1, callbacks=[lambda _: not models["art"].training])
    assert not models["art"].training
    assert models["clipart"].training
    evaluate(models, rows())
    assert models["clipart"].training


def test_evaluate_serves_new_tasks_by_the_centre():
    models, _ = trained()
    data = {**rows(), "new": rows()["art"]}
    with torch.no_grad():
        for parameter in models.center.parameters():
            parameter.zero_()
        models.center[-1].bias[1] = 1.0
    found = evaluate(models, data, batch_size=3)
    assert isinstance(found, pd.Series)
    assert found["new"] == pytest.approx(float(data["new"][1].double().mean()))
    everything = evaluate(models, data)
    pd.testing.assert_series_equal(found, everything)
    by_loader = evaluate(models, {task: loaders()[task] for task in TASKS})
    np.testing.assert_allclose(by_loader, found[list(TASKS)])


def test_nan_in_a_loss_names_the_task_and_changes_nothing():
    data = rows()
    data["clipart"][0][3, 0] = torch.nan
    models = TaskModels(net(), TASKS, epsilon=0.1)
    kept = {}

    def loss(output, target):
        if not kept:
            kept.update(snapshot(models))
        return LOSS(output, target)

    with pytest.raises(ValueError, match="that of task 'clipart' is nan in step 1"):
        fit(models, data, loss, sgd, 1, batch_size=None, engine="loop")
    assert_equal_states(snapshot(models), kept)


def test_nan_in_a_gradient_names_the_task():
    data = {task: (x, torch.full((len(x), 1), float(k))) for k, (task, (x, _)) in
            enumerate(rows().items())}  # fmt: skip

    def loss(output, target):  # finite, with a gradient that is not
        return (output * 0).sum().abs().sqrt() if target[0] == 1 else output.square().mean()

    models = TaskModels(nn.Linear(4, 1), TASKS, epsilon=0.1)
    with pytest.raises(ValueError, match=r"task 'clipart' are NaN or infinite"):
        fit(models, data, loss, sgd, 1, engine="loop")
    assert torch.isfinite(models["art"].weight).all()


def test_a_radius_that_is_not_resolved_is_told_to_the_caller():
    models = TaskModels(net(), TASKS, epsilon=1e-9)
    with pytest.warns(ResolutionWarning, match="below what float32 resolves") as caught:
        fit(models, rows(), LOSS, sgd, 3, batch_size=4, engine="loop")
    assert [warning.filename for warning in caught] == [__file__]


def test_the_accuracy_of_one_output_is_that_of_its_sign():
    models = TaskModels(nn.Linear(1, 1), ["art"], epsilon=0.1)
    with torch.no_grad():
        models["art"].weight.fill_(1.0), models["art"].bias.zero_()
    x, y = torch.tensor([[-1.0], [2.0], [3.0], [-2.0]]), torch.tensor([0, 1, 0, 0])
    assert evaluate(models, {"art": (x, y)})["art"] == 0.75


BAD = [
    ({"epochs": 0}, "`epochs` must be a whole number of at least 1; got 0"),
    ({"project_every": 0}, "`project_every`"),
    ({"batch_size": 0}, "`batch_size`"),
    ({"sampling": "all"}, "'cycle' or 'proportional'; got 'all'"),
    ({"engine": "gpu"}, "`engine` must be one of 'auto', 'loop'"),
    ({"optimizer": "sgd"}, "`optimizer` must be a torch optimizer"),
    ({"optimizer": sgd([nn.Parameter(torch.ones(1))])}, "1 of its 1 are not"),
    ({"scheduler": 3}, "`scheduler` must be a scheduler of the given optimizer"),
    ({"scheduler": torch.optim.lr_scheduler.ExponentialLR(sgd([nn.Parameter(torch.ones(1))]), 1)},
     "must be a scheduler of the given optimizer, or"),
    ({"patience": 3}, "`patience` needs `validation`"),
    ({"metric": "accuracy"}, "`metric` needs `validation`"),
    ({"validation": rows(), "patience": 0}, "`patience` must be"),
    ({"validation": rows(), "metric": "f1"}, "`metric` must be 'accuracy' or a function"),
    ({"validation": [1]}, "`validation` must be a mapping from task to data; got list"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "message"), BAD, ids=[message for _, message in BAD])
def test_what_fit_refuses(options, message):
    with pytest.raises(ValueError, match=message):
        trained(**options)
