"""A SuperLink and SuperNodes of Flower as processes on loopback, and runs of an app on them."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest

PATIENCE = 200.0  # seconds, on a machine with other things to do


class Federation:
    """Processes of Flower with a home of their own, by which they are found in the end.

    What the processes of an app print goes to files in `outputs`: Flower discards it, and the
    log of the SuperLink says only that the app has finished.
    """

    def __init__(self, folder):
        self.folder, self.log, self.processes = folder, folder / "log", []
        self.outputs, self.failed_starts = folder / "outputs", 0
        programs = Path(sys.executable).parent
        commands = self._recorded(programs, ["flwr-serverapp", "flwr-clientapp"])
        self.environment = {
            **os.environ,
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_HOME": str(folder),
            "RAY_USAGE_STATS_ENABLED": "0",
            "OMP_NUM_THREADS": "1",
            "PATH": os.pathsep.join([str(commands), str(programs), os.environ["PATH"]]),
            "PYTHONPATH": os.pathsep.join(sys.path),
        }

    def _recorded(self, programs, names):
        """Make a folder with commands of these names that record what the programs print."""
        commands = self.folder / "commands"
        commands.mkdir()
        self.outputs.mkdir()
        for name in names:
            file = commands / name
            output = f'"{self.outputs}/{name}-$$"'
            file.write_text(f'#!/bin/sh\nexec "{programs / name}" "$@" >{output} 2>&1\n')
            file.chmod(0o755)
        return commands

    def start(self, *command, **variables):
        with self.log.open("ab") as log:
            environment = self.environment | variables
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
        self.wait(lambda: healthy(self.port) or process.poll() is not None, "the SuperLink")
        if process.poll() is not None:
            pytest.skip(f"the SuperLink could not listen:\n{self.log.read_text()[-2000:]}")

    def nodes(self, number):
        """Start SuperNodes, and return when all are connected."""
        for node in range(number):
            (port,) = free_ports(1)
            command = f"flower-supernode --insecure --superlink 127.0.0.1:{self.port} --port {port}"
            config = ["--node-config", f"partition-id={node}"]
            self.start(*command.split(), *config, NODE=f"{self.folder}/{node}")
        self.wait(lambda: self._count("Activated node_id") == number, "the SuperNodes")

    def kill_node(self, node):
        kill_all(f"NODE={self.folder}/{node}")

    def run(self, app, **config):
        """Start a run, and return where its result will be.

        A ServerApp once ended about a second after its start, and its output, with the reason, was
        lost. If one ends before its first round, its output is printed and the run started again.
        """
        path = self.folder / "result"
        config = {**config, "result": str(path), "fraction-evaluate": 0.0}
        text = " ".join(f"{name}={json.dumps(value)}" for name, value in config.items())
        for attempt in range(2):
            command = ["flwr", "run", str(app), "here", "--run-config", text]
            assert self.start(*command).wait(PATIENCE) == 0, self.report()
            self.wait(lambda: self._has_begun() or self._has_ended(), "the start of the run", False)
            if self._has_begun() or attempt:
                break
            print(f"This ServerApp ended before it began:\n{self.report()}")  # noqa: T201
            self.failed_starts += 1
        return path

    def wait(self, condition, what, while_running=True):
        """Wait for a condition, but no longer than the run lasts."""
        deadline = time.monotonic() + PATIENCE
        while True:
            has_ended = while_running and self._has_ended()  # first: the result comes before it
            if condition():
                return
            assert not has_ended, f"the run ended before {what}:\n{self.report()}"
            assert time.monotonic() < deadline, f"{what} took too long:\n{self.report()}"
            time.sleep(0.1)

    def result(self, path):
        self.wait(lambda: path.exists() and path.read_text().endswith("}}"), "the result")
        return json.loads(path.read_text())

    def report(self):
        """Return the ends of the log and of what the app printed."""
        files = [self.log, *sorted(self.outputs.iterdir(), key=lambda path: path.stat().st_mtime)]
        return "\n".join(f"--- {path.name}\n{path.read_text()[-3000:]}" for path in files)

    def _count(self, words):
        return self.log.read_text().count(words) if self.log.exists() else 0

    def _has_ended(self):
        return self._count("Finished task") > self.failed_starts

    def _has_begun(self):
        return any("[ROUND 1/" in path.read_text() for path in self.outputs.glob("flwr-serverapp*"))

    def end(self):
        kill_all(f"FLWR_HOME={self.folder}")
        for process in self.processes:
            process.wait()


def free_ports(number):
    try:
        sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    except OSError as problem:
        pytest.skip(f"no ports to be had: {problem}")
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def healthy(port):
    try:
        return urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1).status == 200
    except (urllib.error.URLError, OSError):
        return False


def kill_all(variable):
    """Kill all processes with this variable in their environment, which their children inherit."""
    while paths := [p for p in Path("/proc").glob("[0-9]*/environ") if has_variable(p, variable)]:
        for path in paths:
            with suppress(ProcessLookupError):
                os.kill(int(path.parent.name), signal.SIGKILL)
        time.sleep(0.1)


def has_variable(path, variable):
    with suppress(OSError):
        return variable.encode() in path.read_bytes().split(b"\0")
    return False
