"""Blocks of parameters: their names and tether, and the matrix that stores them for all tasks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import nn

from crosslearning.coupling._checks import check_tether, is_positive
from crosslearning.tether import Tether

ALL = "all"  # name of the block that holds every parameter
OTHERS = "*"  # in place of a prefix: parameters that none matches


@dataclass(frozen=True)
class Block:
    """Parameters that share one tether; its name is the prefix it was given by, or "all"."""

    name: str
    tether: Tether
    parameters: tuple[str, ...]

    def scaled(self, step_size: float | None) -> Tether:
        """Tether for a step; a bound alone needs no step size."""
        if step_size is not None and not is_positive(step_size):
            raise ValueError(f"`step_size` must be a positive finite number; got {step_size!r}.")
        if self.tether.is_ball:
            return self.tether
        if step_size is None:
            raise ValueError(
                f"The tether of block {self.name!r} has a spring or a tension, which scale "
                "with the step. Use project(step_size=lr) with the learning rate."
            )
        return self.tether.scaled(step_size=step_size)


def divide(names: Sequence[str], epsilon: Any, tether: Any, n_tasks: int) -> tuple[Block, ...]:
    """Divide parameters into blocks; names that no prefix matches are in none."""
    if (epsilon is None) == (tether is None):
        raise ValueError(
            "Pass either `epsilon` or `tether`; got "
            f"{'neither' if epsilon is None else 'both'}. Use epsilon=0.01 for a hard bound, "
            "tether=Tether(...) for a spring or a tension as well."
        )
    radii = tether if epsilon is None else epsilon

    def checked(value: Any) -> Tether:
        return check_tether(value if epsilon is None else Tether(value), n_tasks)

    if not isinstance(radii, Mapping):
        return (Block(ALL, checked(radii), tuple(names)),)
    named = _by_prefix(list(radii), names)
    return tuple(Block(one, checked(value), tuple(named[one])) for one, value in radii.items())


def _by_prefix(prefixes: list[str], names: Sequence[str]) -> dict[str, list[str]]:
    if not prefixes:
        raise ValueError("Got an empty mapping of prefixes: no parameter would be tethered.")
    named: dict[str, list[str]] = {prefix: [] for prefix in prefixes}
    for name in names:
        matches = [prefix for prefix in prefixes if f"{name}.".startswith(f"{prefix}.")]
        if len(matches) > 1:
            raise ValueError(
                f"A parameter belongs to one block; {name!r} matches the prefixes "
                f"{matches[0]!r} and {matches[1]!r}. Use prefixes that do not overlap."
            )
        named.get(matches[0] if matches else OTHERS, []).append(name)
    if unused := [prefix for prefix, matches in named.items() if not matches]:
        if unused[0] == OTHERS:
            raise ValueError(f"The prefixes match all trained parameters; leave out {OTHERS!r}.")
        beginnings = ", ".join(dict.fromkeys(repr(name.split(".")[0]) for name in names))
        raise ValueError(
            f"The prefix {unused[0]!r} matches no parameter that is trained. The names of those "
            f"begin with {beginnings}."
        )
    return named


class Slot(NamedTuple):
    """The position of a parameter in a row."""

    name: str
    shape: torch.Size
    columns: slice


class FlatBuffer:
    """Matrix of a block with a row per task, then the centre; parameters are views into it."""

    def __init__(
        self,
        names: Sequence[str],
        like: nn.Module,
        owners: Sequence[str],
        device: torch.device | None,
    ) -> None:
        self.owners = tuple(owners)  # of the rows, in messages
        self.slots = _layout(names, like)
        first = self.tethered(like)[0]
        size, device = (len(owners), self.slots[-1].columns.stop), device or first.device
        self.flat: torch.Tensor = torch.empty(size, dtype=first.dtype, device=device)

    @property
    def tasks(self) -> torch.Tensor:
        return self.flat[:-1]

    def stacked(self, rows: torch.Tensor) -> dict[str, torch.Tensor]:
        """View rows of such a matrix as parameters with an axis for the tasks in front."""
        return {s.name: rows[:, s.columns].unflatten(1, s.shape) for s in self.slots}

    def tethered(self, module: nn.Module) -> list[nn.Parameter]:
        return [module.get_parameter(slot.name) for slot in self.slots]

    def take(self) -> None:
        """Fetch the parameters, unless they are here as views."""

    def give(self) -> None:
        """Hand them back."""

    def adopt(self, row: int, module: nn.Module) -> None:
        """Bring the parameters of a module into its row, unless they are there already."""
        for slot, parameter, linked in self._links(row, module):
            if linked:
                continue
            actual = tuple(parameter.shape), parameter.dtype, parameter.device
            expected = tuple(slot.shape), self.flat.dtype, self.flat.device
            if actual != expected:
                raise ValueError(
                    f"{slot.name!r} of {self.owners[row]} must have shape, dtype and device "
                    f"{expected}; got {actual}. Convert all modules at once with `models.to(...)`; "
                    "do not tether parameters that differ between tasks: epsilon={prefix: ...}."
                )
            view = self._view(row, slot)
            view.copy_(parameter.detach())
            parameter.data = view

    def convert(self, fn: Callable[[torch.Tensor], torch.Tensor], modules: list[nn.Module]) -> None:
        """Move to another dtype or device, along with the parameters that are views."""
        links = [self._links(row, module) for row, module in enumerate(modules)]
        self.flat = fn(self.flat)
        for row, parameters in enumerate(links):
            for slot, parameter, linked in parameters:
                if linked:
                    parameter.data = self._view(row, slot)

    def __getstate__(self) -> dict[str, Any]:
        """Omit the matrix: the modules are copied or pickled anyway."""
        return {**self.__dict__, "flat": torch.empty_like(self.flat, device="meta")}

    def rebuild(self, modules: list[nn.Module]) -> None:
        """Reallocate the matrix for copied or unpickled modules."""
        self.flat = torch.empty_like(self.flat, device=self.tethered(modules[0])[0].device)
        for row, module in enumerate(modules):
            self.adopt(row, module)

    def _view(self, row: int, slot: Slot) -> torch.Tensor:
        return self.flat[row, slot.columns].view(slot.shape)

    def _links(self, row: int, module: nn.Module) -> list[tuple[Slot, nn.Parameter, bool]]:
        """Return the slots with their parameters, and whether those are views of them."""
        base, size = self.flat[row].data_ptr(), self.flat.element_size()
        try:
            parameters = self.tethered(module)
        except AttributeError as error:
            raise ValueError(
                f"The module of {self.owners[row]} has lost a tethered parameter: {error}. "
                "Do not tether parameters that come and go."
            ) from None
        return [
            (slot, parameter, parameter.data_ptr() == base + slot.columns.start * size)
            for slot, parameter in zip(self.slots, parameters, strict=True)
        ]


def _layout(names: Sequence[str], like: nn.Module) -> tuple[Slot, ...]:
    slots: list[Slot] = []
    kinds, start = {}, 0
    for name in names:
        parameter = like.get_parameter(name)
        if isinstance(parameter, nn.UninitializedParameter):
            raise ValueError(
                f"The parameter {name!r} has no shape yet. Pass one batch through the module "
                "before passing it to TaskModels."
            )
        if not parameter.dtype.is_floating_point:
            raise ValueError(
                f"A tethered parameter must be real; {name!r} has dtype {parameter.dtype}. "
                "Do not tether it: epsilon={prefix: ...}."
            )
        kinds[parameter.dtype, parameter.device] = name
        if size := parameter.numel():
            slots.append(Slot(name, parameter.shape, slice(start, start + size)))
            start += size
    if len(kinds) != 1 or not slots:
        listed = ", ".join(f"{kind} in {name!r}" for kind, name in kinds.items())
        raise ValueError(
            "The parameters of a block must not be empty and must have one dtype and device; got "
            f"{listed or 'no parameters'}. Convert the module, or use separate blocks."
        )
    return tuple(slots)


class ShardBuffer(FlatBuffer):
    """Matrix of the local shards of a block whose parameters FSDP2 shards.

    FSDP manages their memory: the matrix is a copy, taken before a projection and copied back.
    """

    def __init__(
        self, names: Sequence[str], modules: list[nn.Module], owners: Sequence[str]
    ) -> None:
        self.owners, self.slots = tuple(owners), ()
        self._names, self._modules = tuple(names), modules
        for name in names:
            placements = getattr(modules[0].get_parameter(name), "placements", ())  # of a DTensor
            if not (placements and placements[0].is_shard()):
                raise ValueError(
                    f"`shard` must shard every tethered parameter; {name!r} is not sharded. "
                    "Use shard=fully_shard, or do not tether it: epsilon={prefix: ...}."
                )
        shards = self._shards(modules[0])
        self.flat = shards[0].new_empty((len(owners), sum(shard.numel() for shard in shards)))

    def take(self) -> None:
        for row, shards in zip(self.flat, map(self._shards, self._modules), strict=True):
            torch.cat([shard.reshape(-1) for shard in shards], out=row)

    def give(self) -> None:
        for row, shards in zip(self.flat, map(self._shards, self._modules), strict=True):
            for shard, part in zip(shards, row.split([s.numel() for s in shards]), strict=True):
                shard.copy_(part.view(shard.shape))

    def adopt(self, *_: Any) -> None:
        """Leave the parameters where they are."""

    def convert(self, *_: Any) -> None:
        raise ValueError(
            "Sharded models cannot be converted. Convert the module before passing it to "
            "TaskModels."
        )

    def tethered(self, module: nn.Module) -> list[nn.Parameter]:
        for part in module.modules():  # a forward pass may have left parameters gathered
            if callable(reshard := getattr(part, "reshard", None)):
                reshard()
        return [module.get_parameter(name) for name in self._names]

    def _shards(self, module: nn.Module) -> list[torch.Tensor]:
        """Shards that this rank holds, in FSDP's memory."""
        parameters: list[Any] = self.tethered(module)
        return [parameter.detach().to_local() for parameter in parameters]
