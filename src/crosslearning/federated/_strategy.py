"""A Flower strategy: every client is a task with private data and a model of its own."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg, Result
from flwr.serverapp.strategy.strategy_utils import sample_nodes

from crosslearning.coupling._checks import check_center_weight, is_positive
from crosslearning.federated._server_state import ServerState
from crosslearning.tether import Tether

log = logging.getLogger("flwr.crosslearning")


class CrossLearning(FedAvg):
    """Train a model for every client, all within ε of a common centre.

    In a round, clients train their models and send the parameters; the server takes the exact
    joint step and answers with the centre and each client's pull: the share of its way to the
    centre that it goes. A client that misses a round keeps its place: what it sent last goes on
    taking part in the joint step. One that is new starts at the centre. One that sends NaN, or
    parameters of another shape, is named in the log and left out.

    Parameters
    ----------
    epsilon : float or dict from prefix to float, optional
        Largest distance to the centre, for all parameters or by the beginning of their names.
        Parameters that no prefix matches stay with the client.
    tether : Tether or dict from prefix to Tether, optional
        In place of `epsilon`: a spring or a tension as well.
    center_weight : float, default=1
        Weight of the present centre in the joint step; 0 frees it. See
        :class:`~crosslearning.nn.TaskModels`.
    step_size : float, optional
        Learning rate times steps of a round; springs and tensions act in proportion to it.
    checkpoint : path, optional
        A file that the server's state is saved to after every round, and resumed from.
    **options
        Of :class:`flwr.serverapp.strategy.FedAvg`: ``fraction_train``, ``min_train_nodes``, …

    Notes
    -----
    ``epsilon=0, center_weight=0`` is FedAvg with a memory and equal weights, ``epsilon=inf``
    trains alone, ``tether=Tether(stiffness=…), center_weight=0`` is mean-regularised learning
    (MR-MTL; Ditto is its relative with FedAvg's centre), and ``epsilon={"features": 0}`` is FedPer,
    or FedBN if the prefixes leave out normalisation layers.

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
        checkpoint: str | os.PathLike[str] | None = None,
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
        """Tethered parameters of a task as the server knows them; by default the centre."""
        return self._state.record(self._state.place(task))

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        **options: Any,
    ) -> Result:
        """Run rounds, or those that are left if there is a checkpoint.

        The arguments and the result are those of any strategy of Flower. The centre starts at
        `initial_arrays`, :func:`parameters_of` a module; it is what `evaluate_fn` is given, and
        ``arrays`` of the result.
        """
        self._state = state = ServerState(initial_arrays, **self._tethers)
        springs = [block.name for block in state.blocks if not block.tether.is_ball]
        if springs and self._step_size is None:
            raise ValueError(
                f"The tether of block {springs[0]!r} has a spring or a tension, which act in "
                "proportion to the step. Give `step_size`: learning rate times steps of a round."
            )
        if self._checkpoint is not None:
            state.resume(self._checkpoint)
        self._timeout = timeout
        self._tasks: dict[int, str] = {}  # by node
        self._held: dict[int, str] = {}  # by node: which of its parameters it still has
        left = max(num_rounds - state.round, 0)
        result = super().start(grid, self.arrays(), left, timeout, **options)
        result.arrays = self.arrays()
        return result

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Send each client of a sample the centre and its pulls."""
        sample_nodes(grid, self.min_available_nodes, 0)  # or the share is one of the first to come
        server_round = self._state.round + 1  # of all runs
        alike = super().configure_train(server_round, arrays, config, grid)
        messages = self._personal(list(alike), grid)
        self._asked = [message.metadata.dst_node_id for message in messages]
        self._held |= dict.fromkeys(self._asked, "")  # until it is known what became of them
        return messages

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Have each client of a sample evaluate its own model."""
        server_round = self._state.round
        alike = super().configure_evaluate(server_round, arrays, config, grid)
        return self._personal(list(alike), grid)

    def aggregate_train(
        self,
        server_round: int,  # noqa: ARG002 - of this run
        replies: Iterable[Message],
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Take the joint step with what arrived, and save the state."""
        state, accepted = self._state, dict[str, RecordDict]()
        missing = {self._tasks[node]: "no answer in time." for node in self._asked}
        for reply in replies:
            node = reply.metadata.src_node_id
            task = self._tasks[node]
            try:
                state.sent[task] = self._received(reply, task in accepted)
            except ValueError as problem:
                missing[task] = str(problem)
                continue
            accepted[task] = reply.content
            missing.pop(task)
            self._held[node] = state.versions[task] = state.version
        state.round += 1
        for task, why in missing.items():
            log.warning("Round %d lacks task %r, which keeps its place: %s", state.round, task, why)
        if accepted:
            state.couple(self._center_weight, self._step_size or 1.0)
        if self._checkpoint is not None:
            state.save(self._checkpoint)
        if not accepted:
            return None, None
        contents = list(accepted.values())
        return self.arrays(), self.train_metrics_aggr_fn(contents, self.weighted_by_key)

    def _received(self, reply: Message, again: bool) -> Any:
        """Return the vectors in a reply, or raise ValueError with what is wrong with it."""
        if reply.has_error():
            raise ValueError(reply.error.reason)
        if again:
            raise ValueError("two clients have this name. Give each node a `task` of its own.")
        arrays = list(reply.content.array_records.values())
        metrics = list(reply.content.metric_records.values())
        if len(arrays) != 1 or len(metrics) != 1 or self.weighted_by_key not in metrics[0]:
            raise ValueError(
                "a reply must have one ArrayRecord, and one MetricRecord with "
                f"{self.weighted_by_key!r}."
            )
        return self._state.vectors(arrays[0])

    def _personal(self, alike: list[Message], grid: Grid) -> list[Message]:
        """Address each message to its task; nodes that do not tell their task get none."""
        self._ask_tasks([message.metadata.dst_node_id for message in alike], grid)
        center, state, personal = self.arrays(), self._state, []
        for message in alike:
            node = message.metadata.dst_node_id
            if node not in self._tasks:
                log.warning("Node %d is left out: it did not tell its task.", node)
                continue
            task, held = self._tasks[node], self._held[node]
            known = held != "" and held == state.versions.get(task)
            # A client that has lost what it sent, or never sent any, gets where it stands.
            ours = {
                "run": state.run,
                "version": state.version,
                "base": held if known else "",
                "pulls": state.pulls[task] if known else [1.0] * len(state.blocks),
                "counts": [len(block.parameters) for block in state.blocks],
            }
            content = {
                "arrays": center if known else self.arrays(task),
                "config": message.content[self.configrecord_key],
                "crosslearning": ConfigRecord(ours),
            }
            kind = message.metadata.message_type
            personal.append(Message(RecordDict(content), node, kind))
        return personal

    def _ask_tasks(self, nodes: list[int], grid: Grid) -> None:
        """Learn the tasks of new nodes, and what parameters they still have."""
        new = [node for node in nodes if node not in self._tasks]
        queries = [Message(RecordDict(), node, MessageType.QUERY) for node in new]
        for reply in grid.send_and_receive(queries, timeout=self._timeout) if new else ():
            node = reply.metadata.src_node_id
            if reply.has_error():
                log.warning("Node %d does not tell its task: %s", node, reply.error.reason)
                continue
            client = reply.content["client"]
            self._tasks[node], self._held[node] = str(client["task"]), str(client["held"])
