"""A fitted table in a folder: the model to predict with, and the results to read."""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crosslearning.archive import read_archive, write_archive
from crosslearning.convex.curves import Curves
from crosslearning.tables._basis import Basis, Stacked
from crosslearning.tables._trees import Trees
from crosslearning.tables.encoding import TableEncoder
from crosslearning.tables.rotation import Rotation

if TYPE_CHECKING:
    from crosslearning.tables.model import TableModel


_MODEL, _RESULTS, _COEFFICIENTS = "model.npz", "results.json", "coefficients.csv"
_KIND = "table model"
_PARTS = ("task", "target", "metric", "encoder", "rotation", "state", "errors")
_CLASSES = (TableEncoder, Rotation, Basis, Curves, Stacked, Trees)


def check_folder(folder: str | os.PathLike[str]) -> None:
    """Refuse a folder that a fit must not write to: one with anything but an earlier fit."""
    path = Path(folder)
    if path.exists() and not path.is_dir():
        raise ValueError(f"{path} is a file. Choose a folder.")
    if path.is_dir() and any(path.iterdir()) and not (path / _MODEL).is_file():
        raise ValueError(
            f"{path} is not empty and holds no fit of a table. Choose another folder, or empty "
            "this one."
        )


def save(model: TableModel, folder: str | os.PathLike[str]) -> None:
    """Write model and results beside their places, then move them there."""
    path = Path(folder)
    check_folder(path)
    new = not path.exists()
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".", dir=path) as temporary:
            parts = Path(temporary)
            content = {name: getattr(model, name) for name in _PARTS}
            write_archive(parts / _MODEL, _KIND, content, _CLASSES)
            if model.results:
                (parts / _RESULTS).write_text(json.dumps(model.results, allow_nan=False) + "\n")
            if model.coefficients is not None:
                model.coefficients.to_csv(parts / _COEFFICIENTS, index=False)
            # Results of another model are never beside this one.
            for name in (_RESULTS, _COEFFICIENTS):
                (path / name).unlink(missing_ok=True)
            for part in sorted(parts.iterdir()):
                part.replace(path / part.name)
    except BaseException as error:
        if new:
            with suppress(OSError):
                path.rmdir()
        if isinstance(error, OSError):
            reason = error.strerror or error
            raise OSError(f"Cannot write to {path}: {reason}. Choose another folder.") from error
        raise


def read_model(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Read what makes a model from a folder, or from the file of the model."""
    path = Path(folder)
    file = path / _MODEL if path.is_dir() else path
    if not file.is_file():
        raise ValueError(
            f"{path} holds no fit of a table, which is a file {_MODEL}. Choose a folder that a fit "
            "was saved to."
        )
    content: dict[str, Any] = read_archive(file, _KIND, _CLASSES)
    return content
