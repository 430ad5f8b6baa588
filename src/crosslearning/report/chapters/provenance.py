"""How the results were made, and how to make them again."""

from __future__ import annotations

from typing import Any

from crosslearning.evaluation.numbers import duration, number

_TETHERS = {
    "ball": "a bound: no model is farther than ε from the centre",
    "spring": "a spring: the farther a model is from the centre, the harder it is pulled back",
    "bounded spring": "a spring as well as a bound on the distance to the centre",
    "tension": "a constant pull: models that do not resist it are the centre",
}


def provenance(content: dict[str, Any], **facts: Any) -> dict[str, Any]:
    """Return the command, what there is to say beside it, versions and columns."""
    stored, tether = content["provenance"], content.get("tether")
    known = {
        "made": content.get("created", "").replace("T", " ") or None,
        "estimator": content.get("estimator"),
        "seed": stored.get("seed"),
        "ridge strength": _number(content.get("alpha"), ", the pull of all coefficients towards 0"),
        "what holds models together": _TETHERS.get(str(tether), tether),
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
