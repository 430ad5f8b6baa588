"""How the results were created, and how to reproduce them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crosslearning.evaluation.numbers import duration


def provenance(
    *,
    created: str,
    command: str,
    versions: Mapping[str, str],
    seconds: float,
    facts: Mapping[str, Any],
    columns: Sequence[Any] = (),
    python: str | None = None,
    predict: str | None = None,
) -> dict[str, Any]:
    """Return the command, settings, versions and columns; facts that are empty are omitted."""
    listed = {"made": created.replace("T", " "), **facts, "time spent": duration(seconds)}
    return {
        "command": command,
        "python": python,
        "predict": predict,
        "facts": {name: value for name, value in listed.items() if value not in (None, "")},
        "versions": versions,
        "columns": columns,
    }
