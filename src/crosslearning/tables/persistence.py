"""A fitted table in a folder: whole or not there, and nothing in it that runs."""

from __future__ import annotations

import json
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crosslearning.linear import CrossLogisticRegressionCV, CrossRidgeCV

if TYPE_CHECKING:
    import os

    from sklearn.compose import ColumnTransformer

__all__ = ["check_folder", "load", "save"]

_PIPELINE, _MODEL, _RESULTS = "pipeline.skops", "model.npz", "results.json"
_VERSION = 1
_TRUSTED = ["crosslearning.tables.encoding.level_name", "numpy.dtype"]
_ESTIMATORS = {kind.__name__: kind for kind in (CrossRidgeCV, CrossLogisticRegressionCV)}


def check_folder(folder: str | os.PathLike[str]) -> None:
    """Refuse a folder that a fit must not write to: one with anything but an earlier fit."""
    path = Path(folder)
    if path.exists() and not path.is_dir():
        raise ValueError(f"{path} is a file. Choose a folder with --out.")
    if path.is_dir() and any(path.iterdir()):
        try:
            _read_results(path)
        except ValueError:
            raise ValueError(
                f"{path} is not empty and holds no fit of a table. Choose another folder with "
                "--out, or empty this one."
            ) from None


def save(encoder: ColumnTransformer, estimator: Any, results: dict[str, Any], folder: Any) -> None:
    """Write everything beside its place, then move it there, the results last."""
    import skops.io  # it imports all of scikit-learn, which takes long

    path = Path(folder)
    check_folder(path)
    new = not path.exists()
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".", dir=path) as temporary:
            parts = Path(temporary)
            skops.io.dump(encoder, parts / _PIPELINE)
            estimator.save(parts / _MODEL)
            (parts / _RESULTS).write_text(json.dumps(results, allow_nan=False) + "\n")
            # Without results the folder is no fit, so that no mixture is ever taken for one.
            (path / _RESULTS).unlink(missing_ok=True)
            for name in (_PIPELINE, _MODEL, _RESULTS):
                (parts / name).replace(path / name)
    except BaseException as error:
        if new:
            with suppress(OSError):
                path.rmdir()
        if isinstance(error, OSError):
            raise OSError(
                f"Cannot write to {path}: {error.strerror or error}. Choose another folder with "
                "--out."
            ) from error
        raise


def load(folder: Any) -> tuple[ColumnTransformer, Any, dict[str, Any]]:
    """Read encoder, estimator and results."""
    path = Path(folder)
    results = _read_results(path)
    import skops.io

    try:
        encoder = skops.io.load(path / _PIPELINE, trusted=_TRUSTED)
        estimator = _ESTIMATORS[results["estimator"]].load(path / _MODEL)
    except Exception as error:  # whatever bytes that are no pipeline lead to
        raise _damaged(path, error) from error
    return encoder, estimator, results


def _read_results(path: Path) -> dict[str, Any]:
    try:
        results = json.loads((path / _RESULTS).read_text())
    except (OSError, ValueError):
        results = None
    if not isinstance(results, dict) or results.get("kind") != "table":
        raise ValueError(
            f"{path} holds no fit of a table. Make one with `crosslearning fit TABLE --task COLUMN "
            f"--target COLUMN --out {path}`."
        )
    if results.get("version") != _VERSION:
        raise ValueError(
            f"{path} was written by another version of this program. Fit the table again."
        )
    return results


def _damaged(path: Path, error: Exception) -> ValueError:
    return ValueError(
        f"The fit in {path} is damaged ({type(error).__name__}: {error}). Fit the table again."
    )
