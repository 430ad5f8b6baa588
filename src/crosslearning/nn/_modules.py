"""Modules of the tasks and the centre: copies whose tethered parameters are rows of matrices."""

import copy
from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import cache
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.utils.parametrizations import _SpectralNorm

from crosslearning.nn._blocks import ALL, Block, FlatBuffer, ShardBuffer, divide
from crosslearning.nn._ranks import Ranks

_WIDE = 1 << 20  # columns of all tasks that a rank has room for
_CHANGING = (_NormBase, _SpectralNorm)  # layers whose buffers change in training


def frozen_parameters(sources: list[nn.Module]) -> frozenset[str]:
    """Names of parameters of the first module that no module trains."""
    parameters = [pair for source in dict.fromkeys(sources) for pair in source.named_parameters()]
    trained = {name for name, parameter in parameters if parameter.requires_grad}
    first = [name for name, _ in sources[0].named_parameters()]
    frozen = frozenset(first) - trained
    if first and len(frozen) == len(first):
        raise ValueError(
            "`module` must have parameters to train; all are frozen. Use "
            "`module.requires_grad_(True)`, and freeze what the tasks share."
        )
    return frozen


def divide_parameters(
    sources: list[nn.Module],
    frozen: frozenset[str],
    labels: tuple[Hashable, ...],
    epsilon: Any,
    tether: Any,
) -> tuple[Block, ...]:
    """Divide what the first module trains into blocks, and check that all modules have it."""
    names = [name for name, _ in sources[0].named_parameters() if name not in frozen]
    blocks = divide(names, epsilon, tether, len(sources))
    tethered = [name for block in blocks for name in block.parameters]
    for source, label in zip(sources, labels, strict=True):
        if source is sources[0]:
            continue
        shapes, actual = _shapes(sources[0]), _shapes(source)
        for name in [*tethered, *actual] if blocks[0].name == ALL else tethered:
            if actual.get(name) != shapes.get(name):
                raise ValueError(
                    "Tethered parameters must have the same names and shapes in all tasks; "
                    f"{name!r} is {shapes.get(name, 'missing')} in task {labels[0]!r} and "
                    f"{actual.get(name, 'missing')} in task {label!r}. Tether only what the tasks "
                    "have in common, by prefix: epsilon={prefix: ...}."
                )
    return blocks


def _shapes(module: nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(parameter.shape) for name, parameter in module.named_parameters()}


def copy_modules(
    sources: list[nn.Module],
    frozen: frozenset[str],
    blocks: tuple[Block, ...],
    owners: list[str],
    ranks: Ranks,
    shard: Callable[..., Any] | None,
) -> tuple[list[nn.Module], list[FlatBuffer]]:
    """Copy the modules of the local tasks, and the first as the centre, into flat buffers."""
    flats: list[FlatBuffer] = []
    if shard is None:
        flats = [FlatBuffer(b.parameters, sources[0], owners, ranks.device) for b in blocks]
    elif ranks.mesh is None or ranks.data is None:
        raise ValueError("`shard` needs a `mesh` with a dimension 'data' to shard over.")
    modules, copier = [], _Copier(sources, frozen, ranks, sharded=shard is not None)
    for row, source in enumerate([*sources[ranks.local], sources[0]]):
        module = copier.copy(source)
        for flat in flats:  # at once: at most one copy is outside of them, or not yet sharded
            flat.adopt(row, module)
        if shard is not None and ranks.mesh is not None:
            shard(module, mesh=ranks.mesh["data"])
            copier.share_shards(source, module)
        modules.append(module)
    if shard is not None:
        flats = [ShardBuffer(b.parameters, modules, owners) for b in blocks]
    return modules, flats


class _Copier:
    """Copies modules; frozen parameters, and buffers that do not change, only once."""

    def __init__(
        self, sources: list[nn.Module], frozen: frozenset[str], ranks: Ranks, sharded: bool
    ) -> None:
        self._frozen, self._ranks, self._sharded = frozen, ranks, sharded
        self._constants = len(dict.fromkeys(sources)) == 1  # buffers of different modules change
        self._copies: dict[int, torch.Tensor] = {}  # by identity of the original
        self._shards: dict[int, torch.Tensor] = {}

    def copy(self, source: nn.Module) -> nn.Module:
        module = copy.deepcopy(source, dict(self._copies)).to(self._ranks.device)
        module.zero_grad(set_to_none=True)
        tensors, done = _tensors(module), set(map(id, self._copies.values()))
        self._ranks.broadcast([one for one in tensors.values() if id(one) not in done], "data")
        self._copies |= {id(one): tensors[name] for name, one in self._shareable(source)}
        return module

    def share_shards(self, source: nn.Module, module: nn.Module) -> None:
        """Let a sharded copy use the shards of frozen parameters that an earlier one has."""
        for name, original in source.named_parameters(remove_duplicate=False):
            if name in self._frozen:
                tensors, leaf = _place(module, name)
                tensors[leaf] = self._shards.setdefault(id(original), tensors[leaf])
        module.load_state_dict({}, strict=False)  # FSDP then adopts what was replaced

    def _shareable(self, source: nn.Module) -> list[tuple[str, torch.Tensor]]:
        parts = [part for part in source.modules() if not isinstance(part, _CHANGING)]
        constants = {id(one) for part in parts for one in part._buffers.values() if self._constants}
        frozen = () if self._sharded else self._frozen
        tensors = _tensors(source).items()
        return [(name, one) for name, one in tensors if name in frozen or id(one) in constants]


def _tensors(module: nn.Module) -> dict[str, torch.Tensor]:
    """Parameters and buffers, with all names of those that have several."""
    parameters = module.named_parameters(remove_duplicate=False)
    return dict(chain(parameters, module.named_buffers(remove_duplicate=False)))


def _place(module: nn.Module, name: str) -> tuple[dict[str, Any], str]:
    """Return the dictionary with the parameter or buffer of this name, and its key there."""
    path, _, leaf = name.rpartition(".")
    part: Any = module.get_submodule(path)
    return (part._parameters if leaf in part._parameters else part._buffers), leaf


@torch.no_grad()
def set_start(flats: list[FlatBuffer], center_init: str, same_start: bool, ranks: Ranks) -> None:
    """Set where tasks and centre start; the latter is a copy of the first module so far."""
    for flat in flats:
        flat.take()
        tasks, center = flat.flat[:-1], flat.flat[-1]
        if same_start:
            ranks.broadcast([center], "task")
            tasks.copy_(center)
        else:
            for some, mean in zip(tasks.split(_WIDE, 1), center.split(_WIDE), strict=True):
                mean.copy_(ranks.gather_rows(some).mean(dim=0))
        if center_init == "zero":
            center.zero_()
        flat.give()


class LinkedModules(nn.Module):
    """Keeps the parameters of the modules as views of the flat buffers."""

    center: nn.Module
    per_task: nn.ModuleList
    _links: "_Links | None"
    _contents: dict[str, int] | None  # of buffers that the centre shares with tasks

    def __init__(
        self, modules: list[nn.Module], flats: list[FlatBuffer], first: int, frozen: frozenset[str]
    ) -> None:
        super().__init__()
        self.per_task = LocalModules()
        for row, module in enumerate(modules[:-1], start=first):
            self.per_task.add_module(str(row), module)
        self.center = modules[-1].requires_grad_(False)
        self.flats, self._frozen = flats, frozen
        self.register_load_state_dict_pre_hook(_complete)

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, nn.Parameter]]:
        """Parameters of the tasks, without the centre, which takes no gradient steps."""
        hidden = f"{prefix}.center." if prefix else "center."
        for name, parameter in super().named_parameters(prefix, recurse, remove_duplicate):
            if not name.startswith(hidden):
                yield name, parameter

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """State of all modules; what they share is there once, as the centre's."""
        state = super().state_dict(*args, **kwargs)
        prefix = args[1] if len(args) > 1 else kwargs.get("prefix", "")
        for name in self._repeated():
            state.pop(prefix + name, None)
        return state

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """Load as torch does; the parameters are views of the flat buffers afterwards."""
        repeated = self._repeated() if assign else {}
        keys = super().load_state_dict(state_dict, strict=strict, assign=assign)
        for name, first in repeated.items():
            tensors, leaf = _place(self, name)
            originals, original = _place(self, first)
            tensors[leaf] = originals[original]
        self.link()
        return keys

    def _repeated(self) -> dict[str, str]:
        """Names in the state of tensors that have another name too, and that name."""
        state = super().state_dict(keep_vars=True)
        first: dict[int, str] = {}
        for name in sorted(state, key=lambda name: not name.startswith("center.")):
            first.setdefault(id(state[name]), name)
        return {
            name: first[id(one)]
            for name, one in state.items()
            if isinstance(one, torch.Tensor) and first[id(one)] != name
        }

    def rows(self) -> list[nn.Module]:
        return [*self.per_task, self.center]

    def link(self) -> None:
        """Restore the views of parameters that were replaced; refuse changes of what is shared."""
        if self._links is not None and self._links.hold():
            return
        with torch.no_grad():
            for flat in self.flats:
                for row, module in enumerate(self.rows()):
                    flat.adopt(row, module)
        self._refuse_changed_buffers()
        named = [pair for module in self.per_task for pair in module.named_parameters()]
        for name, parameter in named:
            if name in self._frozen and parameter.requires_grad:
                raise ValueError(
                    f"The parameter {name!r} was frozen when TaskModels was built, so it is in no "
                    "block and all tasks share it; it must stay frozen. Freeze it after building "
                    "TaskModels if you want to train it later."
                )
        self._links = _Links(self)

    def _refuse_changed_buffers(self) -> None:
        contents = {name: _fingerprint(one) for name, one in _shared_buffers(self).items()}
        expected = contents if self._contents is None else self._contents
        for name, content in contents.items():  # tasks may have replaced some by their own
            if content != expected[name]:
                raise ValueError(
                    f"The buffer {name!r} is one tensor in all tasks, and has been changed in "
                    "place. Give every task its own: TaskModels({task: copy.deepcopy(module) for "
                    "task in tasks}, ...)."
                )
        self._contents = expected

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Any:
        """Convert the matrices first, so that the modules' own conversion finds nothing to do."""
        shared = set(_shared_buffers(self).values())
        converted = cache(fn)

        def once(tensor: torch.Tensor) -> torch.Tensor:
            return converted(tensor) if tensor in shared else fn(tensor)

        self._forget()
        for flat in self.flats:
            flat.convert(fn, self.rows())
        super()._apply(once, recurse)
        self.link()
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_links": None, "_contents": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for flat in self.flats:
            flat.rebuild(self.rows())
        self._forget()

    def _forget(self) -> None:
        """Drop what was derived from the stored parameters."""
        self._links = self._contents = None

    def mark_changed(self) -> None:
        """Notify autograd, so that a backward pass through old values is an error."""
        self.link()
        assert self._links is not None
        torch.autograd.graph.increment_version(self._links.parameters)


def _complete(models: LinkedModules, state: dict[str, Any], prefix: str, *rest: Any) -> None:
    """Add the names of shared tensors to a state; refuse one in which they differ by task."""
    models._contents = None
    errors = rest[-1]
    for name, first in models._repeated().items():
        key, original = prefix + name, prefix + first
        if key not in state:
            tensors, leaf = _place(models, name)
            state[key] = tensors[leaf]  # itself, which is not copied
        elif original in state and not torch.equal(state[key], state[original]):
            errors.append(
                f"{key!r} and {original!r} differ in the state, but are one tensor here: the "
                "parameter is frozen. Build TaskModels from a module that trains it."
            )


class LocalModules(nn.ModuleList):
    """Modules of the tasks of this rank, named by their position among all tasks."""

    def __getitem__(self, index: Any) -> Any:
        return list(self._modules.values())[index]


def _shared_buffers(models: LinkedModules) -> dict[str, torch.Tensor]:
    of_tasks = {id(one) for module in models.per_task for one in module.buffers()}
    return {name: one for name, one in models.center.named_buffers() if id(one) in of_tasks}


def _fingerprint(tensor: torch.Tensor) -> int:
    if tensor.is_meta or tensor.layout is not torch.strided:
        return 0
    return hash(tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes())


class _Links:
    """Where parameters were at the last check, so that checking costs a comparison each."""

    def __init__(self, models: LinkedModules) -> None:
        self.parameters = [
            parameter
            for flat in models.flats
            if flat.slots  # shards are no views
            for module in models.rows()
            for parameter in flat.tethered(module)
        ]
        tethered = set(map(id, self.parameters))
        self._entries: list[tuple[dict[str, Any], str, Any]] = [
            (entries, name, one)
            for module in models.modules()
            for entries in (module._modules, module._parameters)
            for name, one in entries.items()
            if isinstance(one, nn.Module) or id(one) in tethered
        ]
        self._addresses = [parameter.data_ptr() for parameter in self.parameters]
        named = [pair for module in models.per_task for pair in module.named_parameters()]
        self._frozen = list({one: None for name, one in named if name in models._frozen})
        self._constants = list(_shared_buffers(models).values())
        self._versions = [one._version for one in self._constants]

    def hold(self) -> bool:
        return (
            all(entries.get(name) is one for entries, name, one in self._entries)
            and [parameter.data_ptr() for parameter in self.parameters] == self._addresses
            and not any(parameter.requires_grad for parameter in self._frozen)
            and [one._version for one in self._constants] == self._versions
        )


def average_buffers(modules: list[nn.Module], center: nn.Module, ranks: Ranks) -> None:
    """Set the centre's buffers to the mean of the tasks' (those of the first if not real)."""
    if all(one is None for part in center.modules() for one in part._buffers.values()):
        return  # as quickly as can be
    targets = dict(center.named_buffers())
    sources = [dict(module.named_buffers()) for module in modules]
    flags = [
        (
            any(source.get(name) is not target for source in sources),
            any(name not in source or source[name].shape != target.shape for source in sources),
        )
        for name, target in targets.items()
    ]
    differs, odd = ranks.sum(np.array(flags, dtype=np.float64).T, "task", "data")
    for (name, target), averaged in zip(targets.items(), (differs > 0) & (odd == 0), strict=True):
        if averaged:
            buffers = [source[name] for source in sources]
            ranks.broadcast(buffers, "data")
            values = ranks.gather_rows(torch.stack(buffers).to(target.dtype))
            target.copy_(values.mean(dim=0) if target.is_floating_point() else values[0])
