"""Values as files that cannot run code: archives of arrays, and records as JSON."""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import date, datetime
from enum import Enum
from functools import cache, partial
from math import isfinite, isinf
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
import pandas as pd

from crosslearning.files import AnyPath, replacing

__all__ = ["decode", "encode", "from_json", "read_archive", "to_json", "write_archive"]

T = TypeVar("T")
_FORMAT = "crosslearning 3"
_LARGE = 2**23  # bytes; compressing more takes long and saves little
_PLAIN = (str, bool, int, float, type(None))


def write_archive(path: AnyPath, kind: str, content: Any, classes: tuple[type, ...] = ()) -> None:
    """Write numbers, strings, dates, arrays, lists, tuples, dicts and records of `classes`.

    `kind` says what it is, such as "table model"; :func:`read_archive` refuses any other.
    """
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    try:
        encoded = encode(content, arrays, classes)
    except TypeError as error:
        raise ValueError(
            f"{error} Use labels and settings that are numbers, strings, dates or tuples of them."
        ) from error
    header = {"format": _FORMAT, "kind": kind, "content": encoded}
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    large = sum(array.nbytes for array in arrays.values()) > _LARGE
    write: Any = np.savez if large else np.savez_compressed
    with replacing(Path(path)) as temporary, temporary.open("wb") as file:
        write(file, **arrays)


def read_archive(path: AnyPath, kind: str, classes: tuple[type, ...] = ()) -> Any:
    """Read what :func:`write_archive` wrote; refuse a file with any other content."""
    with Path(path).open("rb") as file:
        try:
            with np.load(file, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
            header = json.loads(arrays["header"].tobytes())
            actual = header["format"], header["kind"]
            content = decode(header["content"], arrays, classes) if actual[0] == _FORMAT else None
        except Exception as error:  # whatever invalid bytes raise
            raise ValueError(
                f"{path} is not a crosslearning {kind}, or it is damaged ({type(error).__name__})."
            ) from error
    if actual[0] != _FORMAT:
        raise ValueError(f"{path} was written by another version: {actual[0]}. Create it again.")
    if actual[1] != kind:
        raise ValueError(f"{path} is a {actual[1]}, but a {kind} is needed. Choose another file.")
    return content


def encode(
    value: Any, arrays: dict[str, Any], classes: tuple[type, ...] = (), array: Any = np.ndarray
) -> Any:
    """Turn a value into JSON, collecting arrays of a class and tagging types that JSON lacks.

    A TypeError names a type that cannot be saved; the caller says what to do instead.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return {"float": repr(value)}
    if type(value) in _PLAIN:
        return value
    if isinstance(value, array) and value.dtype != object:
        arrays[f"array{len(arrays)}"] = value
        return {"array": f"array{len(arrays) - 1}"}
    if isinstance(value, np.ndarray) and set(map(type, value)) <= {str, int}:
        return {"objects": value.tolist()}  # labels, of which there may be very many
    kind = type(value)
    if kind in classes:
        tag, parts = kind.__name__, [getattr(value, field.name) for field in fields(kind)]
    elif kind in _TAGGED:
        tag, parts = _TAGGED[kind][0], _TAGGED[kind][1](value)
    else:
        raise TypeError(f"A {kind.__module__}.{kind.__name__} cannot be saved.")
    return {tag: [encode(part, arrays, classes, array) for part in parts]}


def decode(value: Any, arrays: Mapping[str, Any], classes: tuple[type, ...] = ()) -> Any:
    """Turn what :func:`encode` returned, with its arrays, into the value."""
    if type(value) in _PLAIN:
        return value
    ((tag, content),) = value.items()
    if tag == "float":
        return float(content)
    if tag == "array":
        return arrays[content]
    parts = [decode(part, arrays, classes) for part in content]
    named = {kind.__name__: kind for kind in classes}
    if tag not in named:
        return _BUILDERS[tag](parts)
    names = [field.name for field in fields(named[tag])][: len(parts)]  # others have defaults
    return named[tag](**dict(zip(names, parts, strict=True)))


def _objects(parts: list[Any]) -> np.ndarray[Any, Any]:
    array = np.empty(len(parts), dtype=object)
    array[:] = parts
    return array


# Type: its tag, how to take it apart, and how to rebuild it.
_TAGGED: dict[type, tuple[str, Callable[[Any], list[Any]], Callable[[list[Any]], Any]]] = {
    list: ("list", list, list),
    tuple: ("tuple", list, tuple),
    Counter: ("counter", lambda c: [dict(c)], lambda p: Counter(*p)),
    dict: ("dict", lambda d: [list(d), list(d.values())], lambda p: dict(zip(*p, strict=True))),
    np.ndarray: ("objects", list, _objects),
    date: ("date", lambda d: [d.isoformat()], lambda p: date.fromisoformat(*p)),
    datetime: ("datetime", lambda d: [d.isoformat()], lambda p: datetime.fromisoformat(*p)),
    pd.Timestamp: ("timestamp", lambda d: [d.isoformat()], lambda p: pd.Timestamp(*p)),
}
_BUILDERS = {tag: build for tag, _, build in _TAGGED.values()}


def to_json(value: Any, *, digits: int = 10, infinity: bool = False) -> Any:
    """Turn a record, or anything that records hold, into what JSON has.

    An enum becomes its name in lower case, and what is unknown a string. Numbers have at most so
    many significant digits. NaN becomes null, and so does infinity, unless it is to be kept as
    "inf". Fields that have their default are omitted, and underscores that end names dropped.

    >>> to_json({"epsilon": np.array([0.1 + 0.2, np.inf]), 7: None}, infinity=True)
    {'epsilon': [0.3, 'inf'], '7': None}
    """
    again = partial(to_json, digits=digits, infinity=infinity)
    if is_dataclass(value):
        parts = [(field, getattr(value, field.name)) for field in fields(value)]
        kept = [(f.name, v) for f, v in parts if f.default is MISSING or v is not f.default]
        return {name.removesuffix("_"): again(part) for name, part in kept}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): again(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [again(part) for part in value]
    if isinstance(value, float):
        written = str(value) if infinity and isinf(value) else None
        return float(f"{value:.{digits}g}") if isfinite(value) else written
    if isinstance(value, Enum):
        return value.name.lower()
    return value if isinstance(value, str | bool | int | None) else str(value)


def from_json(cls: type[T], data: Any) -> T:
    """Build a record of a class from what `to_json` returned, its numbers and texts as they are.

    Fields that are missing raise a `TypeError`, and unknown ones a `KeyError`.
    """
    record: T = _read(cls, data)
    return record


def _read(kind: Any, value: Any) -> Any:
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):  # of a type and None
        (kind,) = set(args) - {NoneType}
        return None if value is None else _read(kind, value)
    if origin is tuple:  # of any length
        return tuple(_read(args[0], part) for part in value)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind[value.upper()]
    if origin is np.ndarray:
        (scalar,) = get_args(args[1])
        return _objects(value) if scalar is Any else np.array(value, dtype=scalar)
    if is_dataclass(kind) and isinstance(kind, type):
        stored = _stored(kind)
        return kind(**{stored[key][0]: _read(stored[key][1], part) for key, part in value.items()})
    return value


@cache
def _stored(kind: Any) -> dict[str, tuple[str, Any]]:
    """Names and types of the fields of a record, by key."""
    return {name.removesuffix("_"): (name, hint) for name, hint in get_type_hints(kind).items()}
