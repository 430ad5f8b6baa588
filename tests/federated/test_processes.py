"""A real SuperLink with two SuperNodes on loopback."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr", reason="the extra `flower` is not installed")
torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")

from safetensors import safe_open

from crosslearning import project
from crosslearning.nn import TaskModels, fit

EXAMPLE = Path(__file__).parents[2] / "examples" / "federated"
sys.path.insert(0, str(EXAMPLE))
client = importlib.import_module("schools.client")
EPSILON = 0.02  # both schools want to go farther
PATIENCE = 200.0  # seconds, on a machine with other things to do

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/environ").exists(), reason="processes are found by /proc"
)


def free_ports(number):
    try:
        sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    except OSError as problem:
        pytest.skip(f"no ports to be had: {problem}")
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def wait(condition, what, log):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"{what} took too long:\n{log.read_text()[-3000:]}"
        time.sleep(0.1)


def healthy(port):
    try:
        return urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1).status == 200
    except (urllib.error.URLError, OSError):
        return False


class Federation:
    """Processes of Flower with a home of their own, by which they are found in the end."""

    def __init__(self, folder):
        self.folder, self.log, self.processes = folder, folder / "log", []
        here = Path(sys.executable).parent
        self.environment = {
            **os.environ,
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_HOME": str(folder),
            "RAY_USAGE_STATS_ENABLED": "0",
            "OMP_NUM_THREADS": "1",
            "PATH": f"{here}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(sys.path),
        }

    def start(self, *command, **marks):
        with self.log.open("ab") as log:
            environment = self.environment | marks
            process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        self.processes.append(process)
        return process

    def link(self, *options):
        (self.port,) = free_ports(1)
        address = f"127.0.0.1:{self.port}"
        config = f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "{address}"\n'
        (self.folder / "config.toml").write_text(f"{config}insecure = true\n")
        command = f"flower-superlink --insecure --host 127.0.0.1 --port {self.port}".split()
        process = self.start(*command, "--disable-runtime-dependency-installation", *options)
        wait(lambda: healthy(self.port) or process.poll() is not None, "the SuperLink", self.log)
        if process.poll() is not None:
            pytest.skip(f"the SuperLink could not listen:\n{self.log.read_text()[-2000:]}")

    def node(self, number):
        (port,) = free_ports(1)
        command = f"flower-supernode --insecure --superlink 127.0.0.1:{self.port} --port {port}"
        config = ["--node-config", f"partition-id={number}"]
        self.start(*command.split(), *config, NODE=f"{self.folder}/{number}")

    def run(self, app, *options, **config):
        """Start a run, and return where its result will be."""
        result = self.folder / f"result {time.monotonic()}"
        config = {**config, "result": str(result), "fraction-evaluate": 0.0}
        text = " ".join(f"{name}={json.dumps(value)}" for name, value in config.items())
        command = ["flwr", "run", str(app), "here", "--run-config", text, *options]
        assert self.start(*command).wait(PATIENCE) == 0, self.log.read_text()[-3000:]
        return result

    def result(self, path):
        wait(lambda: path.exists() and path.read_text().endswith("}}"), "the run", self.log)
        return json.loads(path.read_text())


def end(mark):
    """Kill all processes with this in their environment, which their children inherit."""
    while found := [path for path in Path("/proc").glob("[0-9]*/environ") if marked(path, mark)]:
        for path in found:
            with suppress(ProcessLookupError):
                os.kill(int(path.parent.name), signal.SIGKILL)
        time.sleep(0.1)


def marked(path, mark):
    with suppress(OSError):
        return mark.encode() in path.read_bytes().split(b"\0")
    return False


@pytest.fixture
def federation(tmp_path):
    processes = Federation(tmp_path)
    yield processes
    end(f"FLWR_HOME={tmp_path}")
    for process in processes.processes:
        process.wait()


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
    for number in range(2):
        federation.node(number)
    checkpoint = tmp_path / "server"
    settings = {"epsilon": EPSILON, "rounds": 2, "steps": 1, "checkpoint": str(checkpoint)}
    path = federation.run(app, timeout=timeout, **settings)
    wait(hanging.exists, "the first round", federation.log)
    with safe_open(checkpoint, framework="numpy") as file:
        first = file.get_tensor("center/0")
    models = trained_here(1)
    np.testing.assert_allclose(first, flat(models.export()), rtol=0, atol=1e-5)

    end(f"NODE={tmp_path}/1")
    result = federation.result(path)
    # Task 1 stays where it was after the first round: with what it sent then.
    sent = [stepped("0", models.export("0")), stepped("1", client.make_model().state_dict())]
    second = project(np.stack(sent), EPSILON, center=flat(models.export()))
    np.testing.assert_allclose(flat(result["center"]), second.center, rtol=0, atol=1e-5)
    assert list(result["distances"].values()) == pytest.approx(second.distances, abs=1e-5)
