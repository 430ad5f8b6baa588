"""A Flower grid in this process: nodes with a ClientApp, a context, and faults to order."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

from flwr.app import Context, Error, Message, RecordDict
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

_IDS = itertools.count(1001)


class Node:
    """What Flower calls a SuperNode."""

    def __init__(self, app, config=None, *, faults=None):
        self.app, self.config, self.id = app, config or {}, next(_IDS)
        self.faults = faults or {}  # by the kind of message and its number
        self.seen = []
        self.restart()

    def restart(self):
        self.context = Context(1, self.id, dict(self.config), RecordDict(), {"lr": 0.1})

    def answer(self, message):
        kind = message.metadata.message_type
        fault = self.faults.get((kind, sum(one == kind for one, _ in self.seen)))
        self.seen.append((kind, message.content))
        if fault == "silent":
            return None
        try:
            reply = self.app(message, self.context)
        except Exception as error:  # as a SuperNode does
            reply = Message(Error(code=2, reason=str(error)), reply_to=message)
        if fault == "lost":
            return None
        if fault == "gone":  # the SuperLink answers in its own name, 1
            reply = Message(Error(code=3, reason="The node is gone."), reply_to=message)
            reply.metadata.__dict__["_src_node_id"] = 1
            return reply
        return reply if fault is None else Message(fault(reply.content), reply_to=message)


class LocalGrid(Grid):
    """Nodes that answer at once, in the order of a dict."""

    def __init__(self, nodes):
        self.nodes = {node.id: node for node in nodes}
        self.bytes = {"down": 0, "up": 0}
        # A process of Flower is told who it is when it starts.
        TaskIdentity.task_id = TaskIdentity.run_id = TaskIdentity.node_id = 1

    run = SimpleNamespace(run_id=1)

    def set_run(self, run):
        raise NotImplementedError

    create_message = push_messages = pull_messages = set_run

    def get_node_ids(self):
        return list(self.nodes)

    def send_and_receive(self, messages, *, timeout=None):  # noqa: ARG002
        replies = []
        for message in messages:
            node = message.metadata.dst_node_id
            self.bytes["down"] += _size(message)
            reply = self.nodes[node].answer(message)
            if reply is not None:
                replies.append(reply)
                self.bytes["up"] += 0 if reply.has_error() else _size(reply)
        return replies


def _size(message):
    arrays = sum(record.count_bytes() for record in message.content.array_records.values())
    return arrays + sum(len(one.deflate()) for one in message.content.config_records.values())
