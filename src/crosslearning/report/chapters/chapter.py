"""The parts of a chapter."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crosslearning.report.charts.pieces import Spec


@dataclass(frozen=True)
class Number:
    """A key figure: name, value, explanation, and other (name, value) pairs to compare it with."""

    name: str
    value: str
    note: str
    others: tuple[tuple[str, str], ...] = ()
    words: bool = False


@dataclass(frozen=True)
class Remark:
    """A finding: its lead and its text."""

    lead: str
    text: str


@dataclass(frozen=True)
class Figure:
    """A chart with its caption and, for export, the meaning of its marks."""

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
    remarks: tuple[Remark, ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    details: dict[str, Any] = field(default_factory=dict)
