"""Finished runs of a sweep in files, so that none is trained twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from crosslearning.files import replacing
from crosslearning.nn.naming import name_of
from crosslearning.nn.seeds import build
from crosslearning.nn.sources import digest

if TYPE_CHECKING:
    import os

    from crosslearning.nn.sweeps.plan import Plan
    from crosslearning.nn.sweeps.settings import Setting

__all__ = ["Folder"]


class Folder:
    """A folder with one file per finished run, and what all of them have in common.

    Parameters
    ----------
    path : path
        Made if it is not there. A folder of another sweep is refused.
    plan : Plan
        What the runs have in common.
    """

    def __init__(self, path: str | os.PathLike[str], plan: Plan) -> None:
        self.path = Path(path)
        self.path.mkdir(parents=True, exist_ok=True)
        about, wanted = self.path / "sweep.json", _description(plan)
        if about.exists():
            _refuse_other(_read(about), wanted, self.path)
        else:
            _write(about, wanted)

    def find(self, setting: Setting, seed: int) -> list[dict[str, Any]] | None:
        """Rows of a finished run, or None."""
        file = self._file(setting, seed, "json")
        return list(_read(file)) if file.exists() else None

    def keep(self, setting: Setting, seed: int, rows: list[dict[str, Any]]) -> None:
        """Write the rows of a finished run, and forget how it got there."""
        _write(self._file(setting, seed, "json"), rows)
        for suffix in ("safetensors", "fine.safetensors"):
            self._file(setting, seed, suffix).unlink(missing_ok=True)

    def checkpoint(self, setting: Setting, seed: int) -> Path:
        """File for the state of a run that is not finished."""
        return self._file(setting, seed, "safetensors")

    def _file(self, setting: Setting, seed: int, suffix: str) -> Path:
        return self.path / f"{setting.key}-seed-{seed}.{suffix}"


def _description(plan: Plan) -> dict[str, Any]:
    """Describe what a folder must agree on, in words that JSON keeps."""
    optimizer = plan.optimizer([nn.Parameter(torch.zeros(1))])
    return {
        "model": repr(build(plan.module, 0)),
        "rows": {repr(task): len(source) for task, source in plan.sources().items()},
        "rows to judge": {repr(task): len(source) for task, source in plan.test_sources().items()},
        "data": [digest(source) for source in plan.sources().values()],
        "data to judge": [digest(source) for source in plan.test_sources().values()],
        "loss": name_of(plan.loss),
        "metric": name_of(plan.metric),
        "scheduler": name_of(plan.scheduler),
        "augmentation": name_of(plan.augment),
        "epochs": plan.epochs,
        "batch size": plan.batch_size,
        "sampling": plan.sampling,
        "project every": plan.project_every,
        "weight of the centre": plan.center_weight,
        "optimizer": repr(optimizer),
    }


def _refuse_other(found: Any, wanted: dict[str, Any], path: Path) -> None:
    known = found if isinstance(found, dict) else {}
    other = [name for name, value in wanted.items() if known.get(name) != value]
    if other:
        raise ValueError(
            f"The folder {path} holds another sweep, which differs in {', '.join(other)}. "
            "Choose another folder, or remove this one."
        )


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"The file {path} is damaged: {error}. Remove it and run again.") from None


def _write(path: Path, content: Any) -> None:
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(content), encoding="utf-8")
