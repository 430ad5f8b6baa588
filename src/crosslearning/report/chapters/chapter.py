"""A chapter of the page."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crosslearning.report.charts.pieces import Spec


@dataclass(frozen=True)
class Number:
    """A number to remember: what it is, its value, how to read it, and others to compare it with.

    A value may be words, and others are pairs of a name and a value.
    """

    name: str
    value: str
    note: str
    others: tuple[tuple[str, str], ...] = ()
    words: bool = False


@dataclass(frozen=True)
class Remark:
    """A finding: the words to see first, and the rest."""

    lead: str
    text: str


@dataclass(frozen=True)
class Figure:
    """A chart with the words above it and, for where it stands alone, what its marks mean."""

    caption: str
    spec: Spec
    key: str = ""


@dataclass(frozen=True)
class Chapter:
    """What a template needs: the answer first, then whatever its kind has to show."""

    kind: str
    title: str
    subtitle: str
    sentence: str
    numbers: tuple[Number, ...]
    remarks: tuple[Remark, ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    details: dict[str, Any] = field(default_factory=dict)
