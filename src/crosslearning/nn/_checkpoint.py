"""Checkpoints from which a run resumes exactly: a file, or a folder for any number of ranks."""

import json
import os
import shutil
from collections import Counter
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.optim import Optimizer

from crosslearning.archive import decode, encode
from crosslearning.nn._evaluation import EpochRecord
from crosslearning.nn._files import encode_label, encode_tether, read_file, write_file

if TYPE_CHECKING:
    from crosslearning.nn._training import Run

_KIND = "a checkpoint of fit"
_VERSION = 2  # 1 had other tags for the types that JSON lacks
_SHOWN = 3  # differences that a message lists
_PLAIN = ("step", "stopped", "seconds")  # of a run, for JSON
_EXTRA = "_extra_state"  # labels and pulls; the same on all ranks
_LIKE, _SCALAR = "optimizer", "scalar"  # state that has axes, and state that has none


class Checkpoint:
    """A file to which a run is saved after every epoch, and in between."""

    _NAME = ""  # of the file in a folder

    def __init__(self, path: str | os.PathLike[str], every: int | None, run: "Run") -> None:
        self.path, self.every, self.run = Path(path), every, run
        self.file = self.path / self._NAME
        self.configuration = configuration(run)  # schedulers change options later

    @property
    def is_due(self) -> bool:
        step = self.run.step
        return step % self.run.steps == 0 or (self.every is not None and step % self.every == 0)

    def save(self) -> None:
        run = self.run
        tensors, content = self.stored()
        content["models"] = _packed(run.models.state_dict(), tensors)
        content["optimizer"] = _packed(run.optimizer.state_dict(), tensors)
        if run.validation is not None:
            content["best"] = _packed(run.validation.state(), tensors)
        write_file(self.file, _KIND, tensors, content, version=_VERSION)

    def resume(self, epochs: int) -> None:
        ranks = self.run.models.ranks
        for leftover in self.file.parent.glob(f".{self.file.name}.*.tmp") if ranks.is_first else ():
            leftover.unlink()  # of a process killed while writing
        if not ranks.objects(self.file.exists())[0]:
            return
        try:
            tensors, content = read_file(self.file, _KIND, "", version=_VERSION)
            self._refuse_another(content, epochs)
            self._restore(tensors, content)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            reason = f"it lacks {error}." if isinstance(error, KeyError) else error
            raise ValueError(
                f"The checkpoint {self.path} cannot be resumed from: {reason} "
                "Delete it to start from the beginning, or use another path."
            ) from error

    def stored(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        """Return all but the models, as tensors and as JSON."""
        run = self.run
        tensors = {"epoch": torch.from_numpy(np.stack([run.sums, run.counts]))}
        columns = {
            field.name: torch.from_numpy(np.array(run.history.column(field.name)))
            for field in fields(EpochRecord)
        }
        content = {
            "run": self.configuration | tethers(run, run.step),
            "history": _packed(columns, tensors),
            **{name: getattr(run, name) for name in _PLAIN},
        }
        if run.scheduler is not None:
            content["scheduler"] = _packed(run.scheduler.state_dict(), tensors)
        return tensors, content

    def _restore(self, tensors: dict[str, torch.Tensor], content: dict[str, Any]) -> None:
        run = self.run
        self.restore_models(tensors, content)
        if run.scheduler is not None:
            run.scheduler.load_state_dict(decode(content["scheduler"], tensors))
        if run.validation is not None:
            run.history.best_epoch = run.validation.best_epoch
        for name in _PLAIN:
            setattr(run, name, content[name])
        run.sums, run.counts = tensors["epoch"].numpy()
        columns = decode(content["history"], tensors)
        values = [one.tolist() if one.dim() == 1 else one.numpy() for one in columns.values()]
        rows = (dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True))
        run.history.records = [EpochRecord(**row) for row in rows]

    def restore_models(self, tensors: dict[str, torch.Tensor], content: dict[str, Any]) -> None:
        """Restore the models, the state of the optimizer, and the best models so far."""
        run = self.run
        run.models.load_state_dict(decode(content["models"], tensors))
        run.optimizer.load_state_dict(decode(content["optimizer"], tensors))
        if run.validation is not None:
            run.validation.load_state(decode(content["best"], tensors))

    def _refuse_another(self, content: dict[str, Any], epochs: int) -> None:
        here = self.configuration | tethers(self.run, content["step"])
        changed = differences(content["run"], here)
        done = content["step"] // self.run.steps
        if not changed and epochs < done:
            changed = [f"`epochs` is {epochs}, but {done} are done"]
        if changed:
            raise ValueError(f"it belongs to another run: {'; '.join(changed[:_SHOWN])}.")


class RankCheckpoint(Checkpoint):
    """A folder that all ranks can write to and read from.

    ``step-N/`` has models and the state of the optimizer, in safetensors files that
    torch.distributed.checkpoint writes, one per rank. ``run.safetensors`` has the rest, and names
    that folder. It is written last and atomically, so what it names is complete.
    """

    _NAME = "run.safetensors"

    def save(self) -> None:
        """Save the current state, then remove the previous one."""
        from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter  # slow
        from torch.distributed.checkpoint.state_dict_saver import save

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
            groups = list(map(_options, run.optimizer.param_groups))
            content |= {"folder": folder.name, "groups": _packed(groups, tensors)}
            tensors[_EXTRA] = run.models.get_extra_state()
            if run.validation is not None:
                best = run.validation.state()
                content["has_best_models"] = best["models"] is not None
                content["best"] = _packed({**best, "models": None}, tensors)
            write_file(self.file, _KIND, tensors, content, version=_VERSION)
            for old in self.path.glob("step-*"):
                if old != folder:
                    shutil.rmtree(old, ignore_errors=True)
        ranks.barrier()

    def restore_models(self, tensors: dict[str, torch.Tensor], content: dict[str, Any]) -> None:
        """Read what belongs to the tasks of this rank, whichever ranks wrote it."""
        from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
        from torch.distributed.checkpoint.state_dict_loader import load

        models, optimizer, validation = self.run.models, self.run.optimizer, self.run.validation
        if validation is not None:
            validation.load_state(decode(content["best"], tensors))
            if content["has_best_models"]:
                state = models.state_dict()
                validation.best_state = {name: value.clone() for name, value in state.items()}
        reader = HuggingFaceStorageReader(str(self.path / content["folder"]))
        parameters = dict(models.named_parameters())
        places = _places(reader, parameters)
        load(self._models() | places, storage_reader=reader)
        models.load_state_dict({_EXTRA: tensors[_EXTRA]}, strict=False)  # FSDP sees what was read
        groups = decode(content["groups"], tensors)
        for group, options in zip(optimizer.param_groups, groups, strict=True):
            group.update(options)
        optimizer.state.clear()
        for name, place in places.items():
            kind, parameter, key = _parts(name)
            optimizer.state[parameters[parameter]][key] = place if kind == _LIKE else place[0]

    def _models(self) -> dict[str, torch.Tensor]:
        """Tensors of the current models, and of the best so far, by names for all ranks."""
        states = {"models": self.run.models.state_dict()}
        if (validation := self.run.validation) is not None and validation.best_state is not None:
            states["best"] = validation.best_state
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


def _packed(value: Any, tensors: dict[str, torch.Tensor]) -> Any:
    """Encode a state, with its tensors collected in a dict."""
    try:
        return encode(_plain(value), tensors, array=torch.Tensor)
    except TypeError as error:
        raise ValueError(
            f"{error} Only states of numbers, strings, tensors and containers of these can be. "
            "Train without a checkpoint, or use another optimizer or scheduler."
        ) from error


def _plain(value: Any) -> Any:
    """Replace subclasses of containers, such as OrderedDict and torch.Size, by what they extend."""
    if isinstance(value, dict) and not isinstance(value, Counter):
        return {_plain(key): _plain(one) for key, one in value.items()}
    for kind in (tuple, list):
        if isinstance(value, kind):
            return kind(map(_plain, value))
    return value


def _places(reader: Any, parameters: dict[str, torch.nn.Parameter]) -> dict[str, torch.Tensor]:
    """Room for the saved state of these parameters, sharded as they are."""
    saved: dict[str, Any] = reader.read_metadata().state_dict_metadata
    places = {}
    for name, entry in saved.items():
        kind, parameter, _ = _parts(name)
        if kind in (_LIKE, _SCALAR) and parameter in parameters:
            dtype, like = entry.properties.dtype, parameters[parameter]
            if kind == _LIKE and entry.size == like.shape:
                places[name] = torch.empty_like(like, dtype=dtype)
            else:
                places[name] = torch.empty(entry.size, dtype=dtype)
    return places


def _parts(name: str) -> tuple[str, str, str]:
    kind, _, rest = name.partition(".")
    parameter, _, key = rest.rpartition(".")
    return kind, parameter, key


def configuration(run: "Run") -> dict[str, Any]:
    """Describe a run in JSON; runs with equal descriptions and data train alike."""
    models, plan, validation = run.models, run.feed.plan, run.validation
    ranks = models.ranks
    tensors = {
        name: f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
        for name, value in models.state_dict().items()
        if not name.endswith("_extra_state")
    }
    described = {
        "tasks": encode_label(models.tasks),
        "architecture": _merged(ranks.objects(tensors)),
        "center_weight": models.center_weight,
        "optimizer": _optimizer(run.optimizer),
        "scheduler": None if run.scheduler is None else type(run.scheduler).__name__,
        "seed": run.feed.seed,
        "rows": list(plan.sizes),
        "rows per task and step": plan.per_step,
        "steps per epoch": plan.steps,
        "project_every": run.project_every,
        "augment": run.feed.augment is not None,
        **dict.fromkeys(("validation rows", "metric", "patience")),
    }
    if validation is not None:
        rows = {task: len(source) for task, source in validation.sources.items()}
        described["validation rows"] = [*_merged(ranks.objects(rows)).values()]
        described["metric"] = name_of(validation.user_metric)
        described["patience"] = validation.patience
    return json.loads(json.dumps(described))


def tethers(run: "Run", step: int) -> dict[str, Any]:
    """Describe what has applied until a step: while all is pooled, no radius has."""
    pooled = {block.name: run.pooled_steps.get(block.name, 0) for block in run.models.blocks}
    return {
        "pooled steps": {name: min(step, last) for name, last in pooled.items()},
        "tethers": {
            block.name: None if step <= pooled[block.name] else encode_tether(block.tether)
            for block in run.models.blocks
        },
    }


def differences(there: Any, here: Any, name: str = "") -> list[str]:
    """Return sentences about differences between two descriptions."""
    if isinstance(there, dict) and isinstance(here, dict):
        prefix = f"{name}: " if name else ""
        nested = [differences(there.get(k), here.get(k), f"{prefix}{k}") for k in there | here]
        return [sentence for sentences in nested for sentence in sentences]
    return [] if there == here else [f"{name} is {there!r} there and {here!r} here"]


def _merged(parts: list[dict[Any, Any]]) -> dict[Any, Any]:
    return {key: value for part in parts for key, value in part.items()}


def _options(group: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in group.items() if name != "params"}


def _optimizer(optimizer: Optimizer) -> dict[str, Any]:
    """Class, and options of each group with the initial learning rate."""
    described: dict[str, Any] = {"class": type(optimizer).__name__}
    for number, group in enumerate(optimizer.param_groups):
        options = _options(group) | {"lr": group.get("initial_lr", group["lr"])}
        described[f"group {number}"] = {name: repr(value) for name, value in options.items()}
    return described


def name_of(function: Any) -> str | None:
    """Describe a function, a module or a word, independent of the process."""
    if function is None or isinstance(function, str):
        return function
    return str(getattr(function, "__qualname__", type(function).__qualname__))
