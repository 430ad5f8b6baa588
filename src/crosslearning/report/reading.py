"""Reading of stored results."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from crosslearning.evaluation.records import from_json
from crosslearning.tables.findings import VERSION, Findings

_VERSIONS = {"table": VERSION, "images": 1}


class Results(NamedTuple):
    """The results in one file: findings of a table, else a dictionary."""

    kind: str
    path: Path
    content: Any


def read(folder: Path) -> list[Results]:
    """Return the results of a folder, then those of its subfolders by name."""
    if not folder.is_dir():
        raise ValueError(f"There is no folder {folder}. Pass the one with the results.")
    below = sorted(path for path in folder.iterdir() if path.is_dir())
    results_of = [results for place in [folder, *below] for results in _in(place)]
    if not results_of:
        raise ValueError(
            f"{folder} and its subfolders have neither results.json nor gaussian.json. Create "
            "results first, for example with `crosslearning fit` or `crosslearning demo`."
        )
    return results_of


def _in(folder: Path) -> Iterator[Results]:
    path = folder / "gaussian.json"
    if path.is_file():
        yield Results("gaussian", path, _content(path) | {"curve": _curve(folder / "gaussian.csv")})
    path = folder / "results.json"
    if path.is_file():
        content = _content(path)
        kind, version = content.get("kind"), content.get("version")
        if (kind, version) not in list(_VERSIONS.items()):
            expected = " or ".join(f"{kind!r}, version {n}" for kind, n in _VERSIONS.items())
            raise ValueError(
                f"{path} must be results of {expected}; got {kind!r}, version {version!r}. "
                "Create the results again with this version of crosslearning."
            )
        yield Results(str(kind), path, _findings(path, content) if kind == "table" else content)


def _findings(path: Path, content: dict[str, Any]) -> Findings:
    try:
        return from_json(Findings, content, path.name)
    except ValueError as error:
        raise invalid(path, "table", str(error)) from error


def invalid(path: Path, kind: str, why: str) -> ValueError:
    """Say that a file does not hold what it should."""
    return ValueError(
        f"{path} does not contain valid {kind} results ({why}). Create the results again with this "
        "version of crosslearning."
    )


def _content(path: Path) -> dict[str, Any]:
    try:
        # NaN is not JSON, and a chart cannot show it.
        content = json.loads(path.read_text(encoding="utf-8"), parse_constant=lambda _: None)
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}. Create the results again.") from error
    if not isinstance(content, dict):
        raise ValueError(
            f"{path} must be a JSON object; got {type(content).__name__}. Create the results again."
        )
    return content


def _curve(path: Path) -> list[dict[str, float]]:
    """Read the rows of a CSV file of numbers."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = csv.DictReader(file)
            return [{name: float(text) for name, text in row.items()} for row in rows]
    except (ValueError, TypeError, csv.Error, OSError) as error:
        raise ValueError(f"{path} cannot be read: {error}. Create the results again.") from error
