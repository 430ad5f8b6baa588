"""Checkpoints of a run on ranks: a folder that any other number of ranks can resume from.

``step-N/`` has models and the state of the optimizer, by task and parameter, in safetensors files
that torch.distributed.checkpoint writes, one per rank. ``run.safetensors`` has the rest, and names
that folder. It is written last and atomically, so what it names is complete.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.hf_storage import (
    HuggingFaceStorageReader,
    HuggingFaceStorageWriter,
)
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from crosslearning.nn._checkpoint import KIND, Checkpoint
from crosslearning.nn._files import pack, unpack, write_file

_EXTRA = "_extra_state"  # labels and pulls; the same on all ranks
_LIKE, _SCALAR = "optimizer", "scalar"  # state that has axes, and state that has none


class RankCheckpoint(Checkpoint):
    """A folder that all ranks can write to and read from."""

    @property
    def file(self) -> Path:
        return self.path / "run.safetensors"

    def save(self) -> None:
        """Save the current state, then remove the previous one."""
        run, ranks = self.run, self.run.models.ranks
        folder = self.path / f"step-{run.step}"
        if ranks.is_first:
            shutil.rmtree(folder, ignore_errors=True)  # of ranks that were killed while writing
            folder.mkdir(parents=True)
        ranks.barrier()
        writer = HuggingFaceStorageWriter(str(folder), save_distributed=True)
        save(self._models() | self._optimizer(), storage_writer=writer)
        if ranks.is_first:
            tensors, content = self.stored()
            groups = [
                {name: value for name, value in group.items() if name != "params"}
                for group in run.optimizer.param_groups
            ]
            content |= {"folder": folder.name, "groups": pack(groups, "groups", tensors)}
            tensors[_EXTRA] = run.models.get_extra_state()
            if run.validation is not None:
                best = run.validation.state()
                content["has_best_models"] = best["models"] is not None
                content["best"] = pack({**best, "models": None}, "best", tensors)
            write_file(self.file, KIND, tensors, content)
            for old in self.path.glob("step-*"):
                if old != folder:
                    shutil.rmtree(old, ignore_errors=True)
        ranks.barrier()

    def restore_models(self, tensors: dict[str, torch.Tensor], content: dict[str, Any]) -> None:
        """Read what belongs to the tasks of this rank, whichever ranks wrote it."""
        models, optimizer = self.run.models, self.run.optimizer
        validation = self.run.validation
        if validation is not None:
            validation.load_state(unpack(content["best"], tensors))
            if content["has_best_models"]:
                state = models.state_dict()
                validation.best_state = {name: value.clone() for name, value in state.items()}
        reader = HuggingFaceStorageReader(str(self.path / content["folder"]))
        parameters = dict(models.named_parameters())
        places = _places(reader, parameters)
        load(self._models() | places, storage_reader=reader)
        models.load_state_dict({_EXTRA: tensors[_EXTRA]}, strict=False)  # FSDP sees what was read
        for group, options in zip(
            optimizer.param_groups, unpack(content["groups"], tensors), strict=True
        ):
            group.update(options)
        optimizer.state.clear()
        for name, place in places.items():
            kind, parameter, key = _parts(name)
            optimizer.state[parameters[parameter]][key] = place if kind == _LIKE else place[0]

    def _models(self) -> dict[str, torch.Tensor]:
        """Tensors of the current models, and of the best so far, by names for all ranks."""
        states = {"models": self.run.models.state_dict()}
        if self.run.validation is not None and self.run.validation.best_state is not None:
            states["best"] = self.run.validation.best_state
        return {
            f"{kind}.{name}": value
            for kind, state in states.items()
            for name, value in state.items()
            if name != _EXTRA
        }

    def _optimizer(self) -> dict[str, torch.Tensor]:
        """State of the optimizer by parameter; scalars get an axis, which the files need."""
        state = {}
        for name, parameter in self.run.models.named_parameters():
            for key, value in self.run.optimizer.state.get(parameter, {}).items():
                if not isinstance(value, torch.Tensor):
                    raise ValueError(
                        "With a mesh, the state of an optimizer is saved if it consists of "
                        f"tensors; {key!r} is {type(value).__name__}. Train without a checkpoint, "
                        "or use another optimizer."
                    )
                kind = _LIKE if value.dim() else _SCALAR
                state[f"{kind}.{name}.{key}"] = value if value.dim() else value.reshape(1)
        return state


def _places(
    reader: HuggingFaceStorageReader, parameters: dict[str, torch.nn.Parameter]
) -> dict[str, torch.Tensor]:
    """Room for the saved state of these parameters, sharded as they are."""
    saved: dict[str, Any] = reader.read_metadata().state_dict_metadata
    places = {}
    for name, entry in saved.items():
        kind, parameter, _ = _parts(name)
        if kind in (_LIKE, _SCALAR) and parameter in parameters:
            dtype, like = entry.properties.dtype, parameters[parameter]
            alike = entry.size == like.shape and kind == _LIKE
            places[name] = (
                torch.empty_like(like, dtype=dtype)
                if alike
                else torch.empty(entry.size, dtype=dtype)
            )
    return places


def _parts(name: str) -> tuple[str, str, str]:
    """Kind, parameter and key of an entry."""
    kind, _, rest = name.partition(".")
    parameter, _, key = rest.rpartition(".")
    return kind, parameter, key
