"""Copies of a module for tasks and centre; what is frozen is copied once."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.utils.parametrizations import _SpectralNorm

from crosslearning.nn._blocks import ALL, Block, divide
from crosslearning.nn._flat_buffer import FlatBuffer
from crosslearning.nn._linked_modules import place
from crosslearning.nn._ranks import Ranks

_WIDE = 1 << 20  # columns of all tasks that a rank has room for
_CHANGING = (_NormBase, _SpectralNorm)  # layers whose buffers change in training


def check_labels(tasks: Iterable[Hashable] | None, module: Any) -> tuple[Hashable, ...]:
    """Return distinct labels: those given, or the keys of a mapping of modules."""
    keys = tuple(module) if isinstance(module, Mapping) else None
    labels = keys if tasks is None else tasks
    if labels is None:
        raise ValueError(
            "`tasks` must name the tasks; got None. Use tasks=['a', 'b'] with one module for all, "
            "or pass a mapping from task to module."
        )
    if isinstance(labels, (str, bytes)):
        raise ValueError(f"`tasks` must hold one label per task; got the single label {labels!r}.")
    labels = tuple(label.item() if isinstance(label, np.generic) else label for label in labels)
    try:
        distinct = set(labels)
    except TypeError:
        raise ValueError(
            f"`tasks` must be hashable labels such as strings or numbers; got {labels!r}."
        ) from None
    if not labels or len(distinct) < len(labels):
        raise ValueError(
            f"`tasks` must hold at least one label and no duplicates; got {list(labels)!r}."
        )
    if keys is not None and (odd := sorted(map(repr, distinct ^ set(keys)))):
        raise ValueError(
            f"`tasks` must be the keys of the mapping of modules; {', '.join(odd)} is in only "
            "one of them. Omit `tasks` to use the keys."
        )
    return labels


def sources_of(module: Any, labels: tuple[Hashable, ...], ranks: Ranks) -> list[nn.Module]:
    """Return the module to copy for each task; a single one is that of the first rank."""
    if ranks.mesh is not None and isinstance(module, nn.Module):
        module = copy.deepcopy(module).to(ranks.device)
        ranks.broadcast([*module.parameters(), *module.buffers()], "task", "data")
    modules = module if isinstance(module, Mapping) else dict.fromkeys(labels, module)
    for one in modules.values():
        if not isinstance(one, nn.Module):
            raise ValueError(
                "`module` must be a torch.nn.Module, or a mapping from task to one; got "
                f"{type(one).__name__}."
            )
    return [modules[label] for label in labels]


def frozen_parameters(sources: list[nn.Module]) -> frozenset[str]:
    """Names of parameters of the first module that no module trains."""
    first, *others = (
        {name: parameter.requires_grad for name, parameter in source.named_parameters()}
        for source in dict.fromkeys(sources)
    )
    frozen = frozenset(
        name
        for name, trained in first.items()
        if not (trained or any(other.get(name) for other in others))
    )
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
    for source, label in zip(sources[1:], labels[1:], strict=True):
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
    labels: tuple[Hashable, ...],
    ranks: Ranks,
    shard: Callable[..., Any] | None,
) -> tuple[list[nn.Module], list[FlatBuffer]]:
    """Copy the modules of the local tasks, and the first as the centre, into flat buffers."""
    owners = [*(f"task {label!r}" for label in labels[ranks.local]), "the centre"]
    flats: list[FlatBuffer] = []
    if shard is None:
        like, size, device = sources[0], len(labels), ranks.device
        flats = [FlatBuffer(b.parameters, like, owners, size, device) for b in blocks]
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
        from crosslearning.nn._shard_buffer import ShardBuffer

        flats = [ShardBuffer(b.parameters, modules, owners, len(labels)) for b in blocks]
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
                tensors, leaf = place(module, name)
                tensors[leaf] = self._shards.setdefault(id(original), tensors[leaf])
        module.load_state_dict({}, strict=False)  # FSDP then adopts what was replaced

    def _shareable(self, source: nn.Module) -> list[tuple[str, torch.Tensor]]:
        parts = [part for part in source.modules() if not isinstance(part, _CHANGING)]
        constants = {id(one) for part in parts for one in part._buffers.values() if self._constants}
        frozen = () if self._sharded else self._frozen
        return [
            (name, one)
            for name, one in _tensors(source).items()
            if name in frozen or id(one) in constants
        ]


def _tensors(module: nn.Module) -> dict[str, torch.Tensor]:
    """Parameters and buffers, with all names of those that have several."""
    parameters = module.named_parameters(remove_duplicate=False)
    return dict(chain(parameters, module.named_buffers(remove_duplicate=False)))


def set_start(
    flats: list[FlatBuffer],
    modules: Sequence[nn.Module],
    center_init: str,
    same_start: bool,
    center_weight: float,
    ranks: Ranks,
) -> None:
    """Set where tasks and centre start; the latter is a copy of the first module so far."""
    if center_init not in ("mean", "zero"):
        raise ValueError(f"`center_init` must be 'mean' or 'zero'; got {center_init!r}.")
    if center_init == "zero" and center_weight == 0:
        raise ValueError(
            "A free centre has no initial value; got center_init='zero' with center_weight=0. "
            "Use center_init='mean'."
        )
    with torch.no_grad():
        for flat in flats:
            flat.take()
            tasks = flat.flat[:-1]
            if same_start:
                ranks.broadcast([flat.center], "task")
                tasks.copy_(flat.center)
            else:
                for some, center in zip(
                    tasks.split(_WIDE, 1), flat.center.split(_WIDE), strict=True
                ):
                    center.copy_(ranks.gather_rows(some).mean(dim=0))
            flat.count_frozen(modules)
            for columns in flat.moving if center_init == "zero" else ():
                flat.center[columns].zero_()
            flat.give()


def average_buffers(modules: list[nn.Module], center: nn.Module, ranks: Ranks) -> None:
    """Set the centre's buffers to the mean of the tasks' (those of the first if not real)."""
    targets = dict(center.named_buffers())
    if not targets:
        return
    sources = [dict(module.named_buffers()) for module in modules]
    flags = [
        (
            any(source.get(name) is not target for source in sources),
            any(name not in source or source[name].shape != target.shape for source in sources),
        )
        for name, target in targets.items()
    ]
    differs, odd = ranks.sum(np.array(flags, dtype=np.float64).T, "task", "data")
    by_dtype: dict[torch.dtype, list[str]] = {}
    for (name, target), averaged in zip(targets.items(), (differs > 0) & (odd == 0), strict=True):
        if averaged:
            by_dtype.setdefault(target.dtype, []).append(name)
    averages = [name for names in by_dtype.values() for name in names]
    ranks.broadcast([source[name] for source in sources for name in averages], "data")
    for dtype, names in by_dtype.items():
        rows = [torch.cat([source[name].reshape(-1) for name in names]) for source in sources]
        values = ranks.gather_rows(torch.stack(rows).to(dtype))
        new = values.mean(dim=0) if dtype.is_floating_point else values[0]
        for name, part in zip(names, new.split([targets[n].numel() for n in names]), strict=True):
            targets[name].copy_(part.view(targets[name].shape))
