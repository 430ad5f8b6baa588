"""A real SuperLink with two SuperNodes on loopback."""

from __future__ import annotations

import importlib
import shutil
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr", reason="the extra `flower` is not installed")
torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")

from safetensors import safe_open

from crosslearning import project
from crosslearning.nn import TaskModels, fit
from tests.support.flower_processes import Federation

EXAMPLE = Path(__file__).parents[2] / "examples" / "federated"
sys.path.insert(0, str(EXAMPLE))
client = importlib.import_module("schools.client")
EPSILON = 0.02  # both schools want to go farther

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not Path("/proc/self/environ").exists(), reason="processes are found by /proc"
    ),
]


@pytest.fixture
def federation(tmp_path):
    processes = Federation(tmp_path)
    yield processes
    processes.end()


def trained_here(rounds):
    """The same in one process, by the example's own functions."""
    models = TaskModels(client.make_model(), ["0", "1"], epsilon=EPSILON)
    data = {task: client.pupils({"partition-id": task}) for task in models}
    sgd = partial(torch.optim.SGD, lr=0.1)
    fit(models, data, torch.nn.MSELoss(), sgd, rounds, batch_size=None, engine="loop")
    return models


def stepped(task, state):
    """Parameters of a client after the one step of its round."""
    model = client.make_model()
    model.load_state_dict(state)
    client.train(model, {"partition-id": task, "lr": 0.1, "steps": 1})
    return torch.nn.utils.parameters_to_vector(model.parameters()).detach().numpy()


def flat(state):
    return np.concatenate([np.ravel(value) for value in state.values()])


def test_two_supernodes_train_what_one_process_trains_and_one_is_killed(federation, tmp_path):
    app, hanging = shutil.copytree(EXAMPLE, tmp_path / "app"), tmp_path / "hanging"
    source = app / "schools" / "client.py"
    hang = f"""    import pathlib, time
    if settings["partition-id"] == 1 and settings["server-round"] == 2:
        pathlib.Path({str(hanging)!r}).touch()
        time.sleep(600)
    optimizer ="""
    source.write_text(source.read_text().replace("    optimizer =", hang))
    began = time.monotonic()
    federation.link()
    # Long enough for a client's process to start, on a machine that is as busy as this one.
    timeout = max(30.0, 15.0 * (time.monotonic() - began))
    federation.nodes(2)
    checkpoint = tmp_path / "server"
    settings = {"epsilon": EPSILON, "rounds": 2, "steps": 1, "checkpoint": str(checkpoint)}
    path = federation.run(app, timeout=timeout, **settings)
    federation.wait(hanging.exists, "the end of the first round")
    with safe_open(checkpoint, framework="numpy") as file:
        first = file.get_tensor("center/0")
    models = trained_here(1)
    np.testing.assert_allclose(first, flat(models.export()), rtol=0, atol=1e-5)

    federation.kill_node(1)
    result = federation.result(path)
    # Task 1 stays where it was after the first round: with what it sent then.
    sent = [stepped("0", models.export("0")), stepped("1", client.make_model().state_dict())]
    second = project(np.stack(sent), EPSILON, center=flat(models.export()))
    np.testing.assert_allclose(flat(result["center"]), second.center, rtol=0, atol=1e-5)
    assert list(result["distances"].values()) == pytest.approx(second.distances, abs=1e-5)


def test_a_run_that_ends_early_says_why(federation, tmp_path):
    """The test fails at once with the app's traceback, after a second attempt."""
    app = shutil.copytree(EXAMPLE, tmp_path / "app")
    (app / "schools" / "server.py").write_text('app = None\nraise RuntimeError("a broken app")\n')
    federation.link()
    path = federation.run(app)
    assert federation.failed_starts == 1
    with pytest.raises(AssertionError, match="RuntimeError: a broken app"):
        federation.result(path)
