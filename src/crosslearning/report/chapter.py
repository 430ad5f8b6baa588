"""The parts of a chapter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Number:
    """A key figure: name, value, explanation, (name, value) pairs to compare it with, next step."""

    name: str
    value: str
    note: str
    others: tuple[tuple[str, str], ...] = ()
    words: bool = False
    command: str | None = None


@dataclass(frozen=True)
class Figure:
    """A chart with its name as a file, its caption and, for export, the meaning of its marks."""

    name: str
    caption: str
    spec: dict[str, Any]
    key: str = ""


@dataclass(frozen=True)
class Chapter:
    """What the template of a kind shows: the answer, the results, and details made from these."""

    kind: str
    title: str
    subtitle: str
    sentence: str
    numbers: tuple[Number, ...]
    content: Any
    details: dict[str, Any]
    remarks: list[dict[str, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def figures(self) -> Iterator[Figure]:
        """Return the figures of the details, alone or in a list."""
        for part in self.details.values():
            for one in part if isinstance(part, list) else [part]:
                if isinstance(one, Figure):
                    yield one
