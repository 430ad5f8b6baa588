"""Linear models in one round: clients send sums over their rows, and the server adds them up."""

import logging
import time
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MessageType, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid

from crosslearning.convex.sums.cells import Cells
from crosslearning.convex.sums.statistics import Statistics

__all__ = ["collect_statistics", "statistics_app"]

log = logging.getLogger("flwr.crosslearning")
_FIELDS = [field.name for field in fields(Cells)]


def statistics_app(summarise: Callable[[dict[str, Any]], Statistics]) -> ClientApp:
    """Make a client that sends only sums over its rows.

    ``summarise(settings)`` returns the ``Statistics`` of these rows; `settings` is the
    configuration of the run and the node.

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
    """Add up the clients' statistics, for ``fit_statistics`` of an estimator.

    The fit is the same as with all rows in one place. Clients may have one task or several, and
    may share tasks. A client that fails, or whose sums do not fit the others, is named in the log
    and left out.

    Parameters
    ----------
    grid : Grid
        The argument of the ServerApp.
    min_nodes : int, default=2
        Clients to wait for; RuntimeError is raised if fewer send valid statistics.
    timeout : float, default=3600
        Seconds to wait for clients to connect, and then for their replies.
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
            f"{len(nodes)}. See the server's log, or lower `min_nodes`."
        )
    return total


def _received(reply: Message) -> Statistics:
    """Return the statistics in a reply, or raise ValueError if they are not valid."""
    if reply.has_error():
        raise ValueError(reply.error.reason)
    header, arrays = reply.content["header"], reply.content["sums"]
    sums = Statistics(header["n_folds"], header["seed"])
    sums.labels = arrays["labels"].numpy()
    sums.cells = Cells(*(arrays[name].numpy() for name in _FIELDS))
    expected = Cells.empty((sums.n_tasks, sums.n_folds), sums.cells.means.shape[-1])
    for name in _FIELDS:
        array, empty = getattr(sums.cells, name), getattr(expected, name)
        if (array.shape, array.dtype) != (empty.shape, empty.dtype):
            raise ValueError(f"`{name}` is {array.dtype} {array.shape}.")
        if not np.isfinite(array).all():
            raise ValueError(f"`{name}` is NaN or infinite.")
    return sums
