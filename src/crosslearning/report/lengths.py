"""Lists in results that belong together and so must be equally long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["unequal"]


def unequal(kind: str, content: dict[str, Any]) -> str | None:
    """Say which list is not as long as another it belongs to, if there is one.

    >>> unequal("table", {"tasks": [{}, {}], "map": {"tasks": [[0.0, 0.0]]}})
    '`map.tasks` has 1, `tasks` has 2'
    """
    pairs = {"table": _table, "images": _images}.get(kind)
    for name, values, other, others in pairs(content) if pairs else ():
        if len(values) != len(others):
            return f"`{name}` has {len(values)}, `{other}` has {len(others)}"
    return None


def _table(content: dict[str, Any]) -> Iterator[tuple[str, list[Any], str, list[Any]]]:
    tasks = content["tasks"]
    if content.get("map"):
        yield "map.tasks", content["map"]["tasks"], "tasks", tasks
    stored = content.get("coefficients")
    if not stored:
        return
    features = stored["features"]
    for part in stored.get("classes") or [stored]:
        yield "coefficients.tasks", part["tasks"], "tasks", tasks
        for row in (part["center"], *part["tasks"]):
            yield "coefficients", row, "coefficients.features", features
        if part.get("intercept"):
            yield "coefficients.intercept.tasks", part["intercept"]["tasks"], "tasks", tasks


def _images(content: dict[str, Any]) -> Iterator[tuple[str, list[Any], str, list[Any]]]:
    for row in content["categories"]:
        yield "categories.accuracy", row["accuracy"], "path", content["path"]
    if content["confusion"]:
        worst = content["confusion"]["worst"]
        names = worst["categories"]
        for name in ("totals", "counts"):
            yield f"confusion.worst.{name}", worst[name], "confusion.worst.categories", names
        for row in worst["counts"]:
            yield "confusion.worst.counts", row, "confusion.worst.categories", names
