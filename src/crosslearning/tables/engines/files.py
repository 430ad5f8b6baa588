"""Goes over the files of a table, chunk by chunk."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd

from crosslearning.convex.passes import Pass, PassSums
from crosslearning.convex.statistics import Statistics
from crosslearning.tables.engines.plan import Plan, Shown
from crosslearning.tables.engines.survey import Survey
from crosslearning.tables.reading.files import Files, located


class Reader:
    """Passes over all rows of some files, on this machine."""

    def __init__(self, files: Files, say: Callable[[str], object]) -> None:
        self.files, self.say = files, say
        self.columns, self.notes, self.n_passes = list(files.types), files.notes, 0

    def survey(self, start: Survey, columns: list[str], types: dict[str, str], seed: int) -> Survey:
        """Look at all rows."""
        for number, frame in self._chunks(columns, "Looking at rows"):
            with located(self.files.paths[number]):
                start.look(frame, number, types, seed)
        return start

    def sums(self, plan: Plan) -> tuple[Statistics, Shown]:
        """Sum all rows; and keep some."""
        n_tasks, width = len(plan.labels), len(plan.encoder.feature_names)
        sums = Statistics.empty(np.arange(n_tasks), width, plan.n_summed)
        seen, shown = np.zeros(n_tasks, dtype=np.int64), []
        for number, frame in self._chunks(plan.columns, "Adding up rows"):
            with located(self.files.paths[number]):
                shown.append(plan.add_up(frame, seen, sums))
        return sums, Shown.of(shown)

    def passed(self, plan: Plan, at: Pass) -> PassSums:
        """Sum all rows at some parameters."""
        self.n_passes += 1
        sums = PassSums.empty(np.arange(len(plan.labels)), at.thetas.shape[1])
        for number, frame in self._chunks(plan.columns, f"Pass {self.n_passes} over rows"):
            with located(self.files.paths[number]):
                part = plan.passed(frame, at)
            sums.add(part.tasks, part)
        return sums

    def _chunks(self, columns: list[str], doing: str) -> Iterator[tuple[int, pd.DataFrame]]:
        """Chunks of all files, each with the number of its file."""
        done, of = 0, f" of {self.files.n_rows:,}" if self.files.n_rows else ""
        for path, frame in self.files.chunks(columns):
            self.say(f"{doing}: {done:,}{of}")
            yield self.files.paths.index(path), frame
            done += len(frame)
