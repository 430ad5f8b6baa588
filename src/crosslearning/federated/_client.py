"""A Flower ClientApp around a training function."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

Step = Callable[[torch.nn.Module, dict[str, Any]], Mapping[str, Any] | None]
_STATE = "crosslearning"


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
        of the run, the node and the message with ``"server-round"`` and ``"task"``: the node's
        ``task``, or else its ``partition-id``.
    mods : list, optional
        Flower mods.

    Examples
    --------
    >>> app = client_app(lambda: torch.nn.Linear(3, 1), train=lambda model, settings: {"loss": 0.1})
    """
    app = ClientApp(mods=mods)

    def stepped(message: Message, context: Context, step: Step) -> tuple[Any, MetricRecord]:
        model = make_model()
        for record in (context.state.get(_STATE, ArrayRecord()), message.content["arrays"]):
            _load(model, record.to_torch_state_dict())
        settings = {**context.run_config, **context.node_config, **message.content["config"]}
        metrics = step(model, {**settings, "task": _task(context)})
        return model, MetricRecord({"num-examples": 1, **(metrics or {})})

    @app.query()
    def _name(message: Message, context: Context) -> Message:
        client = ConfigRecord({"task": _task(context)})
        return Message(RecordDict({"client": client}), reply_to=message)

    @app.train()
    def _train(message: Message, context: Context) -> Message:
        model, metrics = stepped(message, context, train)
        trained, tensors = parameters_of(model), model.state_dict()
        sent = ArrayRecord({name: trained[name] for name in message.content["arrays"]})
        if all(parameter.isfinite().all() for parameter in model.parameters()):
            kept = {name: value.cpu() for name, value in tensors.items() if name not in sent}
            context.state[_STATE] = ArrayRecord(kept)
        return Message(RecordDict({"arrays": sent, "metrics": metrics}), reply_to=message)

    if evaluate is not None:

        @app.evaluate()
        def _evaluate(message: Message, context: Context) -> Message:
            _, metrics = stepped(message, context, evaluate)
            return Message(RecordDict({"metrics": metrics}), reply_to=message)

    return app


def _load(model: torch.nn.Module, values: dict[str, torch.Tensor]) -> None:
    if odd := sorted(values.keys() - model.state_dict().keys()):
        raise ValueError(f"The server tethers {odd[0]!r}, which this model does not have.")
    model.load_state_dict(values, strict=False)


def _task(context: Context) -> str:
    task = context.node_config.get("task", context.node_config.get("partition-id"))
    if task is None:
        raise ValueError(
            "Every client needs the name of its task; the configuration of this node has neither "
            '`task` nor `partition-id`. Add one, such as task="north".'
        )
    return str(task)
