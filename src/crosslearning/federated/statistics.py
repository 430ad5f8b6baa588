"""Linear models in one round: clients send sums over their rows, and the server adds them up."""

from __future__ import annotations

import logging
import time
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MessageType, RecordDict
from flwr.clientapp import ClientApp

from crosslearning.convex._cells import Cells
from crosslearning.convex.statistics import Statistics

if TYPE_CHECKING:
    from collections.abc import Callable

    from flwr.app import Context
    from flwr.serverapp import Grid
    from numpy.typing import NDArray

__all__ = ["collect_statistics", "equivalent_rows", "statistics_app"]

log = logging.getLogger("flwr.crosslearning")
_FIELDS = [field.name for field in fields(Cells)]


def statistics_app(summarise: Callable[[dict[str, Any]], Statistics]) -> ClientApp:
    """Make a client that sends sums over its rows, and nothing else.

    Parameters
    ----------
    summarise : callable
        ``summarise(settings)`` returns the ``Statistics`` of the client's rows;
        `settings` has what is configured for the run and the node.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(6, 2)), rng.normal(size=6)
    >>> app = statistics_app(lambda settings: Statistics.of(X, y, [settings["task"]] * 6))
    """
    app = ClientApp()

    @app.query("statistics")
    def _send(message: Message, context: Context) -> Message:
        sums = summarise({**context.run_config, **context.node_config})
        arrays = {name: Array(getattr(sums.cells, name)) for name in _FIELDS}
        record = ArrayRecord({"labels": Array(sums.labels), **arrays})
        header = ConfigRecord({"n_folds": sums.n_folds, "seed": sums.seed})
        return Message(RecordDict({"sums": record, "header": header}), reply_to=message)

    return app


def collect_statistics(grid: Grid, *, min_nodes: int = 2, timeout: float = 3600.0) -> Statistics:
    """Add up what the clients send; ``fit_statistics`` of an estimator takes it.

    The estimator then fits as if it had all rows. Clients may have one task or several, and share
    tasks. One that fails, or sends what cannot be added, is named in the log and left out.

    Parameters
    ----------
    grid : Grid
        As the ServerApp gets it.
    min_nodes : int, default=2
        Clients to wait for; RuntimeError is raised if fewer send what can be used.
    timeout : float, default=3600
        Seconds to wait for clients, and then for their answers.
    """
    deadline = time.monotonic() + timeout
    while len(nodes := list(grid.get_node_ids())) < min_nodes and time.monotonic() < deadline:
        time.sleep(0.5)
    kind = f"{MessageType.QUERY}.statistics"
    queries = [Message(RecordDict(), node, kind) for node in nodes]
    total, added = Statistics(), 0
    for reply in grid.send_and_receive(queries, timeout=timeout):
        try:
            sums = _received(reply)
            total, added = (total + sums if added else sums), added + 1
        except (IndexError, KeyError, ValueError) as problem:
            log.warning("Node %d is left out: %s", reply.metadata.src_node_id, problem)
    if added < min_nodes:
        raise RuntimeError(
            f"The statistics of at least {min_nodes} clients are needed; got those of {added} of "
            f"{len(nodes)}. Look at the log of the server, or lower `min_nodes`."
        )
    return total


def equivalent_rows(
    statistics: Statistics,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[Any], NDArray[np.intp]]:
    """Make up features, targets, tasks and folds of rows that have these sums.

    Least squares cannot tell them from the rows that were summed: a ``CrossRidgeCV(cv=
    PredefinedSplit(folds))`` fits, and chooses, the same. They are no one's rows.

    Examples
    --------
    >>> sums = Statistics.of([[1.0], [2.0], [6.0]], [1.0, 3.0, 2.0], list("aab"))
    >>> X, y, tasks, folds = equivalent_rows(sums)
    >>> tasks, X[tasks == "a"].mean().round(6), X[tasks == "a"].var().round(6)
    (array(['a', 'a', 'b'], dtype='<U1'), np.float64(1.5), np.float64(0.25))
    """
    cells, rng, made = statistics.cells, np.random.default_rng(0), []
    if not np.array_equal(cells.weights, cells.counts):
        raise ValueError("Rows can be made up for sums without sample weights only.")
    at = np.argwhere(cells.counts)
    for task, fold in at:
        n, spread = cells.counts[task, fold], cells.scatters[task, fold]
        rank = min(n - 1, len(spread))
        values, vectors = (array[..., len(spread) - rank :] for array in np.linalg.eigh(spread))
        noise = rng.normal(size=(n, rank))
        directions = np.linalg.qr(noise - noise.mean(axis=0))[0]  # orthonormal, of mean 0
        deviations = directions @ (np.sqrt(np.maximum(values, 0.0)) * vectors).T
        made.append(cells.means[task, fold] + deviations)
    rows, (tasks, folds) = np.concatenate(made), np.repeat(at, [len(m) for m in made], axis=0).T
    return rows[:, :-1], rows[:, -1], statistics.labels[tasks], folds


def _received(reply: Message) -> Statistics:
    """Return the statistics in a reply, or raise ValueError if they cannot be any."""
    if reply.has_error():
        raise ValueError(reply.error.reason)
    header, arrays = reply.content["header"], reply.content["sums"]
    sums = Statistics(header["n_folds"], header["seed"])
    sums.labels = arrays["labels"].numpy()
    sums.cells = Cells(*(arrays[name].numpy() for name in _FIELDS))
    expected = Cells.empty((sums.n_tasks, sums.n_folds), sums.cells.means.shape[-1])
    for name in _FIELDS:
        found, empty = getattr(sums.cells, name), getattr(expected, name)
        if (found.shape, found.dtype) != (empty.shape, empty.dtype):
            raise ValueError(f"`{name}` is {found.dtype} {found.shape}.")
        if not np.isfinite(found).all():
            raise ValueError(f"`{name}` is NaN or infinite.")
    return sums
