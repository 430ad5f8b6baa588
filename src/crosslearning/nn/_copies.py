"""Copies of a module for tasks and centre, their tethered parameters divided into blocks."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from crosslearning.coupling._checks import check_tether
from crosslearning.nn._flat_buffer import FlatBuffer
from crosslearning.nn._rank_members import Columns
from crosslearning.nn._ranks import Ranks
from crosslearning.tether import Tether

ALL = "all"  # name of the block that holds every parameter
OTHERS = "*"  # in place of a prefix: parameters that none matches


@dataclass(frozen=True)
class Block:
    """Parameters that share one tether; its name is the prefix it was given by, or "all"."""

    name: str
    tether: Tether
    parameters: tuple[str, ...]


def divide(names: Sequence[str], epsilon: Any, tether: Any, n_tasks: int) -> tuple[Block, ...]:
    """Divide parameters into blocks; names that no prefix matches are in none."""
    if (epsilon is None) == (tether is None):
        raise ValueError(
            "Pass either `epsilon` or `tether`; got "
            f"{'neither' if epsilon is None else 'both'}. Use epsilon=0.01 for a hard bound, "
            "tether=Tether(...) for a spring or a tension as well."
        )
    given = tether if epsilon is None else epsilon

    def checked(value: Any) -> Tether:
        return check_tether(value if epsilon is None else Tether(value), n_tasks)

    if not isinstance(given, Mapping):
        return (Block(ALL, checked(given), tuple(names)),)
    if not given:
        raise ValueError("Got an empty mapping of prefixes: no parameter would be tethered.")
    named = {prefix: _matching(prefix, names) for prefix in given if prefix != OTHERS}
    if OTHERS in given:
        taken = {name for found in named.values() for name in found}
        named[OTHERS] = tuple(name for name in names if name not in taken)
        if not named[OTHERS]:
            raise ValueError(f"The prefixes match all parameters; leave out {OTHERS!r}.")
    blocks = tuple(Block(prefix, checked(value), named[prefix]) for prefix, value in given.items())
    _refuse_overlaps(blocks)
    return blocks


def _matching(prefix: str, names: Sequence[str]) -> tuple[str, ...]:
    found = tuple(name for name in names if name == prefix or name.startswith(f"{prefix}."))
    if not found:
        beginnings = ", ".join(dict.fromkeys(repr(name.split(".")[0]) for name in names))
        raise ValueError(
            f"The prefix {prefix!r} matches no parameter. The names begin with {beginnings}."
        )
    return found


def _refuse_overlaps(blocks: tuple[Block, ...]) -> None:
    owner: dict[str, str] = {}
    for block in blocks:
        for name in block.parameters:
            if name in owner:
                raise ValueError(
                    f"A parameter belongs to one block; {name!r} matches the prefixes "
                    f"{owner[name]!r} and {block.name!r}. Use prefixes that do not overlap."
                )
            owner[name] = block.name


def sources_of(module: Any, labels: tuple[Hashable, ...], ranks: Ranks) -> list[nn.Module]:
    """Return the module to copy for each task; a single one is that of the first rank."""
    if ranks.mesh is not None and isinstance(module, nn.Module):
        module = copy.deepcopy(module).to(ranks.device)
        ranks.start_alike([*module.parameters(), *module.buffers()])
    given = module if isinstance(module, Mapping) else dict.fromkeys(labels, module)
    for one in given.values():
        if not isinstance(one, nn.Module):
            raise ValueError(
                "`module` must be a torch.nn.Module, or a mapping from task to one; got "
                f"{type(one).__name__}."
            )
    return [given[label] for label in labels]


def divide_parameters(
    sources: list[nn.Module], labels: tuple[Hashable, ...], epsilon: Any, tether: Any
) -> tuple[Block, ...]:
    """Divide the first module's parameters into blocks, and check that all modules have them."""
    names = [name for name, _ in sources[0].named_parameters()]
    blocks = divide(names, epsilon, tether, len(sources))
    tethered = [name for block in blocks for name in block.parameters]
    for source, label in zip(sources[1:], labels[1:], strict=True):
        if source is sources[0]:
            continue
        shapes, found = _shapes(sources[0]), _shapes(source)
        for name in [*tethered, *found] if blocks[0].name == ALL else tethered:
            if found.get(name) != shapes.get(name):
                raise ValueError(
                    "Tethered parameters must have the same names and shapes in all tasks; "
                    f"{name!r} is {shapes.get(name, 'missing')} in task {labels[0]!r} and "
                    f"{found.get(name, 'missing')} in task {label!r}. Tether only what the tasks "
                    "have in common, by prefix: epsilon={prefix: ...}."
                )
    return blocks


def _shapes(module: nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(parameter.shape) for name, parameter in module.named_parameters()}


def copy_modules(
    sources: list[nn.Module], blocks: tuple[Block, ...], labels: tuple[Hashable, ...], ranks: Ranks
) -> tuple[list[nn.Module], list[FlatBuffer]]:
    """Copy the modules of the local tasks, and the first as the centre, into flat buffers."""
    buffers = [
        FlatBuffer(block.parameters, sources[0], _owners(labels, ranks), len(labels), ranks.device)
        for block in blocks
    ]
    modules = []
    for row, module in enumerate(_local_copies(sources, ranks)):
        for buffer in buffers:  # one after the other: at most one copy is outside of them
            buffer.adopt(row, module)
        modules.append(module)
    return modules, buffers


def shard_modules(
    sources: list[nn.Module],
    blocks: tuple[Block, ...],
    labels: tuple[Hashable, ...],
    ranks: Ranks,
    shard: Callable[..., Any],
) -> tuple[list[nn.Module], list[FlatBuffer]]:
    """Copy the modules of the local tasks, and the first as the centre, and shard them."""
    if ranks.mesh is None or ranks.data is None:
        raise ValueError("`shard` needs a `mesh` with a dimension 'data' to shard over.")
    from crosslearning.nn._shard_buffer import ShardBuffer

    modules = []
    for module in _local_copies(sources, ranks):  # one after the other: at most one is whole
        shard(module, mesh=ranks.mesh["data"])
        modules.append(module)
    owners = _owners(labels, ranks)
    return modules, [ShardBuffer(b.parameters, modules, owners, len(labels)) for b in blocks]


def _owners(labels: tuple[Hashable, ...], ranks: Ranks) -> list[str]:
    return [*(f"task {label!r}" for label in labels[ranks.local]), "the centre"]


def _local_copies(sources: list[nn.Module], ranks: Ranks) -> Iterator[nn.Module]:
    for source in [*sources[ranks.local], sources[0]]:
        module = copy.deepcopy(source).to(ranks.device)
        module.zero_grad(set_to_none=True)
        ranks.copy_first([*module.parameters(), *module.buffers()])
        yield module


def set_start(flat: FlatBuffer, center_init: str, same_start: bool, ranks: Ranks) -> None:
    """Set where tasks and centre start; the latter is a copy of the first module so far."""
    with torch.no_grad():
        flat.take()
        tasks = flat.flat[:-1]
        if same_start:
            ranks.from_first_task([flat.center])
            tasks.copy_(flat.center)
        if center_init == "zero":
            flat.center.zero_()
        elif not same_start:
            alone = ranks.size == 1
            flat.center.copy_(tasks.mean(dim=0) if alone else Columns(flat.workspace, ranks).mean())
        flat.give()


def average_buffers(modules: list[nn.Module], center: nn.Module, ranks: Ranks) -> None:
    """Set the centre's buffers to the mean of the tasks' (those of the first if not real)."""
    targets = dict(center.named_buffers())
    if not targets:
        return
    sources = [dict(module.named_buffers()) for module in modules]
    ranks.copy_first([value for source in sources for value in source.values()])
    if ranks.size > 1:
        sources = _buffers_of_all(sources, targets, ranks)
    for name, target in targets.items():
        values = [source[name] for source in sources if name in source]
        if len(values) < len(sources) or any(value.shape != target.shape for value in values):
            continue
        if target.dtype.is_floating_point:
            target.copy_(torch.stack(values).mean(dim=0))
        else:
            target.copy_(values[0])


def _buffers_of_all(
    sources: list[dict[str, torch.Tensor]], targets: dict[str, torch.Tensor], ranks: Ranks
) -> list[dict[str, torch.Tensor]]:
    """Buffers of the tasks of all ranks that are like the centre's, which all ranks have."""
    rows = []
    for source in sources:
        has = [n in source and source[n].shape == one.shape for n, one in targets.items()]
        given = [source[n] if h else one for h, (n, one) in zip(has, targets.items(), strict=True)]
        flags = torch.tensor(has, dtype=torch.float64, device=ranks.device)
        rows.append(torch.cat([*(one.reshape(-1).double() for one in given), flags]))
    found = ranks.gather_rows(torch.stack(rows))
    sizes = [one.numel() for one in targets.values()]
    values, flags = found.split([sum(sizes), len(sizes)], dim=1)
    return [
        {
            name: part.view(one.shape).to(one.dtype)
            for (name, one), part, has in zip(targets.items(), row.split(sizes), own, strict=True)
            if has
        }
        for row, own in zip(values, flags.tolist(), strict=True)
    ]
