"""The results a folder holds, checked against what the report expects of them."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from crosslearning.report.lengths import unequal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["Results", "read"]

_KINDS = ("table", "images")


@dataclass(frozen=True)
class Results:
    """What one file says, and the folder it is in."""

    kind: str
    folder: Path
    content: dict[str, Any]


def read(folder: Path) -> list[Results]:
    """Return the results of a folder, then those of its sub-folders by name.

    In every folder ``gaussian.json`` comes before ``results.json``: the idea before its use.
    """
    if not folder.is_dir():
        raise ValueError(f"There is no folder {folder}. Give the one that holds the results.")
    below = sorted(path for path in folder.iterdir() if path.is_dir())
    found = [results for place in [folder, *below] for results in _in(place)]
    if not found:
        raise ValueError(
            f"{folder} holds no results.json and no gaussian.json, nor do the folders in it. "
            "Make results first, as with `crosslearning fit` or `crosslearning demo`."
        )
    return found


def _in(folder: Path) -> Iterator[Results]:
    path = folder / "gaussian.json"
    if path.is_file():
        content = _content(path)
        if isinstance(content, dict):
            content["curve"] = _curve(folder / "gaussian.csv")
        yield _checked(path, "gaussian", content)
    path = folder / "results.json"
    if path.is_file():
        content = _content(path)
        kind = content.get("kind") if isinstance(content, dict) else None
        if kind not in _KINDS:
            raise ValueError(
                f"{path}: `kind` must be one of {', '.join(_KINDS)}; got {kind!r}. "
                "Give a folder with results of crosslearning."
            )
        yield _checked(path, kind, content)


def _content(path: Path) -> Any:
    try:
        # NaN is no JSON, and a chart cannot show it.
        return json.loads(path.read_text(encoding="utf-8"), parse_constant=lambda _: None)
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is damaged: {error}. Make the results again.") from error


def _curve(path: Path) -> list[dict[str, float | None]]:
    """Rows of a CSV file of numbers; what is no number becomes None, which the check refuses."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            return [
                {name: _float(text) for name, text in row.items()} for row in csv.DictReader(file)
            ]
    except (UnicodeDecodeError, csv.Error, OSError) as error:
        raise ValueError(f"{path} cannot be read: {error}. Make the results again.") from error


def _float(text: Any) -> float | None:
    try:
        return float(text)
    except (TypeError, ValueError):
        return None


def _checked(path: Path, kind: str, content: Any) -> Results:
    """Refuse what does not fit the schema of its kind, and name the field."""
    from jsonschema.exceptions import best_match

    error = best_match(_validator(kind).iter_errors(content))
    if error is None:
        wrong = unequal(kind, content)
    else:
        field = error.json_path.removeprefix("$").removeprefix(".")
        wrong = f"`{field}`: {_short(error.message)}" if field else _short(error.message)
    if wrong:
        raise ValueError(
            f"{path} is not as expected of {kind} results: {wrong}. "
            "Make the results again with this version of crosslearning."
        )
    return Results(kind, path.parent, content)


@cache
def _validator(kind: str) -> Any:
    from jsonschema import Draft202012Validator

    schema = files("crosslearning.report").joinpath("schemas", f"{kind}.json")
    return Draft202012Validator(json.loads(schema.read_text(encoding="utf-8")))


def _short(text: str, length: int = 120) -> str:
    """Leave the middle out: jsonschema quotes the value first and says what is wrong last."""
    if len(text) <= length:
        return text
    half = length // 2
    return f"{text[:half]} … {text[-half:]}"
