"""Flower: clients around a server train what one process trains."""

from __future__ import annotations

import math
import sys
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("flwr", reason="the extra `flower` is not installed")
torch = pytest.importorskip("torch")

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.server.superlink.fleet.vce.backend import Backend
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from torch import nn

from crosslearning import Tether, project
from crosslearning.federated import CrossLearning, client_app, parameters_of
from crosslearning.nn import TaskModels
from tests.support.flower_grid import LocalGrid, Node

TASKS = ("east", "north", "west")
STEPS, ROUNDS, LR = 3, 4, 0.1


def make_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 1))


def loader(task):
    generator = torch.Generator().manual_seed(TASKS.index(task))
    x = torch.randn(8 * STEPS, 3, generator=generator)
    y = x.sum(dim=1, keepdim=True) * (1 + TASKS.index(task))
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=8)


def train(model, settings):
    optimizer = torch.optim.SGD(model.parameters(), lr=settings["lr"])
    model.train()
    for x, y in loader(settings["task"]):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    return {"loss": loss.item(), "num-examples": 8 * STEPS}


def evaluate(model, _):
    model.eval()
    return {"norm": float(sum(p.norm() for p in model.parameters())), "num-examples": 1}


def nodes(tasks=TASKS, **faults):
    app = client_app(make_model, train, evaluate)
    return [Node(app, {"task": task}, faults=faults.get(task)) for task in tasks]


def run(members, rounds=ROUNDS, grid=None, **options):
    least = dict.fromkeys(["min_available_nodes", "min_train_nodes", "min_evaluate_nodes"], 1)
    strategy = CrossLearning(**least | options)
    grid = grid or LocalGrid(members)
    result = strategy.start(grid, parameters_of(make_model()), num_rounds=rounds)
    return strategy, result, grid


def fitted(rounds=ROUNDS, **tethers):
    models = TaskModels(make_model(), TASKS, **tethers)
    optimizer = torch.optim.SGD(models.parameters(), lr=LR)
    for _ in range(rounds):
        for batches in zip(*map(loader, TASKS), strict=True):
            optimizer.zero_grad()
            for task, (x, y) in zip(TASKS, batches, strict=True):
                nn.functional.mse_loss(models[task](x), y).backward()
            optimizer.step()
        models.project(step_size=LR * STEPS)
    return models


def model_of(node, strategy):
    """The model with which the client would predict: rebuilt from what it holds."""
    seen = {}
    node.app = client_app(make_model, train, lambda model, _: seen.update(model=model))
    grid = LocalGrid([node])
    strategy.configure_evaluate(0, strategy.arrays(), ConfigRecord(), grid)
    grid.send_and_receive(strategy.configure_evaluate(0, strategy.arrays(), ConfigRecord(), grid))
    return seen["model"].state_dict()


@pytest.mark.parametrize(
    ("tethers", "options"),
    [
        ({"epsilon": 0.1}, {}),
        ({"epsilon": 0.0, "center_weight": 0.0}, {}),
        ({"epsilon": math.inf}, {}),
        ({"tether": Tether(stiffness=0.5), "center_weight": 0.0}, {"step_size": LR * STEPS}),
        ({"tether": Tether(epsilon=0.2, tension=0.1)}, {"step_size": LR * STEPS}),
        ({"epsilon": {"0": 0.1, "1": math.inf}}, {}),
    ],
)
def test_a_server_and_its_clients_train_what_one_process_trains(tethers, options):
    members = nodes()
    strategy, result, _ = run(members, **tethers, **options)
    models = fitted(**tethers)
    center = models.export()
    for name, value in result.arrays.to_torch_state_dict().items():
        torch.testing.assert_close(value, center[name], rtol=0, atol=1e-5)
    for node, (row, task) in zip(members, enumerate(TASKS), strict=True):
        for name, value in model_of(node, strategy).items():
            torch.testing.assert_close(value, models.export(task)[name], rtol=0, atol=1e-5)
        assert strategy.distances[task] == pytest.approx(models.distances()[row], abs=1e-5)


def test_a_radius_of_0_and_a_free_centre_are_fedavg():
    plain = ClientApp()

    @plain.train()
    def _(message, context):
        model = make_model()
        model.load_state_dict(message.content["arrays"].to_torch_state_dict(), strict=False)
        train(model, {"task": context.node_config["task"], "lr": LR})
        sent = {"arrays": parameters_of(model), "metrics": MetricRecord({"num-examples": 1})}
        return Message(RecordDict(sent), reply_to=message)

    members = [Node(plain, {"task": task}) for task in TASKS]
    start = parameters_of(make_model())
    theirs = FedAvg(fraction_evaluate=0.0).start(LocalGrid(members), start, num_rounds=ROUNDS)
    strategy, ours, _ = run(nodes(), epsilon=0.0, center_weight=0.0)
    np.testing.assert_allclose(flat(ours.arrays), flat(theirs.arrays), rtol=0, atol=1e-6)
    assert set(strategy.distances.values()) == {0.0}


def flat(record):
    return np.concatenate([array.numpy().ravel() for array in record.values()])


def trained(task, theta):
    """One round of a client, without Flower."""
    model = make_model()
    nn.utils.vector_to_parameters(torch.from_numpy(theta.copy()), model.parameters())
    train(model, {"task": task, "lr": LR})
    return nn.utils.parameters_to_vector(model.parameters()).detach().numpy()


def reference(participants, epsilon=0.1):
    """Centre and tasks if these take part in the rounds, and others keep what they sent."""
    center, sent, thetas = flat(parameters_of(make_model())), {}, {}
    for tasks in participants:
        sent |= {task: trained(task, thetas.get(task, center)) for task in tasks}
        step = project(np.stack(list(sent.values())), epsilon, center=center)
        center, thetas = step.center, dict(zip(sent, step.thetas, strict=True))
    return center, thetas


def assert_as(strategy, center, thetas):
    np.testing.assert_allclose(flat(strategy.arrays()), center, rtol=0, atol=1e-6)
    for task, theta in thetas.items():
        np.testing.assert_allclose(flat(strategy.arrays(task)), theta, rtol=0, atol=1e-6)


def other_shape(content):
    arrays = content["arrays"]
    return RecordDict({**content, "arrays": ArrayRecord({**arrays, "0.bias": Array(np.ones(2))})})


def with_nan(content):
    arrays = content["arrays"]
    spoilt = Array(np.full(4, np.nan, dtype=np.float32))
    return RecordDict({**content, "arrays": ArrayRecord({**arrays, "0.bias": spoilt})})


def without_metrics(content):
    return RecordDict({"arrays": content["arrays"]})


def without_count(content):
    del content["metrics"]["num-examples"]
    return content


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("silent", "no answer in time"),
        ("lost", "no answer in time"),
        ("gone", "no answer in time"),
        (with_nan, "'0.bias' is NaN, infinite or beyond 1e+100"),
        (other_shape, r"'0.bias' must be float32 (4,); it is float64 (2,)"),
        (without_metrics, "one MetricRecord with 'num-examples'"),
        (without_count, "'num-examples'"),
    ],
)
def test_a_client_that_misses_a_round_or_sends_rubbish_is_named_and_keeps_its_place(
    fault, words, caplog
):
    others = ("east", "west")
    strategy, _, _ = run(nodes(north={("train", 1): fault}), epsilon=0.1)
    assert_as(strategy, *reference([TASKS, others, TASKS, TASKS]))
    (said,) = [one.getMessage() for one in caplog.records if one.name == "flwr.crosslearning"]
    assert said.startswith("Task 'north' is missing from round 2")
    assert words in said


def test_a_client_that_diverges_is_named_and_starts_again_from_its_place(caplog):
    members = nodes()
    once = iter([LR, 1e30, LR, LR])

    def hasty(model, settings):
        return train(model, {**settings, "lr": next(once)})

    members[1].app = client_app(make_model, hasty)
    strategy, _, _ = run(members, epsilon=0.1, fraction_evaluate=0.0)
    assert_as(strategy, *reference([TASKS, ("east", "west"), TASKS, TASKS]))
    assert "Task 'north' is missing from round 2" in caplog.text


def test_a_node_that_lost_its_memory_is_sent_where_it_stands(caplog):
    members = nodes()
    forgetful = members[1].answer
    members[1].answer = lambda message: (
        members[1].restart() if len(members[1].seen) == 3 else None,
        forgetful(message),
    )[1]
    strategy, _, _ = run(members, epsilon=0.1)
    assert_as(strategy, *reference([TASKS] * ROUNDS))
    assert "missing" not in caplog.text


def test_no_more_travels_than_with_fedavg():
    members = nodes()
    _, _, grid = run(members, rounds=5, epsilon=0.1, fraction_evaluate=0.0)
    one = parameters_of(make_model()).count_bytes()
    messages = 5 * len(members)
    assert messages * one < grid.bytes["down"] < messages * (one + 512)
    assert messages * one <= grid.bytes["up"] < messages * one + len(members) * 512


def test_what_is_not_tethered_stays_with_the_client():
    members = nodes()
    strategy, result, _ = run(members, epsilon={"0": 0.0})
    assert list(result.arrays) == ["0.weight", "0.bias"]
    for node in members:
        for _, content in node.seen:
            assert all(set(one) <= {"0.weight", "0.bias"} for one in content.array_records.values())
    heads = [model_of(node, strategy)["3.weight"] for node in members]
    assert not torch.equal(heads[0], heads[1])


def test_a_restarted_server_goes_on_to_the_same_models_and_new_clients_start_at_the_centre(
    tmp_path,
):
    path = tmp_path / "server.safetensors"
    run(nodes(), rounds=2, epsilon=0.1, checkpoint=path)
    strategy, result, _ = run(nodes(), epsilon=0.1, checkpoint=path)  # nodes that know nothing
    assert_as(strategy, *reference([TASKS] * ROUNDS))
    assert list(result.train_metrics_clientapp) == [1, 2]
    again, result, grid = run(nodes(), epsilon=0.1, checkpoint=path)
    assert grid.bytes == {"down": 0, "up": 0}
    np.testing.assert_array_equal(flat(result.arrays), flat(strategy.arrays()))
    assert again.distances == strategy.distances

    path.unlink()
    few, _, _ = run(nodes(TASKS[:2]), rounds=2, epsilon=0.1, checkpoint=path)
    members = nodes()
    strategy, _, _ = run(members, rounds=3, epsilon=0.1, checkpoint=path)
    assert_as(strategy, *reference([TASKS[:2], TASKS[:2], TASKS]))
    first = next(content for kind, content in members[2].seen if kind == "train")
    np.testing.assert_array_equal(flat(first["arrays"]), flat(few.arrays()))


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    path = tmp_path / "server"
    run(nodes(), rounds=1, epsilon=0.1, checkpoint=path)
    with pytest.raises(ValueError, match=r"another run: tethers: all: epsilon is 0.1 there"):
        run(nodes(), epsilon=0.2, checkpoint=path)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ValueError, match="Use another `checkpoint`"):
        run(nodes(), epsilon=0.1, checkpoint=path)


def test_a_sample_of_the_clients_takes_part():
    members = nodes()
    run(members, rounds=6, epsilon=0.1, fraction_train=0.34, fraction_evaluate=0.0)
    turns = [sum(kind == "train" for kind, _ in node.seen) for node in members]
    assert sum(turns) == 6
    assert max(turns) < 6


def test_two_clients_of_one_name_are_told_apart(caplog):
    members = nodes(("east", "east", "west"))
    strategy, _, _ = run(members, rounds=1, epsilon=0.1)
    assert list(strategy.distances) == ["east", "west"]
    assert "two clients have this name" in caplog.text


def test_nodes_that_do_not_tell_their_task_are_named(caplog):
    nameless = Node(client_app(make_model, train, evaluate))
    strategy, _, _ = run([nameless, *nodes(("east",))], rounds=1, epsilon=0.1)
    assert list(strategy.distances) == ["east"]
    assert f"Node {nameless.id} is left out: it did not report its task" in caplog.text
    assert "neither `task` nor `partition-id`" in caplog.text
    strategy, result, _ = run([nameless], rounds=1, epsilon=0.1)
    assert strategy.distances == {}
    np.testing.assert_array_equal(flat(result.arrays), flat(parameters_of(make_model())))


def test_a_client_of_another_architecture_is_named(caplog):
    members = nodes()
    members[0].app = client_app(lambda: nn.Linear(3, 1), train)
    run(members, rounds=1, epsilon=0.1)
    assert "The server tethers '0.bias', which this model does not have" in caplog.text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "either `epsilon` or `tether`"),
        ({"epsilon": [0.1, 0.2]}, "Use a single number"),
        ({"epsilon": 0.1, "center_weight": -1.0}, "`center_weight`"),
        ({"epsilon": 0.1, "step_size": 0.0}, "`step_size` must be a positive"),
        ({"tether": Tether(stiffness=1.0)}, "Pass `step_size`"),
    ],
)
def test_bad_arguments_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        run(nodes(), **options)


def test_buffers_are_not_tethered():
    strategy = CrossLearning(epsilon=0.1)
    whole = ArrayRecord(make_model().state_dict())
    with pytest.raises(ValueError, match="`parameters_of"):
        strategy.start(LocalGrid(nodes()), whole)


class Here(Backend):
    """Clients of a simulation in threads of this process, in place of Ray's processes."""

    num_workers = 2

    def build(self, app_fn):
        self.app = app_fn()

    def is_worker_idle(self):
        return True

    def terminate(self):
        pass

    def process_message(self, message, context):
        return self.app(message, context), context


def test_the_simulation_of_flower_trains_what_one_process_trains(monkeypatch):
    ray = "flwr.server.superlink.fleet.vce.backend.raybackend"
    monkeypatch.setitem(sys.modules, ray, SimpleNamespace(RayBackend=Here))
    server, done = ServerApp(), []

    @server.main()
    def main(grid, _):
        done.append(run([], grid=grid, epsilon=0.1, min_available_nodes=len(TASKS))[0])

    def named(model, settings):
        assert settings["num-partitions"] == len(TASKS)
        return train(model, {"lr": LR, "task": TASKS[settings["partition-id"]]})

    run_simulation(server, client_app(make_model, named, evaluate), len(TASKS), "here")
    center, thetas = reference([TASKS] * ROUNDS)
    assert_as(done[0], center, {str(TASKS.index(task)): thetas[task] for task in TASKS})
