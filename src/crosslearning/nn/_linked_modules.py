"""Modules of the tasks and the centre, whose tethered parameters are rows of flat buffers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import nn

from crosslearning.nn._flat_buffer import FlatBuffer


class LinkedModules(nn.Module):
    """Keeps the parameters of the modules as views of the flat buffers."""

    center: nn.Module
    per_task: nn.ModuleList

    def __init__(self, modules: list[nn.Module], flats: list[FlatBuffer], first: int) -> None:
        super().__init__()
        self.per_task = LocalModules(modules[:-1], first)
        self.center = modules[-1].requires_grad_(False)
        self._flats = flats
        self._links: _Links | None = None

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, nn.Parameter]]:
        """Parameters of the tasks, without the centre, which takes no gradient steps."""
        hidden = f"{prefix}.center." if prefix else "center."
        for name, parameter in super().named_parameters(prefix, recurse, remove_duplicate):
            if not name.startswith(hidden):
                yield name, parameter

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """Load as torch does; the parameters are views of the flat buffers afterwards."""
        keys = super().load_state_dict(state_dict, strict=strict, assign=assign)
        self._link()
        return keys

    def _rows(self) -> list[nn.Module]:
        return [*self.per_task, self.center]

    def _link(self) -> None:
        """Restore the views of parameters that were replaced, and see which are frozen."""
        if self._links is not None and self._links.hold():
            return
        with torch.no_grad():
            for flat in self._flats:
                for row, module in enumerate(self._rows()):
                    flat.adopt(row, module)
                flat.count_frozen(list(self.per_task))
        self._links = _Links(self)

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Any:
        """Convert the buffers first, so that the modules' own conversion finds nothing to do."""
        self._links = None
        for flat in self._flats:
            flat.convert(fn, self._rows())
        super()._apply(fn, recurse)
        self._link()
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_links": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for flat in self._flats:
            flat.rebuild(self._rows())

    def _mark_changed(self) -> None:
        """Notify autograd, so that a backward pass through old values is an error."""
        self._link()
        assert self._links is not None
        torch.autograd.graph.increment_version(self._links.parameters)


class LocalModules(nn.ModuleList):
    """Modules of the tasks of this rank, named by their position among all tasks."""

    def __init__(self, modules: Iterable[nn.Module], first: int = 0) -> None:
        super().__init__()
        for row, module in enumerate(modules, start=first):
            self.add_module(str(row), module)

    def __getitem__(self, index: Any) -> Any:
        return list(self._modules.values())[index]


class _Links:
    """Where parameters were found, and which are frozen: checking costs a comparison each."""

    def __init__(self, models: LinkedModules) -> None:
        self.parameters = [
            parameter
            for flat in models._flats
            for row, module in enumerate(models._rows())
            for parameter in flat.parameters(row, module)
        ]
        tethered = set(map(id, self.parameters))
        self._held: list[tuple[dict[str, Any], str, Any]] = []
        for module in models.modules():
            for held in (module._modules, module._parameters):
                self._held += [
                    (held, name, one)
                    for name, one in held.items()
                    if isinstance(one, nn.Module) or id(one) in tethered
                ]
        self._addresses = [parameter.data_ptr() for parameter in self.parameters]
        self._watched = [
            parameter
            for flat in models._flats
            for module in models.per_task
            for parameter in flat.tethered(module)
        ]
        self._trained = [parameter.requires_grad for parameter in self._watched]

    def hold(self) -> bool:
        """Whether everything is where it was."""
        return (
            all(held.get(name) is one for held, name, one in self._held)
            and [parameter.data_ptr() for parameter in self.parameters] == self._addresses
            and [parameter.requires_grad for parameter in self._watched] == self._trained
        )
