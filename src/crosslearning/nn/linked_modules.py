"""Modules of the tasks and the centre, whose tethered parameters are rows of flat buffers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from crosslearning.nn.buffer import FlatBuffer

__all__ = ["LinkedModules"]


class LinkedModules(nn.Module):
    """Keeps parameters and flat buffers one and the same, whatever is done to the modules.

    Parameters
    ----------
    modules : list of Module
        One per task, and the centre last, whose parameters take no gradient steps.
    flats : list of FlatBuffer
        Buffers into which the tethered parameters are views.
    """

    center: nn.Module
    per_task: nn.ModuleList

    def __init__(self, modules: list[nn.Module], flats: list[FlatBuffer]) -> None:
        super().__init__()
        self.per_task = nn.ModuleList(modules[:-1])
        self.center = modules[-1].requires_grad_(False)
        self._flats = flats

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, nn.Parameter]]:
        """Parameters of the tasks; those of the centre take no gradient steps and are left out."""
        hidden = f"{prefix}.center." if prefix else "center."
        for name, parameter in super().named_parameters(prefix, recurse, remove_duplicate):
            if not name.startswith(hidden):
                yield name, parameter

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """Load parameters, buffers and pulls of the same tasks, as torch does.

        Whatever `assign` is, the parameters are views of the flat buffers afterwards.
        """
        keys = super().load_state_dict(state_dict, strict=strict, assign=assign)
        self._link()
        return keys

    def _rows(self) -> list[nn.Module]:
        """Return the modules in the order of the rows."""
        return [*self.per_task, self.center]

    def _link(self) -> None:
        """Make views again of parameters that somebody replaced."""
        with torch.no_grad():
            for flat in self._flats:
                for row, module in enumerate(self._rows()):
                    flat.adopt(row, module)

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Any:
        """Convert the buffers first, so that the modules' own conversion finds nothing to do."""
        for flat in self._flats:
            flat.convert(fn, self._rows())
        super()._apply(fn, recurse)
        self._link()
        return self

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for flat in self._flats:
            flat.rebuild(self._rows())

    def _mark_changed(self) -> None:
        """Tell autograd, so that a backward pass through old values is refused, not wrong."""
        for flat in self._flats:
            for row, module in enumerate(self._rows()):
                torch.autograd.graph.increment_version(flat.parameters(row, module))
