"""A Flower strategy: every client is a task with private data and its own model."""

import logging
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from flwr.app import (
    Array,
    ArrayRecord,
    ConfigRecord,
    Message,
    MessageType,
    MetricRecord,
    RecordDict,
)
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg, Result
from flwr.serverapp.strategy.strategy_utils import sample_nodes
from numpy.typing import NDArray

from crosslearning.coupling import prox
from crosslearning.coupling._checks import check_center_weight, is_positive
from crosslearning.files import AnyPath
from crosslearning.nn._blocks import divide
from crosslearning.nn._checkpoint import differences
from crosslearning.nn._files import encode_tether, read_file, write_file
from crosslearning.tether import Tether

log = logging.getLogger("flwr.crosslearning")

Vectors = list[NDArray[np.floating[Any]]]  # one per block

_KIND = "the state of a federated server"
_LARGE = 1e100  # squares of distances are finite below


class CrossLearning(FedAvg):
    """Train a model for every client, all within ε of a common centre.

    In each round, clients train their models and send the parameters; the server takes the exact
    joint step and returns to each client its own. Of a client that misses a round, the step uses
    what it sent last. New clients start at the centre. A client that sends NaN, or parameters of
    another shape, is named in the log and left out.

    Parameters
    ----------
    epsilon : float or dict from prefix to float, optional
        Largest distance to the centre, for all parameters or by the beginning of their names.
        Parameters that no prefix matches stay with the client.
    tether : Tether or dict from prefix to Tether, optional
        Alternative to `epsilon`, for a spring or a tension as well.
    center_weight : float, default=1
        Weight of the current centre in the joint step; with 0 the centre is free.
    step_size : float, optional
        Learning rate times the number of steps in a round, which scales springs and tensions.
    checkpoint : path, optional
        File to which the server's state is saved after every round, and from which it resumes.
    **options
        Of :class:`flwr.serverapp.strategy.FedAvg`: ``fraction_train``, ``min_train_nodes``, …

    Notes
    -----
    ``epsilon=0, center_weight=0`` is FedAvg with equal weights and memory, ``epsilon=inf`` is
    separate training, ``tether=Tether(stiffness=…), center_weight=0`` is mean-regularised
    multi-task learning (MR-MTL; Ditto is similar, with FedAvg's centre), and
    ``epsilon={"features": 0}`` is FedPer, or FedBN if no prefix matches normalisation layers.

    Examples
    --------
    >>> strategy = CrossLearning(epsilon=0.1, fraction_train=0.5)
    >>> # In a ServerApp: strategy.start(grid, parameters_of(Net()), num_rounds=20)
    """

    def __init__(
        self,
        *,
        epsilon: float | Mapping[str, float] | None = None,
        tether: Tether | Mapping[str, Tether] | None = None,
        center_weight: float = 1.0,
        step_size: float | None = None,
        checkpoint: AnyPath | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        if step_size is not None and not is_positive(step_size):
            raise ValueError(f"`step_size` must be a positive finite number; got {step_size!r}.")
        self._tethers = {"epsilon": epsilon, "tether": tether}
        self._center_weight = check_center_weight(center_weight, allow_zero=True)
        self._step_size, self._checkpoint = step_size, checkpoint

    @property
    def distances(self) -> dict[str, float]:
        """Distances of the tasks to the centre after the last round."""
        return dict(self._state.distances)

    def arrays(self, task: str | None = None) -> ArrayRecord:
        """Tethered parameters of a task after the last joint step; those of the centre if new."""
        return self._state.record(self._state.models.get(task or "", self._state.center))

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        **options: Any,
    ) -> Result:
        """Run the rounds, or the remaining ones if there is a checkpoint, as any strategy does.

        The centre starts at `initial_arrays`, :func:`parameters_of` a module; `evaluate_fn`
        receives the centre, which is also ``arrays`` of the result.
        """
        self._state = state = ServerState(initial_arrays, **self._tethers)
        springs = [block.name for block in state.blocks if not block.tether.is_ball]
        if springs and self._step_size is None:
            raise ValueError(
                f"The tether of block {springs[0]!r} has a spring or a tension, which scale with "
                "the step. Pass `step_size`, the learning rate times the steps of a round."
            )
        if self._checkpoint is not None:
            state.resume(self._checkpoint)
        self._timeout = timeout
        self._tasks: dict[int, str] = {}  # by node
        remaining = max(num_rounds - state.round, 0)
        result = super().start(grid, self.arrays(), remaining, timeout, **options)
        result.arrays = self.arrays()
        return result

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Send each client of a sample the parameters of its task."""
        sample_nodes(grid, self.min_available_nodes, 0)  # wait: the fraction is of those connected
        server_round = self._state.round + 1  # counted over all runs
        alike = super().configure_train(server_round, arrays, config, grid)
        messages = self._personal(alike, grid)
        self._recipients = [message.metadata.dst_node_id for message in messages]
        return messages

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Have each client of a sample evaluate its own model."""
        server_round = self._state.round
        alike = super().configure_evaluate(server_round, arrays, config, grid)
        return self._personal(alike, grid)

    def aggregate_train(
        self,
        server_round: int,  # noqa: ARG002 - of this run
        replies: Iterable[Message],
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Take the joint step with the parameters that arrived, and save the state."""
        state, accepted = self._state, dict[str, RecordDict]()
        missing = {self._tasks[node]: "no answer in time." for node in self._recipients}
        for reply in replies:
            task = self._tasks.get(reply.metadata.src_node_id)
            if task is None:  # the SuperLink speaks, for a node that has gone
                continue
            try:
                state.sent[task] = self._received(reply, task in accepted)
                accepted[task] = reply.content
                missing.pop(task)
            except ValueError as problem:
                missing[task] = str(problem)
        state.round += 1
        for task, why in missing.items():
            log.warning("Task %r is missing from round %d: %s", task, state.round, why)
        if accepted:
            state.couple(self._center_weight, self._step_size or 1.0)
        if self._checkpoint is not None:
            state.save(self._checkpoint)
        if not accepted:
            return None, None
        metrics = self.train_metrics_aggr_fn(list(accepted.values()), self.weighted_by_key)
        return self.arrays(), metrics

    def _received(self, reply: Message, again: bool) -> Any:
        """Return the vectors in a reply, or raise ValueError."""
        if reply.has_error():
            raise ValueError(reply.error.reason)
        if again:
            raise ValueError("two clients have this name. Use a different `task` for each node.")
        arrays = list(reply.content.array_records.values())
        metrics = list(reply.content.metric_records.values())
        if len(arrays) != 1 or len(metrics) != 1 or self.weighted_by_key not in metrics[0]:
            raise ValueError(
                "a reply must have one ArrayRecord, and one MetricRecord with "
                f"{self.weighted_by_key!r}."
            )
        return self._state.vectors(arrays[0])

    def _personal(self, alike: Iterable[Message], grid: Grid) -> list[Message]:
        """Ask new nodes for their tasks, and give each message the content for its own."""
        nodes = {message.metadata.dst_node_id: message for message in alike}
        new = [node for node in nodes if node not in self._tasks]
        queries = [Message(RecordDict(), node, MessageType.QUERY) for node in new]
        for reply in grid.send_and_receive(queries, timeout=self._timeout) if new else ():
            node = reply.metadata.src_node_id
            if reply.has_error():
                log.warning("Node %d did not report its task: %s", node, reply.error.reason)
            else:
                self._tasks[node] = str(reply.content["client"]["task"])
        personal = []
        for node, message in nodes.items():
            if node not in self._tasks:
                log.warning("Node %d is left out: it did not report its task.", node)
                continue
            config = message.content[self.configrecord_key]
            content = {"arrays": self.arrays(self._tasks[node]), "config": config}
            personal.append(Message(RecordDict(content), node, message.metadata.message_type))
        return personal


class ServerState:
    """Centre, and what each task sent last and was given in return, as one vector per block."""

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
        self.models: dict[str, Vectors] = {}  # θ_i
        self.distances: dict[str, float] = {}
        self.round = 0

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
        parts = [[values[name].ravel() for name in block.parameters] for block in self.blocks]
        return [np.concatenate(part) for part in parts]

    def record(self, vectors: Vectors) -> ArrayRecord:
        """Invert :meth:`vectors`."""
        ends = np.cumsum([math.prod(shape) for shape, _ in self._layout.values()])
        parts = np.split(np.concatenate(vectors), ends[:-1])
        laid_out = zip(self._layout.items(), parts, strict=True)
        return ArrayRecord({n: Array(p.reshape(s).astype(d)) for (n, (s, d)), p in laid_out})

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
        self.models = {t: [step.thetas[k].copy() for step in steps] for k, t in enumerate(tasks)}
        distances = np.linalg.norm([step.distances for step in steps], axis=0)
        self.distances = dict(zip(tasks, distances.tolist(), strict=True))

    def save(self, path: AnyPath) -> None:
        """Write a file atomically."""
        content = {"round": self.round, "distances": self.distances, "layout": self._described()}
        named = {"center": self.center}
        named |= {f"sent {task}": vectors for task, vectors in self.sent.items()}
        named |= {f"model {task}": vectors for task, vectors in self.models.items()}
        parts = [(f"{name}/{k}", v) for name, vs in named.items() for k, v in enumerate(vs)]
        write_file(path, _KIND, {name: torch.from_numpy(v) for name, v in parts}, content)

    def resume(self, path: AnyPath) -> None:
        """Resume from a file, if it exists."""
        if not Path(path).exists():
            return
        remedy = "Use another `checkpoint`, or delete the file to start over."
        tensors, content = read_file(path, _KIND, remedy)
        if odd := "; ".join(differences(content["layout"], self._described())):
            raise ValueError(f"{path} belongs to another run: {odd}. {remedy}")

        def vectors(name: str) -> Vectors:
            return [tensors[f"{name}/{number}"].numpy() for number in range(len(self.blocks))]

        self.round, self.distances = content["round"], content["distances"]
        self.center = vectors("center")
        self.sent = {task: vectors(f"sent {task}") for task in self.distances}
        self.models = {task: vectors(f"model {task}") for task in self.distances}

    def _described(self) -> dict[str, Any]:
        arrays = {name: f"{dtype} {list(shape)}" for name, (shape, dtype) in self._layout.items()}
        tethers = {block.name: encode_tether(block.tether) for block in self.blocks}
        return {"parameters": arrays, "tethers": tethers}
