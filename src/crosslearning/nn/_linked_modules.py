"""Modules of the tasks and the centre, whose tethered parameters are rows of flat buffers.

Frozen parameters and constant buffers are one tensor in all modules.
"""

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

    def __init__(
        self, modules: list[nn.Module], flats: list[FlatBuffer], first: int, frozen: frozenset[str]
    ) -> None:
        super().__init__()
        self.per_task = LocalModules(modules[:-1], first)
        self.center = modules[-1].requires_grad_(False)
        self.flats, self._frozen = flats, frozen
        self._links: _Links | None = None
        self._contents: dict[str, int] | None = None  # of buffers that the centre shares with tasks
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
            tensors, leaf = place(self, name)
            originals, original = place(self, first)
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
        """Restore the views of parameters that were replaced, and see which are frozen."""
        if self._links is not None and self._links.hold():
            return
        with torch.no_grad():
            for flat in self.flats:
                for row, module in enumerate(self.rows()):
                    flat.adopt(row, module)
                flat.count_frozen(list(self.per_task))
        self._refuse_changed_buffers()
        links = _Links(self)
        links.refuse_thawed()
        self._links = links

    def _refuse_changed_buffers(self) -> None:
        """Raise an error if a module has written new values to a shared buffer."""
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
        """Convert the buffers first, so that the modules' own conversion finds nothing to do."""
        shared = {id(one): one for one in _shared_buffers(self).values()}
        converted: dict[int, torch.Tensor] = {}

        def once(tensor: torch.Tensor) -> torch.Tensor:
            if shared.get(id(tensor)) is not tensor:
                return fn(tensor)
            if id(tensor) not in converted:
                converted[id(tensor)] = fn(tensor)
            return converted[id(tensor)]

        self._links = self._contents = None
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
            tensors, leaf = place(models, name)
            state[key] = tensors[leaf]  # itself, which is not copied
        elif original in state and not torch.equal(state[key], state[original]):
            errors.append(
                f"{key!r} and {original!r} differ in the state, but are one tensor here: the "
                "parameter is frozen. Build TaskModels from a module that trains it."
            )


def place(module: nn.Module, name: str) -> tuple[dict[str, Any], str]:
    """Return the dictionary with the parameter or buffer of this name, and its key there."""
    path, _, leaf = name.rpartition(".")
    part: Any = module.get_submodule(path)
    return (part._parameters if leaf in part._parameters else part._buffers), leaf


class LocalModules(nn.ModuleList):
    """Modules of the tasks of this rank, named by their position among all tasks."""

    def __init__(self, modules: Iterable[nn.Module], first: int = 0) -> None:
        super().__init__()
        for row, module in enumerate(modules, start=first):
            self.add_module(str(row), module)

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
    """Where parameters were found, and which are frozen: checking costs a comparison each."""

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
        self._frozen = {
            parameter: name
            for module in models.per_task
            for name, parameter in module.named_parameters()
            if name in models._frozen
        }
        self._watched = [
            *(one for flat in models.flats for m in models.per_task for one in flat.tethered(m)),
            *self._frozen,
        ]
        self._trained = [parameter.requires_grad for parameter in self._watched]
        self._constants = list(_shared_buffers(models).values())
        self._versions = [one._version for one in self._constants]

    def refuse_thawed(self) -> None:
        """Raise an error if a parameter is trained that was frozen from the beginning."""
        for parameter, name in self._frozen.items():
            if parameter.requires_grad:
                raise ValueError(
                    f"The parameter {name!r} was frozen when TaskModels was built, so it is in no "
                    "block and all tasks share it; it must stay frozen. Freeze it after building "
                    "TaskModels if you want to train it later."
                )

    def hold(self) -> bool:
        """Whether everything is where it was."""
        return (
            all(entries.get(name) is one for entries, name, one in self._entries)
            and [parameter.data_ptr() for parameter in self.parameters] == self._addresses
            and [parameter.requires_grad for parameter in self._watched] == self._trained
            and [one._version for one in self._constants] == self._versions
        )
