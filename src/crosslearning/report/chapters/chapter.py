"""The parts of a chapter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crosslearning.report.charts.pieces import Spec


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
    spec: Spec
    key: str = ""


@dataclass(frozen=True)
class Chapter:
    """The content of a template: the answer, then the details of its kind."""

    kind: str
    title: str
    subtitle: str
    sentence: str
    numbers: tuple[Number, ...]
    remarks: list[dict[str, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)


def figures_in(details: Any) -> Iterator[Figure]:
    """Return the figures anywhere in the details of a chapter."""
    if isinstance(details, Figure):
        yield details
    elif isinstance(details, dict | list):
        for part in details.values() if isinstance(details, dict) else details:
            yield from figures_in(part)
