"""One file of NumPy arrays and JSON; nothing in it can run code."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from crosslearning.files import replacing

__all__ = ["read_archive", "write_archive"]

_FORMAT = "crosslearning 1"
_LARGE = 2**23  # bytes; compressing more takes long and saves little
_PLAIN = (str, bool, int, float, type(None))


def write_archive(
    path: str | os.PathLike[str], kind: str, content: Any, classes: tuple[type, ...] = ()
) -> None:
    """Write values atomically to a file.

    `kind` says what it is, such as "table model"; :func:`read_archive` refuses any other. `content`
    may hold numbers, strings, dates, arrays, data frames, lists, tuples and dicts, and `classes`.
    """
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    header = {"format": _FORMAT, "kind": kind, "content": _encoded(content, arrays, classes)}
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    with replacing(Path(path)) as temporary, temporary.open("wb") as file:
        large = sum(array.nbytes for array in arrays.values()) > _LARGE
        write: Any = np.savez if large else np.savez_compressed
        write(file, **arrays)


def read_archive(path: str | os.PathLike[str], kind: str, classes: tuple[type, ...] = ()) -> Any:
    """Read what :func:`write_archive` wrote; refuse a file with any other content."""
    with Path(path).open("rb") as file:
        try:
            with np.load(file, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
            header = json.loads(arrays["header"].tobytes())
            actual = header["format"], header["kind"]
            content = _decoded(header["content"], arrays, classes) if actual[0] == _FORMAT else None
        except Exception as error:  # whatever invalid bytes raise
            raise ValueError(
                f"{path} is not a crosslearning {kind}, or it is damaged ({type(error).__name__})."
            ) from error
    if actual[0] != _FORMAT:
        raise ValueError(f"{path} was written by another version: {actual[0]}. Create it again.")
    if actual[1] != kind:
        raise ValueError(f"{path} is a {actual[1]}, but a {kind} is needed. Choose another file.")
    return content


def _encoded(value: Any, arrays: dict[str, np.ndarray[Any, Any]], classes: tuple[type, ...]) -> Any:
    """Turn a value into JSON, collecting arrays and tagging types that JSON lacks."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return {"float": repr(value)}
    if type(value) in _PLAIN:
        return value
    if isinstance(value, np.ndarray) and value.dtype != object:
        arrays[f"array{len(arrays)}"] = value
        return {"array": f"array{len(arrays) - 1}"}
    if isinstance(value, np.ndarray) and set(map(type, value)) <= {str, int}:
        return {"objects": value.tolist()}  # labels, of which there may be very many
    tag, parts = _parts(value, classes)
    return {tag: [_encoded(part, arrays, classes) for part in parts]}


def _parts(value: Any, classes: tuple[type, ...]) -> tuple[str, list[Any]]:
    kind = type(value)
    if kind in classes:
        return kind.__name__, [getattr(value, field.name) for field in fields(kind)]
    if kind in _TAGGED:
        tag, parts, _ = _TAGGED[kind]
        return tag, parts(value)
    raise ValueError(
        f"A {kind.__module__}.{kind.__name__} cannot be saved. Use labels and settings that are "
        "numbers, strings, dates or tuples of them."
    )


def _decoded(
    value: Any, arrays: Mapping[str, np.ndarray[Any, Any]], classes: tuple[type, ...]
) -> Any:
    if type(value) in _PLAIN:
        return value
    ((tag, content),) = value.items()
    if tag == "float":
        return float(content)
    if tag == "array":
        return arrays[content]
    parts = [_decoded(part, arrays, classes) for part in content]
    named = {kind.__name__: kind for kind in classes}
    if tag not in named:
        return _BUILDERS[tag](parts)
    names = [field.name for field in fields(named[tag])][: len(parts)]  # others have defaults
    return named[tag](**dict(zip(names, parts, strict=True)))


def _objects(parts: list[Any]) -> np.ndarray[Any, Any]:
    array = np.empty(len(parts), dtype=object)
    array[:] = parts
    return array


def _frame_parts(frame: pd.DataFrame) -> list[Any]:
    columns = {str(name): frame[name].to_numpy() for name in frame.columns}
    return [frame.index.name, _objects(list(frame.index)), columns]


def _frame(parts: list[Any]) -> pd.DataFrame:
    name, labels, columns = parts
    index = pd.Index(labels.tolist(), name=name, tupleize_cols=False)
    return pd.DataFrame(columns, index=index)


# Type: its tag, how to take it apart, and how to rebuild it.
_TAGGED: dict[type, tuple[str, Callable[[Any], list[Any]], Callable[[list[Any]], Any]]] = {
    list: ("list", list, list),
    tuple: ("tuple", list, tuple),
    dict: ("dict", lambda d: [list(d), list(d.values())], lambda p: dict(zip(*p, strict=True))),
    np.ndarray: ("objects", list, _objects),
    date: ("date", lambda d: [d.isoformat()], lambda p: date.fromisoformat(*p)),
    datetime: ("datetime", lambda d: [d.isoformat()], lambda p: datetime.fromisoformat(*p)),
    pd.Timestamp: ("timestamp", lambda d: [d.isoformat()], lambda p: pd.Timestamp(*p)),
    pd.DataFrame: ("table", _frame_parts, _frame),
}
_BUILDERS = {tag: build for tag, _, build in _TAGGED.values()}
