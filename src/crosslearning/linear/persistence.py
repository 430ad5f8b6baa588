"""Models in files, without pickle."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from zipfile import BadZipFile

import skops.io

if TYPE_CHECKING:
    Model = TypeVar("Model")

__all__ = ["load", "save"]

_TRUSTED = (
    "crosslearning.linear.comparison.Comparison",
    "crosslearning.linear.logistic.CrossLogisticRegression",
    "crosslearning.linear.logistic_cv.CrossLogisticRegressionCV",
    "crosslearning.linear.ridge.CrossRidge",
    "crosslearning.linear.ridge_cv.CrossRidgeCV",
)


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a model to a temporary name and rename it, so that the file is whole or not there."""
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        skops.io.dump(model, temporary)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def load(kind: type[Model], path: str | os.PathLike[str]) -> Model:
    """Read a model of a kind; refuse files with types in them that no such model has."""
    try:
        foreign = set(skops.io.get_untrusted_types(file=path)) - set(_TRUSTED)
        if foreign:
            raise ValueError(f"it holds {', '.join(sorted(foreign))}")
        model = skops.io.load(path, trusted=list(_TRUSTED))
    except (BadZipFile, KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{os.fspath(path)} is not a model that `save` wrote: {error}. Save it again."
        ) from error
    if not isinstance(model, kind):
        raise ValueError(
            f"{os.fspath(path)} holds a {type(model).__name__}, not a {kind.__name__}. "
            f"Load it with {type(model).__name__}.load."
        )
    return model
