"""Who goes over the rows of a table: this process, in one piece or in chunks, or a Dask cluster.

Engines differ in nothing else. What can be tried on a table depends on whether all of its rows fit
into the `room` that an engine has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crosslearning.convex.sums.passes import Pass, PassSums
from crosslearning.convex.sums.statistics import Statistics
from crosslearning.tables.reading.files import Files
from crosslearning.tables.rows import Rows
from crosslearning.tables.settings import FitSettings

if TYPE_CHECKING:
    from crosslearning.tables.engines.survey import Survey
    from crosslearning.tables.schema import Schema

T = TypeVar("T")


class FrameTable:
    """A data frame, which is one chunk; errors begin with the name of a `part`."""

    n_rows = None
    text_labels = text_as_categories = False
    notes = ()

    def __init__(self, frame: pd.DataFrame, part: str = "") -> None:
        self.frame, self.part = frame.reset_index(drop=True), part
        self.columns: list[str] = list(frame.columns)
        self.source: str = frame.attrs.get("source", "TABLE")

    def each(self, columns: Sequence[str], work: Callable[[int, pd.DataFrame], T]) -> Iterator[T]:
        """Yield the result of some work on all rows."""
        try:
            if absent := [name for name in columns if name not in self.frame.columns]:
                raise ValueError(
                    f"All partitions must have the same columns; it has no {absent[0]!r}."
                )
            result = work(0, self.frame[list(columns)])
        except ValueError as error:
            if not self.part:
                raise
            raise ValueError(f"{self.part}: {error}") from error
        yield result


Table = Files | FrameTable


class Collected(NamedTuple):
    """Rows that stay in memory, extremes of all targets, and sums of rows by task and fold."""

    kept: Rows
    ends: NDArray[np.float64]
    sums: Statistics

    @classmethod
    def of(cls, chunks: Iterable[tuple[Rows, NDArray[np.float64]]], sums: Statistics) -> Collected:
        """Put chunks together."""
        kept, ends = zip(*chunks, strict=True)
        return cls(Rows.concatenated(kept), np.concatenate(ends), sums)


class Engine(Protocol):
    """Goes over all rows of a table as often as it is asked to.

    `function` is the one that fits the table, and `room` the number of rows that memory may hold.
    """

    table: Table
    function: str
    room: float

    def survey(self, settings: FitSettings, columns: list[str]) -> Survey:
        """Look at all rows of some columns."""

    def collect(self, schema: Schema) -> Collected:
        """Sum the rows of each task and fold as far as the schema needs it, and keep some."""

    def pass_over(self, schema: Schema, at: Pass) -> PassSums:
        """Sum all rows at the parameters of a pass."""
