"""One flat buffer for a block of parameters: a row per task, the last row the centre.

Every parameter of the modules is a view into its row, so that a projection is a pass over one
matrix, and modules and optimizers see its result without a copy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from crosslearning.nn._workspace import Workspace, chunk_width


@dataclass(frozen=True)
class Slot:
    """The position of a parameter in a row."""

    name: str
    shape: torch.Size
    start: int

    @property
    def stop(self) -> int:
        return self.start + math.prod(self.shape)


class FlatBuffer:
    """Matrix of shape (n_tasks + 1, n_parameters) with the parameters of a block as views."""

    def __init__(
        self,
        names: Sequence[str],
        like: nn.Module,
        owners: Sequence[str],
        n_tasks: int,
        device: torch.device | None,
    ) -> None:
        self.owners, self._n_tasks = tuple(owners), n_tasks  # of all ranks
        self.slots = _layout(names, like)
        first = like.get_parameter(self.slots[0].name)
        self.flat: torch.Tensor = torch.empty(
            (len(owners), self.slots[-1].stop), dtype=first.dtype, device=device or first.device
        )
        self.frozen: dict[str, int] = {}
        self._workspace: Workspace | None = None

    @property
    def tasks(self) -> torch.Tensor:
        return self.flat[:-1]

    @property
    def center(self) -> torch.Tensor:
        return self.flat[-1]

    @property
    def workspace(self) -> Workspace:
        """Workspace for passes over parameters that are not frozen, allocated on first use."""
        if self._workspace is None or self._workspace.flat is not self.flat:
            wide = chunk_width(self._n_tasks, self.flat.shape[1])
            self._workspace = Workspace(self.flat, wide, self.moving)
        return self._workspace

    @property
    def sizes(self) -> dict[str, int]:
        """Number of columns of each parameter, in their order."""
        return {slot.name: slot.stop - slot.start for slot in self.slots}

    @property
    def moving(self) -> list[slice]:
        """Ranges of columns between parameters that are frozen in all tasks."""
        cuts, start, stop, all_tasks = [], 0, 0, len(self.owners) - 1
        for name, size in self.sizes.items():
            stop += size
            if self.frozen.get(name) == all_tasks:
                cuts.append(slice(start, stop - size))
                start = stop
        cuts.append(slice(start, self.flat.shape[1]))
        return [cut for cut in cuts if cut.start < cut.stop]

    def count_frozen(self, modules: Sequence[nn.Module]) -> None:
        """Count the tasks in which each parameter is frozen."""
        columns = zip(*map(self.tethered, modules), strict=True)
        counts = [sum(not one.requires_grad for one in column) for column in columns]
        frozen = dict(zip(self.sizes, counts, strict=True))
        if frozen != self.frozen:
            self.frozen, self._workspace = frozen, None

    def tethered(self, module: nn.Module) -> list[nn.Parameter]:
        """Parameters of the block in a module."""
        return [module.get_parameter(name) for name in self.sizes]

    def take(self) -> None:
        """Nothing to fetch: the parameters are here."""

    def give(self) -> None:
        """Nothing to hand back: the parameters are views."""

    def adopt(self, row: int, module: nn.Module) -> None:
        """Bring the parameters of a module into its row, unless they are there already."""
        for slot, parameter, linked in self._links(row, module):
            if not linked:
                self._refuse_changed(row, slot, parameter)
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
        shape_only = torch.empty_like(self.flat, device="meta")
        return {**self.__dict__, "flat": shape_only, "_workspace": None}

    def rebuild(self, modules: list[nn.Module]) -> None:
        """Reallocate the matrix for copied or unpickled modules."""
        device = modules[0].get_parameter(self.slots[0].name).device
        self.flat = torch.empty_like(self.flat, device=device)
        for row, module in enumerate(modules):
            self.adopt(row, module)

    def _view(self, row: int, slot: Slot) -> torch.Tensor:
        return self.flat[row, slot.start : slot.stop].view(slot.shape)

    def _links(self, row: int, module: nn.Module) -> list[tuple[Slot, nn.Parameter, bool]]:
        """Return the slots with their parameters, and whether those are views of them."""
        base, size = self.flat[row].data_ptr(), self.flat.element_size()
        try:
            parameters = [module.get_parameter(slot.name) for slot in self.slots]
        except AttributeError as error:
            raise ValueError(
                f"The module of {self.owners[row]} has lost a tethered parameter: {error}. "
                "Do not tether parameters that come and go."
            ) from None
        return [
            (slot, parameter, parameter.data_ptr() == base + slot.start * size)
            for slot, parameter in zip(self.slots, parameters, strict=True)
        ]

    def _refuse_changed(self, row: int, slot: Slot, parameter: nn.Parameter) -> None:
        actual = tuple(parameter.shape), parameter.dtype, parameter.device
        expected = tuple(slot.shape), self.flat.dtype, self.flat.device
        if actual != expected:
            raise ValueError(
                f"{slot.name!r} of {self.owners[row]} must have shape, dtype and device "
                f"{expected}; got {actual}. Convert all modules at once with `models.to(...)`; "
                "do not tether parameters that differ between tasks: epsilon={prefix: ...}."
            )


def _layout(names: Sequence[str], like: nn.Module) -> tuple[Slot, ...]:
    slots: list[Slot] = []
    kinds = {}
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
        if parameter.numel():
            slots.append(Slot(name, parameter.shape, slots[-1].stop if slots else 0))
    if len(kinds) != 1 or not slots:
        listed = ", ".join(f"{kind} in {name!r}" for kind, name in kinds.items())
        raise ValueError(
            "The parameters of a block must not be empty and must have one dtype and device; got "
            f"{listed or 'no parameters'}. Convert the module, or use separate blocks."
        )
    return tuple(slots)
