"""Frozen dataclasses as JSON, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from functools import cache, partial
from math import isfinite, isinf
from reprlib import repr as brief
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

T = TypeVar("T")
_WORDS: dict[Any, str] = {float: "a number", int: "a whole number", str: "text", bool: "a boolean"}


def to_json(value: Any, *, digits: int = 10, infinity: bool = False) -> Any:
    """Turn a record, or anything that records hold, into what JSON has.

    An enum becomes its name in lower case, and what is unknown a string. Numbers are rounded to so
    many significant digits, which keeps files small. NaN becomes null, and so does infinity, unless
    it is to be kept as "inf". A field is omitted while it has its default. An underscore at the end
    of a field's name, which avoids a keyword, is dropped.

    >>> to_json({"epsilon": np.array([0.1 + 0.2, np.inf]), 7: None}, infinity=True)
    {'epsilon': [0.3, 'inf'], '7': None}
    """
    again = partial(to_json, digits=digits, infinity=infinity)
    if is_dataclass(value):
        parts = [(field, getattr(value, field.name)) for field in fields(value)]
        return {_key(f): again(v) for f, v in parts if f.default is MISSING or v != f.default}
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


def from_json(cls: type[T], data: Any, source: str = "results.json") -> T:
    """Build a record of a class from what `to_json` returned.

    A missing, unknown or wrong field raises a `ValueError` that names the source and the field.
    Fields with a default may be missing.
    """
    try:
        record: T = _read(cls, data, "")
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from None
    return record


def _key(field: Field[Any]) -> str:
    return field.name.removesuffix("_")


def _read(kind: Any, value: Any, path: str) -> Any:
    """Read a value of a type: a record, enum, scalar, anything, or one of the types below."""
    if kind is Any:
        return value
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):  # of a type and None
        (kind,) = set(args) - {NoneType}
        return None if value is None else _read(kind, value, path)
    if origin is tuple:  # of any length
        parts = _required(list, value, path, "a list")
        if all(type(part) is args[0] for part in parts):  # mostly numbers, and then fast
            return tuple(parts)
        return tuple(_read(args[0], part, f"{path}[{k}]") for k, part in enumerate(parts))
    if origin is Mapping:  # with names as keys
        parts = _required(dict, value, path, "an object")
        return {key: _read(args[1], part, _joined(path, key)) for key, part in parts.items()}
    if is_dataclass(kind):
        return _read_record(kind, _required(dict, value, path, "an object"), path)
    return _read_scalar(kind, value, path)


def _read_scalar(kind: Any, value: Any, path: str) -> Any:
    if issubclass(kind, Enum):
        names = {member.name.lower(): member for member in kind}
        if value not in names:
            raise ValueError(f"{path} must be one of {', '.join(names)}; got {brief(value)}")
        return names[value]
    accepted = int | float if kind is float else kind
    if isinstance(value, bool) and kind is not bool:  # which Python takes for a number
        accepted = NoneType
    return _required(accepted, value, path, _WORDS[kind])


def _read_record(kind: Any, data: dict[str, Any], path: str) -> Any:
    stored, required = _stored(kind)
    for key in required:
        if key not in data:
            raise ValueError(f"{_joined(path, key)} is missing")
    values = {}
    for key, value in data.items():
        if key not in stored:
            raise ValueError(f"{_joined(path, key)} is unknown")
        name, hint = stored[key]
        values[name] = _read(hint, value, _joined(path, key))
    return kind(**values)


@cache
def _stored(kind: Any) -> tuple[dict[str, tuple[str, Any]], list[str]]:
    """Names and types of the fields of a record by key, and the keys that are required."""
    hints, parts = get_type_hints(kind), fields(kind)
    required = [_key(field) for field in parts if field.default is MISSING]
    return {_key(field): (field.name, hints[field.name]) for field in parts}, required


def _required(kind: Any, value: Any, path: str, words: str) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"{path or 'the content'} must be {words}; got {brief(value)}")
    return value


def _joined(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
