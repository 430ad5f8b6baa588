"""How the results were made, and how to make them again."""

from __future__ import annotations

from typing import Any

from crosslearning.evaluation.numbers import duration, number

__all__ = ["provenance"]


def provenance(content: dict[str, Any], **facts: Any) -> dict[str, Any]:
    """Return the command, what there is to say beside it, versions and columns.

    Parameters
    ----------
    content : results with ``provenance``
    **facts : more to say, by name
    """
    stored = content["provenance"]
    known = {
        "made": content.get("created", "").replace("T", " ") or None,
        "seed": stored.get("seed"),
        "ridge strength": _number(content.get("alpha")),
        "kind of tether": content.get("tether"),
        "rows": _number(stored.get("rows")),
        "rows dropped": _number(stored.get("dropped")),
        "data fingerprint": stored.get("fingerprint"),
        **facts,
        "time spent": duration(stored["seconds"]) if "seconds" in stored else None,
    }
    return {
        "command": stored["command"],
        "facts": {name: value for name, value in known.items() if value is not None},
        "versions": stored["versions"],
        "columns": stored.get("columns", []),
    }


def _number(value: float | None) -> str | None:
    return None if value is None else number(value)
