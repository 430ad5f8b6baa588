"""A Flower ClientApp around a training function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from numpy.typing import NDArray

Step = Callable[[torch.nn.Module, dict[str, Any]], Mapping[str, Any] | None]


_KIND = "the state of a federated client"
_STATE, _HELD = "crosslearning", "crosslearning-held"


def parameters_of(module: torch.nn.Module) -> ArrayRecord:
    """Return the parameters of a module, without its buffers, as Flower sends them.

    Examples
    --------
    >>> list(parameters_of(torch.nn.Linear(2, 1)))
    ['weight', 'bias']
    """
    return ArrayRecord({name: value.detach() for name, value in module.named_parameters()})


def client_app(
    make_model: Callable[[], torch.nn.Module],
    train: Step,
    evaluate: Step | None = None,
    *,
    mods: list[Any] | None = None,
) -> ClientApp:
    """Make a client of a server that runs :class:`CrossLearning`.

    Parameters
    ----------
    make_model : callable
        Returns a new module. Parameters that the server tethers are overwritten; the others, and
        buffers such as those of BatchNorm, stay in the client's state from round to round.
    train, evaluate : callable
        ``train(model, settings)`` changes the model in place. Both return metrics, numbers by
        name, such as ``{"loss": 0.3, "num-examples": 80}``. `settings` combines the configuration
        of the run, the node and the message with ``"server-round"`` and ``"task"``.
    mods : list, optional
        Flower mods.

    Notes
    -----
    The task is ``task``, or else ``partition-id``, in the configuration of the node. If that also
    has ``state``, a path, the client's state is kept in that file too.

    Examples
    --------
    >>> app = client_app(lambda: torch.nn.Linear(3, 1), train=lambda model, settings: {"loss": 0.1})
    """
    app = ClientApp(mods=mods)

    def stepped(message: Message, context: Context, step: Step) -> tuple[Any, MetricRecord]:
        model = make_model()
        _set(model, message, context)
        settings = {**context.run_config, **context.node_config, **message.content["config"]}
        metrics = step(model, {**settings, "task": _task(context)})
        return model, MetricRecord({"num-examples": 1, **(metrics or {})})

    @app.query()
    def _tell(message: Message, context: Context) -> Message:
        version, _ = _kept(context)
        client = ConfigRecord({"task": _task(context), "held": version})
        return Message(RecordDict({"client": client}), reply_to=message)

    @app.train()
    def _train(message: Message, context: Context) -> Message:
        model, metrics = stepped(message, context, train)
        _keep(model, message.content["crosslearning"]["version"], context)
        personal = parameters_of(model)
        sent = ArrayRecord({name: personal[name] for name in message.content["arrays"]})
        return Message(RecordDict({"arrays": sent, "metrics": metrics}), reply_to=message)

    if evaluate is not None:

        @app.evaluate()
        def _evaluate(message: Message, context: Context) -> Message:
            _, metrics = stepped(message, context, evaluate)
            return Message(RecordDict({"metrics": metrics}), reply_to=message)

    return app


def _task(context: Context) -> str:
    task = context.node_config.get("task", context.node_config.get("partition-id"))
    if task is None:
        raise ValueError(
            "Every client needs the name of its task; the configuration of this node has neither "
            '`task` nor `partition-id`. Add one, such as task="north".'
        )
    return str(task)


def _set(model: torch.nn.Module, message: Message, context: Context) -> None:
    """Set the parameters of a model to those of its task."""
    ours = message.content["crosslearning"]
    version, personal = _kept(context)
    if ours["base"] not in ("", version):
        raise ValueError(
            "This client no longer has the parameters that it sent last. The server will send "
            "them in the next round."
        )
    if version.split(":")[0] == ours["run"]:
        model.load_state_dict(personal)
    pulls = np.repeat(ours["pulls"], ours["counts"]).tolist()
    values = {}
    for (name, array), pull in zip(message.content["arrays"].items(), pulls, strict=True):
        center = array.numpy()
        z = personal[name].numpy() if ours["base"] else center
        values[name] = torch.from_numpy(towards(z, center, pull))
    if odd := sorted(set(values) - dict(model.named_parameters()).keys()):
        raise ValueError(f"The server tethers {odd[0]!r}, which this model does not have.")
    model.load_state_dict(values, strict=False)


def _kept(context: Context) -> tuple[str, dict[str, torch.Tensor]]:
    """Return the version and the state of the model that was kept last."""
    if _STATE in context.state:
        return context.state[_HELD]["held"], context.state[_STATE].to_torch_state_dict()
    path = context.node_config.get("state")
    if path is None or not Path(path).exists():
        return "", {}
    from crosslearning.nn._files import read_file  # imports much that most clients do not need

    tensors, content = read_file(path, _KIND, "Delete the file to start over.")
    return content["held"], tensors


def _keep(model: torch.nn.Module, version: str, context: Context) -> None:
    """Keep the state of a model that is finite."""
    if not all(parameter.isfinite().all() for parameter in model.parameters()):
        return  # the server reports it
    tensors = {name: value.cpu() for name, value in model.state_dict().items()}
    context.state[_STATE] = ArrayRecord(tensors)
    context.state[_HELD] = ConfigRecord({"held": version})
    path = context.node_config.get("state")
    if path is not None:
        from crosslearning.nn._files import write_file

        write_file(path, _KIND, tensors, {"held": version})


def towards(z: NDArray[Any], center: NDArray[Any], pull: float) -> NDArray[Any]:
    """Move by a fraction of the way to the centre, exactly if that is 0 or 1."""
    if pull == 1.0:
        return center
    moved = z - pull * np.subtract(z, center, dtype=np.float64)
    return moved.astype(z.dtype)
