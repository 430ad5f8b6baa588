"""All tasks in one pass, stacked along a new axis, and one step of the optimizer for all."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from operator import attrgetter
from typing import Any

import torch
from torch import nn, optim
from torch.func import functional_call

from crosslearning.nn._data import Feed
from crosslearning.nn._seeds import seed_torch
from crosslearning.nn._task_models import TaskModels

Tensors = dict[str, torch.Tensor]

_LAYERS = ("activation", "container", "dropout", "flatten", "linear")
_OF_TORCH = tuple(f"torch.nn.modules.{kind}" for kind in _LAYERS)
# Optimizers that treat every element separately.
ELEMENTWISE = (
    optim.ASGD, optim.Adadelta, optim.Adagrad, optim.Adam, optim.AdamW, optim.Adamax,
    optim.NAdam, optim.RAdam, optim.RMSprop, optim.Rprop, optim.SGD,
)  # fmt: skip

_REQUIRES_GRAD = attrgetter("requires_grad")
_SMALL = 1 << 16  # numbers of a parameter, on average; with more, calls cost little


def refuse_unlike(models: TaskModels) -> None:
    first, label = _make(models.per_task[0]), models.local_tasks[0]
    for task, module in models.items():
        if _make(module) != first:
            raise ValueError(
                "engine='vmap' needs the same architecture for all tasks; that of task "
                f"{task!r} differs from that of task {label!r}. Use engine='loop'."
            )
        for name, buffer in module.named_buffers():
            if buffer is not models.center.get_buffer(name):
                raise ValueError(
                    "engine='vmap' needs buffers that all tasks share, unlike those of BatchNorm; "
                    f"every task has its own {name!r}. Use engine='loop'."
                )


def is_layered(module: nn.Module) -> bool:
    """Whether a module consists of torch's linear layers, activations and dropout only."""
    return all(
        type(part) is nn.LayerNorm
        or (type(part).__module__ in _OF_TORCH and type(part) is not nn.MultiheadAttention)
        for part in module.modules()
    )


def _make(module: nn.Module) -> tuple[Any, ...]:
    """Layers with their options, and parameters and buffers with their shapes."""
    tensors = chain(module.named_parameters(), module.named_buffers())
    return repr(module), [(name, one.shape, one.dtype, one.requires_grad) for name, one in tensors]


class VmapEngine:
    """Gradients of the tasks' losses in one vectorised pass over the rows of the flat buffers."""

    def __init__(
        self,
        models: TaskModels,
        loss: Callable[[Any, Any], torch.Tensor],
        optimizer: torch.optim.Optimizer,
        feed: Feed,
    ) -> None:
        refuse_unlike(models)
        self.models, self.loss, self._feed = models, loss, feed
        self.device = next(models.parameters()).device
        self.losses = torch.vmap(self._loss_of_one, randomness="different")
        names = [name for name, _ in models.center.named_parameters(remove_duplicate=False)]
        self._tied = len(names) > len(dict(models.center.named_parameters()))  # finding out is slow
        self._rows: list[Tensors] = [dict(one.named_parameters()) for one in models.per_task]
        self._names: list[str] = []  # of the parameters that are passed in a step
        tethered = {slot.name for flat in models.flats for slot in flat.slots}
        self._apart = [
            name
            for name, shared in models.center.named_parameters()
            if name not in tethered and any(row[name] is not shared for row in self._rows)
        ]
        self._flat = FlatOptimizer(optimizer, models) if can_be_flat(optimizer, models) else None
        self._trained = trained(models.parameters())
        if self._flat is not None:
            self._flat.flatten()

    def gradients(self, step: int) -> tuple[list[int], torch.Tensor]:
        if self._flat is not None and not all(map(_REQUIRES_GRAD, self._trained)):
            self.close()  # a callback has frozen some
            self._flat = None
        for parameter in () if self._flat else self._trained:  # new gradients take as much memory
            parameter.grad = None
        x, y = self._feed.stacked(step)
        parameters = self._flat.parameters if self._flat else self._parameters()
        leaves = {name: one for name, one in parameters.items() if one.requires_grad}
        seed_torch(self.device, self._feed.dropout_seed(0, step))
        self._names = list(parameters)  # vmap takes longer to unpack a dict
        try:
            losses = self.losses(x, y, *parameters.values())
            gradients = torch.autograd.grad(losses.sum(), list(leaves.values()), allow_unused=True)
        except Exception as error:
            error.add_note("This happened with engine='vmap'; engine='loop' takes any model.")
            raise
        self._hand_over(dict(zip(leaves, gradients, strict=True)))
        return list(range(len(losses))), losses.detach()

    @contextmanager
    def released(self) -> Iterator[None]:
        self.close()
        yield
        if self._flat is not None:
            self._flat.flatten()

    def close(self) -> None:
        if self._flat is not None:
            self._flat.scatter()

    def _loss_of_one(self, x: Any, y: Any, *tensors: torch.Tensor) -> torch.Tensor:
        parameters = dict(zip(self._names, tensors, strict=True))
        output = functional_call(self.models.per_task[0], parameters, (x,), tie_weights=self._tied)
        return self.loss(output, y)

    def _parameters(self) -> Tensors:
        """Parameters of all tasks, stacked: views of the flat buffers, and copies of others."""
        parameters = {name: torch.stack([row[name] for row in self._rows]) for name in self._apart}
        for flat in self.models.flats:
            parameters |= flat.stacked(flat.tasks)
        return {
            name: one.detach().requires_grad_(self._rows[0][name].requires_grad)
            for name, one in parameters.items()
        }

    def _hand_over(self, gradients: dict[str, torch.Tensor | None]) -> None:
        if self._flat is None:
            for name, gradient in gradients.items():
                if gradient is not None:
                    for row, part in zip(self._rows, gradient, strict=True):
                        row[name].grad = part
            return
        for name, place in self._flat.gradients.items():
            gradient = gradients[name]
            if gradient is None:
                raise ValueError(
                    f"The loss does not depend on the parameter {name!r}. Freeze it with "
                    "`requires_grad_(False)`, do not tether it, or use engine='loop'."
                )
            place.copy_(gradient)


def can_be_flat(optimizer: optim.Optimizer, models: TaskModels) -> bool:
    """Whether stepping over one matrix is equivalent and worth its memory."""
    parameters = trained(models.parameters())
    tethered = sum(flat.tasks.numel() for flat in models.flats)
    optimized = trained(one for group in optimizer.param_groups for one in group["params"])
    steps = {float(state.get("step", -1)) for state in optimizer.state.values()}
    return (
        type(optimizer) in ELEMENTWISE
        and len(optimizer.param_groups) == 1
        and list(map(id, optimized)) == list(map(id, parameters))
        and tethered == sum(one.numel() for one in parameters)
        and not (optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks)
        and len(optimizer.state) in (0, len(parameters))
        and len(steps) <= 1
        and tethered < _SMALL * len(parameters)
    )


def trained(parameters: Iterable[nn.Parameter]) -> list[nn.Parameter]:
    return [parameter for parameter in parameters if parameter.requires_grad]


class FlatOptimizer:
    """Makes an optimizer step over the flat buffers, in one call instead of hundreds."""

    def __init__(self, optimizer: optim.Optimizer, models: TaskModels) -> None:
        self.optimizer, self.models = optimizer, models
        self._parameters = optimizer.param_groups[0]["params"]
        self.leaves: list[nn.Parameter] = []  # the rows of the tasks of each buffer
        self.parameters: Tensors = {}  # of all tasks, stacked
        self.gradients: Tensors = {}

    def flatten(self) -> None:
        """Hand over the flat buffers, and the state of the parameters with them."""
        flats, state = self.models.flats, self.optimizer.state
        self.leaves = [nn.Parameter(flat.tasks) for flat in flats]
        for flat, leaf in zip(flats, self.leaves, strict=True):
            leaf.grad = torch.zeros_like(leaf)
            self.gradients |= flat.stacked(leaf.grad)
            for name, one in flat.stacked(flat.tasks).items():
                self.parameters[name] = one.detach().requires_grad_()
            rows = [flat.tethered(module) for module in self.models.per_task]
            if state:
                state[leaf] = {
                    key: _joined(key, [[state[p][key] for p in row] for row in rows], rows)
                    for key in state[rows[0][0]]
                }
        for parameter in self.models.parameters():
            state.pop(parameter, None)
        self.optimizer.param_groups[0]["params"] = self.leaves

    def scatter(self) -> None:
        """Hand the parameters back, each with its part of the state."""
        state = self.optimizer.state
        for flat, leaf in zip(self.models.flats, self.leaves, strict=True):
            whole = state.pop(leaf, None)
            for row, module in enumerate(self.models.per_task):
                for slot, parameter in zip(flat.slots, flat.tethered(module), strict=True):
                    if whole is not None:
                        state[parameter] = {
                            key: _part(value, leaf, row, slot) for key, value in whole.items()
                        }
        self.optimizer.param_groups[0]["params"] = self._parameters


def _joined(key: str, values: list[list[Any]], rows: list[list[nn.Parameter]]) -> Any:
    """Stack state of the shape of its parameter; other state is the same for all."""
    first = values[0][0]
    if key == "step" or not isinstance(first, torch.Tensor) or first.shape != rows[0][0].shape:
        return first
    return torch.stack([torch.cat([value.reshape(-1) for value in row]) for row in values])


def _part(value: Any, leaf: nn.Parameter, row: int, slot: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    if value.shape != leaf.shape:
        return value.clone()
    return value[row, slot.columns].view(slot.shape)
