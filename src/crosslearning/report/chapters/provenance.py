"""How the results were created, and how to reproduce them."""

from __future__ import annotations

from typing import Any

from crosslearning.evaluation.numbers import duration


def provenance(content: dict[str, Any], **facts: Any) -> dict[str, Any]:
    """Return the command, settings, versions and columns."""
    stored = content["provenance"]
    rows = {name: f"{stored[name]:,}" for name in ("rows", "dropped") if name in stored}
    known = {
        "made": content["created"].replace("T", " "),
        "estimator": content.get("estimator"),
        "seed": stored.get("seed"),
        **rows,
        "data fingerprint": stored.get("fingerprint"),
        **facts,
        "time spent": duration(stored["seconds"]),
    }
    return {
        "command": stored["command"],
        "python": content.get("python"),
        "predict": None,
        "facts": {name: value for name, value in known.items() if value not in (None, "")},
        "versions": stored["versions"],
        "columns": stored.get("columns", []),
    }
