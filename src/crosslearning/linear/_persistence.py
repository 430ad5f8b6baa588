"""Models in files: numbers as arrays, everything else as JSON, nothing that runs."""

from __future__ import annotations

import json
import os
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from crosslearning.files import replacing
from crosslearning.linear.comparison import Comparison

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Model = TypeVar("Model")

__all__ = ["Saved"]

_FORMAT = "crosslearning linear model 1"
_PLAIN = (str, bool, int, float, type(None))


class Saved:
    """A model that can be saved and loaded."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a file, which :meth:`load` reads without unpickling."""
        check_is_fitted(self)
        _save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model that :meth:`save` wrote; a file with anything else in it is refused."""
        return _load(cls, path)


def _save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a model to a temporary name and rename it, so that the file is whole or not there."""
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    state = model.__getstate__()
    fitted = {name: value for name, value in state.items() if name.endswith("_")}
    header = {
        "format": _FORMAT,
        "class": type(model).__name__,
        "parameters": _encoded(model.get_params(deep=False), arrays, "parameter"),
        "fitted": _encoded(fitted, arrays, "attribute"),
    }
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    with replacing(Path(path)) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def _load(kind: type[Model], path: str | os.PathLike[str]) -> Model:
    """Read a model of this class; refuse any other file."""
    with Path(path).open("rb") as file:
        try:
            with np.load(file, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
            header = json.loads(arrays["header"].tobytes())
            known = header["format"] == _FORMAT
            name = str(header["class"])
            parts = [_decoded(header[key], arrays) for key in ("parameters", "fitted")]
            model = kind(**parts[0]) if known and name == kind.__name__ else None
        except Exception as error:  # whatever bytes that are no model lead to
            raise ValueError(
                f"{os.fspath(path)} is not a model that `save` wrote, or it is damaged "
                f"({type(error).__name__})."
            ) from error
    if not known:
        raise ValueError(f"{os.fspath(path)} was written by another version: {header['format']}.")
    if model is None:
        raise ValueError(
            f"{os.fspath(path)} holds a {name}, not a {kind.__name__}. Load it with {name}.load."
        )
    vars(model).update(parts[1])
    return model


def _encoded(value: Any, arrays: dict[str, np.ndarray[Any, Any]], what: str) -> Any:
    """Turn a value into JSON, with arrays put aside and types that JSON lacks tagged."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return {"float": repr(value)}
    if type(value) in _PLAIN:
        return value
    if isinstance(value, np.ndarray) and value.dtype != object:
        arrays[f"array{len(arrays)}"] = value
        return {"array": f"array{len(arrays) - 1}"}
    for kind, (tag, parts, _) in _TAGGED.items():
        if type(value) is kind:
            return {tag: [_encoded(part, arrays, what) for part in parts(value)]}
    raise ValueError(
        f"A model with a {type(value).__module__}.{type(value).__name__} as {what} cannot be "
        "saved. Use task labels and settings that are numbers, strings, dates or tuples of them."
    )


def _decoded(value: Any, arrays: Mapping[str, np.ndarray[Any, Any]]) -> Any:
    if type(value) in _PLAIN:
        return value
    ((tag, content),) = value.items()
    if tag == "float":
        return float(content)
    if tag == "array":
        return arrays[content]
    parts = [_decoded(part, arrays) for part in content]
    return _BUILDERS[tag](parts)


def _objects(parts: list[Any]) -> np.ndarray[Any, Any]:
    array = np.empty(len(parts), dtype=object)
    array[:] = parts
    return array


def _table_parts(table: pd.DataFrame) -> list[Any]:
    columns = {str(name): table[name].to_numpy() for name in table.columns}
    return [table.index.name, _objects(list(table.index)), columns]


def _table(parts: list[Any]) -> pd.DataFrame:
    name, labels, columns = parts
    index = pd.Index(labels.tolist(), name=name, tupleize_cols=False)
    return pd.DataFrame(columns, index=index)


# Type: its tag, its parts, and how to build it of them again.
_TAGGED: dict[type, tuple[str, Callable[[Any], list[Any]], Callable[[list[Any]], Any]]] = {
    list: ("list", list, list),
    tuple: ("tuple", list, tuple),
    dict: ("dict", lambda d: [list(d), list(d.values())], lambda p: dict(zip(*p, strict=True))),
    np.ndarray: ("objects", list, _objects),
    date: ("date", lambda d: [d.isoformat()], lambda p: date.fromisoformat(*p)),
    datetime: ("datetime", lambda d: [d.isoformat()], lambda p: datetime.fromisoformat(*p)),
    pd.Timestamp: ("timestamp", lambda d: [d.isoformat()], lambda p: pd.Timestamp(*p)),
    pd.DataFrame: ("table", _table_parts, _table),
    Comparison: ("comparison", lambda c: [c.tasks, c.summary], lambda p: Comparison(*p)),
}
_BUILDERS = {tag: build for tag, _, build in _TAGGED.values()}
