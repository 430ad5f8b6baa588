"""The state of the server, in memory and in a file."""

from __future__ import annotations

import math
import os
import secrets
from pathlib import Path
from typing import Any

import numpy as np
import torch
from flwr.app import Array, ArrayRecord
from numpy.typing import NDArray

from crosslearning.coupling import prox
from crosslearning.federated._client import towards
from crosslearning.nn._blocks import divide
from crosslearning.nn._checkpoint import differences
from crosslearning.nn._files import encode_tether, read_file, write_file

Vectors = list[NDArray[np.floating[Any]]]  # one per block


_KIND = "the state of a federated server"
_PLAIN = ("run", "round", "versions", "pulls", "distances")  # what JSON can hold
_LARGE = 1e100  # squares of distances are finite below


class ServerState:
    """Centre, pulls, and the parameters that each task sent last, as one vector per block."""

    def __init__(self, arrays: ArrayRecord, epsilon: Any, tether: Any) -> None:
        values = {name: array.numpy() for name, array in arrays.items()}
        self.blocks = divide(list(values), epsilon, tether, n_tasks=0)
        names = [name for block in self.blocks for name in block.parameters]
        self._layout = {name: (values[name].shape, values[name].dtype) for name in names}
        if any(dtype.kind != "f" for _, dtype in self._layout.values()):
            raise ValueError(
                "Only floating-point numbers can be tethered; some of these are not. Start from "
                "`parameters_of(module)`, which omits buffers."
            )
        self.center = self.vectors(arrays)
        self.sent: dict[str, Vectors] = {}  # z_i
        self.pulls: dict[str, list[float]] = {}
        self.distances: dict[str, float] = {}
        self.versions: dict[str, str] = {}  # of the z_i, by run and round
        self.run, self.round = secrets.token_hex(8), 0

    @property
    def version(self) -> str:
        """Version of what clients send in the current round."""
        return f"{self.run}:{self.round + 1}"

    def vectors(self, arrays: ArrayRecord) -> Vectors:
        """Flatten arrays block by block; refuse any that are not as expected."""
        values = {name: arrays[name].numpy() for name in self._layout if name in arrays}
        for name, (shape, dtype) in self._layout.items():
            vector = values.get(name)
            if vector is None or (vector.shape, vector.dtype) != (shape, dtype):
                what = "missing" if vector is None else f"{vector.dtype} {vector.shape}"
                raise ValueError(f"{name!r} must be {dtype} {shape}; it is {what}.")
            if not float(np.abs(vector).max(initial=0.0)) < _LARGE:  # or NaN
                raise ValueError(f"{name!r} is NaN, infinite or beyond {_LARGE:g}.")
        return [
            np.concatenate([values[name].ravel() for name in block.parameters])
            for block in self.blocks
        ]

    def record(self, vectors: Vectors) -> ArrayRecord:
        """Invert :meth:`vectors`."""
        ends = np.cumsum([math.prod(shape) for shape, _ in self._layout.values()])
        parts = np.split(np.concatenate(vectors), ends[:-1])
        laid_out = zip(self._layout.items(), parts, strict=True)
        return ArrayRecord({n: Array(p.reshape(s).astype(d)) for (n, (s, d)), p in laid_out})

    def place(self, task: str | None) -> Vectors:
        """Parameters of a task after the last joint step; those of the centre for a new task."""
        if task not in self.sent:
            return self.center
        return [
            towards(z, center, pull)
            for z, center, pull in zip(self.sent[task], self.center, self.pulls[task], strict=True)
        ]

    def couple(self, center_weight: float, step_size: float) -> None:
        """Take the exact joint step of all tasks that have sent parameters."""
        tasks = sorted(self.sent)
        steps = [
            prox(
                np.stack([self.sent[task][number] for task in tasks]),
                block.tether,
                center=self.center[number] if center_weight else None,
                center_weight=center_weight or None,
                step_size=step_size,
            )
            for number, block in enumerate(self.blocks)
        ]
        self.center = [step.center for step in steps]
        self.pulls = {t: [float(step.pull[row]) for step in steps] for row, t in enumerate(tasks)}
        distances = np.linalg.norm([step.distances for step in steps], axis=0)
        self.distances = dict(zip(tasks, distances.tolist(), strict=True))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a file atomically."""
        content = {name: getattr(self, name) for name in _PLAIN} | {"layout": self._described()}
        named = {"center": self.center, **{f"task {task}": z for task, z in self.sent.items()}}
        tensors = {
            f"{owner}/{number}": torch.from_numpy(vector)
            for owner, vectors in named.items()
            for number, vector in enumerate(vectors)
        }
        write_file(path, _KIND, tensors, content)

    def resume(self, path: str | os.PathLike[str]) -> None:
        """Resume from a file, if it exists."""
        if not Path(path).exists():
            return
        remedy = "Use another `checkpoint`, or delete the file to start over."
        tensors, content = read_file(path, _KIND, remedy)
        if odd := differences(content["layout"], self._described()):
            raise ValueError(
                f"{os.fspath(path)} belongs to another run: {'; '.join(odd)}. {remedy}"
            )
        numbers = range(len(self.blocks))
        self.center = [tensors[f"center/{number}"].numpy() for number in numbers]
        for task in content["pulls"]:
            self.sent[task] = [tensors[f"task {task}/{number}"].numpy() for number in numbers]
        for name in _PLAIN:
            setattr(self, name, content[name])

    def _described(self) -> dict[str, Any]:
        arrays = {name: f"{dtype} {list(shape)}" for name, (shape, dtype) in self._layout.items()}
        tethers = {block.name: encode_tether(block.tether) for block in self.blocks}
        return {"parameters": arrays, "tethers": tethers}
