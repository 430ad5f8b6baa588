"""Goes over the rows of a table in this process: a data frame, or files in chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf
from typing import TypeVar

import numpy as np
import pandas as pd

from crosslearning.convex.sums.passes import Pass, PassSums
from crosslearning.convex.sums.statistics import Statistics
from crosslearning.tables.engines import Collected, FrameTable, Table
from crosslearning.tables.engines.survey import Survey
from crosslearning.tables.reading.files import Files
from crosslearning.tables.schema import Schema
from crosslearning.tables.settings import FitSettings

ROOM = 2**16  # rows of files that are kept in memory
T = TypeVar("T")


@dataclass(eq=False)
class LocalEngine:
    """Goes over the chunks of a table, once for each thing to find out."""

    table: Table
    function: str
    room: float
    progress: Callable[[str], object] = lambda _: None
    n_passes: int = 0

    @classmethod
    def of_frame(cls, frame: pd.DataFrame) -> LocalEngine:
        """Keep all rows of a data frame in memory."""
        return cls(FrameTable(frame), "crosslearning.tables.fit_table", inf)

    @classmethod
    def of_files(cls, files: Files, progress: Callable[[str], object]) -> LocalEngine:
        """Keep some rows of files in memory."""
        return cls(files, "crosslearning.tables.fit_files", ROOM, progress)

    def survey(self, settings: FitSettings, columns: list[str]) -> Survey:
        """Look at all rows."""
        survey = Survey(settings, self.room, self.table.text_as_categories)
        for _ in self._each(columns, "Looking at rows", lambda k, rows: survey.look(rows, k)):
            pass
        return survey

    def collect(self, schema: Schema) -> Collected:
        """Sum all rows, and keep some."""
        n_tasks = len(schema.labels)
        sums = Statistics.empty(np.arange(n_tasks), schema.n_features, schema.n_summed)
        counts = np.zeros(n_tasks, dtype=np.int64)
        chunks = self._each(
            schema.columns, "Adding up rows", lambda _, rows: schema.add(rows, counts, sums)
        )
        return Collected.of(chunks, sums)

    def pass_over(self, schema: Schema, at: Pass) -> PassSums:
        """Sum all rows at the parameters of a pass."""
        self.n_passes += 1
        sums = PassSums.empty(np.arange(len(schema.labels)), at.thetas.shape[1])
        doing = f"Pass {self.n_passes} over rows"
        for part in self._each(schema.columns, doing, lambda _, rows: schema.sums_at(rows, at)):
            sums.add(part.tasks, part)
        return sums

    def _each(
        self, columns: list[str], doing: str, work: Callable[[int, pd.DataFrame], T]
    ) -> Iterator[T]:
        """Report progress, and work on each chunk."""
        done, total = 0, f" of {self.table.n_rows:,}" if self.table.n_rows else ""

        def step(number: int, rows: pd.DataFrame) -> T:
            nonlocal done
            self.progress(f"{doing}: {done:,}{total}")
            done += len(rows)
            return work(number, rows)

        yield from self.table.each(columns, step)
