"""How the results were created, and how to reproduce them."""

from __future__ import annotations

from typing import Any

from crosslearning.evaluation.numbers import duration, number

_TETHERS = {
    "ball": "a bound: all models are within ε of the centre",
    "spring": "a spring: the farther a model is from the centre, the harder it is pulled",
    "bounded spring": "a spring as well as a bound on the distance to the centre",
    "tension": "a constant pull, which makes some models equal to the centre",
}


def provenance(content: dict[str, Any], **facts: Any) -> dict[str, Any]:
    """Return the command, settings, versions and columns."""
    stored, tether = content["provenance"], content.get("tether")
    known = {
        "made": content.get("created", "").replace("T", " ") or None,
        "estimator": content.get("estimator"),
        "seed": stored.get("seed"),
        "ridge strength": _number(content.get("alpha"), ", shrinking all coefficients towards 0"),
        "tether": _TETHERS.get(str(tether), tether),
        "rows": _number(stored.get("rows")),
        "rows dropped": _number(stored.get("dropped")),
        "data fingerprint": stored.get("fingerprint"),
        **facts,
        "time spent": duration(stored["seconds"]) if "seconds" in stored else None,
    }
    return {
        "command": content.get("command") or stored["command"],
        "python": content.get("python"),
        "predict": None,
        "facts": {name: value for name, value in known.items() if value is not None},
        "versions": stored["versions"],
        "columns": stored.get("columns", []),
    }


def _number(value: float | None, more: str = "") -> str | None:
    return None if value is None else number(value) + more
