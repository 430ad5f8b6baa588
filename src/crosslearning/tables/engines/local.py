"""Goes over the rows of a table in this process: a data frame, or files in chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from math import inf

import numpy as np
import pandas as pd

from crosslearning.convex.sums.passes import Pass, PassSums
from crosslearning.convex.sums.statistics import Statistics
from crosslearning.tables.engines.plan import Collected, Plan
from crosslearning.tables.engines.survey import Survey
from crosslearning.tables.reading.files import Files, located
from crosslearning.tables.settings import FitSettings

ROOM = 2**16  # rows of files that are kept in memory
Progress = Callable[[str], object]


@dataclass(eq=False)
class FrameEngine:
    """A data frame, which is one chunk."""

    frame: pd.DataFrame
    room: float = inf
    text_labels: bool = False
    notes: Sequence[str] = ()
    function: str = "crosslearning.tables.fit_table"

    def __post_init__(self) -> None:
        self.frame = self.frame.reset_index(drop=True)
        self.columns = list(self.frame.columns)
        self.source = self.frame.attrs.get("source", "TABLE")

    def survey(self, settings: FitSettings, columns: list[str]) -> Survey:
        """Look at all rows, which are the sample."""
        survey = Survey.start(settings, room=self.room)
        survey.look(self.frame[columns], 0, settings.column_types, settings.seed)
        return survey

    def collect(self, plan: Plan) -> Collected:
        """Keep all rows."""
        n_tasks = len(plan.labels)
        sums = Statistics.empty(np.arange(n_tasks), plan.n_features, plan.n_summed)
        kept = plan.add(self.frame[plan.columns], np.zeros(n_tasks, dtype=np.int64), sums)
        return Collected.of([kept], sums)

    def pass_over(self, plan: Plan, at: Pass) -> PassSums:
        """Sum all rows at the parameters of a pass."""
        return plan.sums_at(self.frame[plan.columns], at)


@dataclass(eq=False)
class FilesEngine:
    """Files that are read chunk by chunk, once for each thing to find out."""

    files: Files
    progress: Progress
    room: float = field(default_factory=lambda: ROOM)
    function: str = "crosslearning.tables.fit_files"

    def __post_init__(self) -> None:
        self.columns: list[str] = list(self.files.types)
        self.notes: Sequence[str] = self.files.notes
        self.source = self.files.source
        self.text_labels, self.n_passes = self.files.text is not None, 0

    def survey(self, settings: FitSettings, columns: list[str]) -> Survey:
        """Look at all rows."""
        survey = Survey.start(settings, room=self.room, decode=True)
        for number, frame in self._chunks(columns, "Looking at rows"):
            with self._located(number):
                survey.look(frame, number, settings.column_types, settings.seed)
        return survey

    def collect(self, plan: Plan) -> Collected:
        """Sum all rows, and keep some."""
        n_tasks = len(plan.labels)
        sums = Statistics.empty(np.arange(n_tasks), plan.n_features, plan.n_summed)
        seen, kept = np.zeros(n_tasks, dtype=np.int64), []
        for number, frame in self._chunks(plan.columns, "Adding up rows"):
            with self._located(number):
                kept.append(plan.add(frame, seen, sums))
        return Collected.of(kept, sums)

    def pass_over(self, plan: Plan, at: Pass) -> PassSums:
        """Sum all rows at the parameters of a pass."""
        self.n_passes += 1
        sums = PassSums.empty(np.arange(len(plan.labels)), at.thetas.shape[1])
        for number, frame in self._chunks(plan.columns, f"Pass {self.n_passes} over rows"):
            with self._located(number):
                part = plan.sums_at(frame, at)
            sums.add(part.tasks, part)
        return sums

    def _located(self, number: int) -> AbstractContextManager[None]:
        return located(self.files.paths[number])

    def _chunks(self, columns: list[str], doing: str) -> Iterator[tuple[int, pd.DataFrame]]:
        """Chunks of all files, each with the number of its file."""
        done, of = 0, f" of {self.files.n_rows:,}" if self.files.n_rows else ""
        for path, frame in self.files.chunks(columns):
            self.progress(f"{doing}: {done:,}{of}")
            yield self.files.paths.index(path), frame
            done += len(frame)
