"""Who goes over the rows of a table: this process, in one piece or in chunks, or a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import reduce
from itertools import pairwise
from math import inf
from operator import add, attrgetter
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crosslearning.convex.sums.passes import Pass, PassSums
from crosslearning.convex.sums.statistics import Statistics
from crosslearning.frames.reading import Files
from crosslearning.frames.survey import Survey, columns_to_read
from crosslearning.tables.rows import Rows
from crosslearning.tables.schema import Schema, roles_of
from crosslearning.tables.settings import FitSettings

ROOM = 2**16  # rows of files, or of a cluster, that are kept in memory
_AT_ONCE = 8  # sums, or surveys, that are merged in one step
_RANGE = 2**23  # numbers in the sums of a range of tasks
Array = NDArray[np.float64]
Counts = NDArray[np.int64]
T = TypeVar("T")


class FrameTable:
    """A data frame, which is one chunk; if it is a part of a table, errors name its number."""

    n_rows = None
    text_labels = False

    def __init__(self, frame: pd.DataFrame, part: int | None = None) -> None:
        self.frame, self.part = frame.reset_index(drop=True), part
        self.columns: list[str] = list(frame.columns)
        self.source: str = frame.attrs.get("source", "TABLE")

    def each(self, columns: Sequence[str], work: Callable[[int, pd.DataFrame], T]) -> Iterator[T]:
        """Yield the result of some work on all rows."""
        if self.part is None:
            yield work(0, self.frame[list(columns)])
            return
        try:
            if absent := [name for name in columns if name not in self.frame.columns]:
                rule = "All partitions must have the same columns"
                raise ValueError(f"{rule}; it has no {absent[0]!r}.")
            yield work(self.part, self.frame[list(columns)])
        except ValueError as error:
            raise ValueError(f"Partition {self.part}: {error}") from error


Table = Files | FrameTable


class Collected(NamedTuple):
    """Rows that stay in memory, extremes of all targets, and sums of rows by task and fold."""

    kept: Rows
    ends: Array
    sums: Statistics

    @classmethod
    def of(cls, chunks: Iterable[tuple[Rows, Array]], sums: Statistics) -> Collected:
        """Put chunks together."""
        kept, ends = zip(*chunks, strict=True)
        return cls(Rows.concatenated(kept), np.concatenate(ends), sums)


@dataclass(eq=False)
class Engine:
    """Goes over the chunks of a table in this process, once for each thing to find out."""

    table: Table
    progress: Callable[[str], object] = lambda _: None
    n_passes: int = 0

    @property
    def function(self) -> str:
        """The function that fits the table."""
        return "fit_files" if isinstance(self.table, Files) else "fit_table"

    @property
    def room(self) -> float:
        """Number of rows that memory may hold."""
        return ROOM if isinstance(self.table, Files) else inf

    def survey(self, settings: FitSettings) -> Survey:
        """Look at all rows of the columns that may be needed."""
        roles = roles_of(settings)
        columns = columns_to_read(self.table.columns, roles)
        return self._looked_at(columns, Survey(roles, settings.seed, self.room))

    def _looked_at(self, columns: list[str], survey: Survey) -> Survey:
        for _ in self._each(columns, "Looking at rows", lambda k, rows: survey.look(rows, k)):
            pass
        return survey

    def collect(self, schema: Schema) -> Collected:
        """Sum the rows of each task and fold as far as the schema needs it, and keep some."""
        return self._added(schema, np.zeros(len(schema.labels), dtype=np.int64), schema.no_sums())

    def _added(self, schema: Schema, seen: Counts, sums: Statistics) -> Collected:
        """Add rows to sums, having seen so many rows of each task."""
        doing = "Adding up rows"
        chunks = self._each(schema.columns, doing, lambda _, rows: schema.add(rows, seen, sums))
        return Collected.of(chunks, sums)

    def pass_over(self, schema: Schema, at: Pass) -> PassSums:
        """Sum all rows at the parameters of a pass."""
        self.n_passes += 1
        sums = PassSums.empty(np.arange(len(schema.labels)), at.thetas.shape[1])
        for part in self._passed(schema, at, f"Pass {self.n_passes} over"):
            sums.add(part.tasks, part)
        return sums

    def _passed(self, schema: Schema, at: Pass, doing: str) -> Iterable[PassSums]:
        """Sum parts of the rows."""

        def summed(_: int, frame: pd.DataFrame) -> PassSums:
            rows = schema.encoded(frame)[1]
            return at.sums(rows.X, rows.y, rows.codes, rows.weights)

        return self._each(schema.columns, f"{doing} rows", summed)

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


@dataclass(eq=False)
class ClusterEngine(Engine):
    """Goes over the parts of a table, themselves tables, on the workers of a Dask cluster."""

    parts: list[Any] = field(default_factory=list)
    counts: list[tuple[NDArray[Any], Counts]] = field(default_factory=list)  # of labels, by part

    @property
    def room(self) -> float:
        """Number of rows that memory may hold."""
        return ROOM

    def _looked_at(self, columns: list[str], survey: Survey) -> Survey:
        import dask

        self.progress(f"Looking at {len(self.parts):,} parts")
        surveys = [dask.delayed(_surveyed)(part, columns, survey) for part in self.parts]
        merged = _tree(dask.delayed(_merged), surveys)
        each = dask.delayed(attrgetter("labels", "counts"))
        result: Survey
        result, *counts = dask.compute(merged, *map(each, surveys))
        filled = [k for k, (labels, _) in enumerate(counts) if len(labels)]
        self.parts, self.counts = [self.parts[k] for k in filled], [counts[k] for k in filled]
        return result

    def collect(self, schema: Schema) -> Collected:
        """Do the same on the workers."""
        import dask

        self.progress(f"Adding up {len(self.parts):,} parts")
        summed, shared = dask.delayed(_summed, nout=3), dask.delayed(schema.without_survey())
        seen, kept, sums = np.zeros(len(schema.labels), dtype=np.int64), [], []
        for part, (labels, counts) in zip(self.parts, self.counts, strict=True):
            tasks = schema.written.get_indexer(pd.Index(labels, tupleize_cols=False))
            rows, ends, added = summed(part, shared, tasks, seen[tasks])
            kept.append((rows, ends))
            sums.append(added)
            seen[tasks] += counts
        size = schema.n_summed * (schema.n_features + 1) ** 2
        chunks, *ranges = dask.compute(kept, *_by_ranges(sums, len(schema.labels), size))
        return Collected.of(chunks, reduce(add, ranges, schema.no_sums()))

    def _passed(self, schema: Schema, at: Pass, doing: str) -> Iterable[PassSums]:
        """Sum ranges of the tasks."""
        import dask

        self.progress(f"{doing} {len(self.parts):,} parts")
        shared, (n_tasks, p) = dask.delayed((schema.without_survey(), at)), at.thetas.shape
        each = [dask.delayed(_summed_at)(part, shared) for part in self.parts]
        sums: Iterable[PassSums] = dask.compute(*_by_ranges(each, n_tasks, p**2))
        return sums


def _by_ranges(sums: list[Any], n_tasks: int, n_numbers: int) -> list[Any]:
    """Merge sums by ranges of tasks, each of so many numbers."""
    import dask

    n_ranges = min(-(-n_tasks * n_numbers // _RANGE), n_tasks)
    bounds = np.linspace(0, n_tasks, n_ranges + 1).astype(np.intp)
    cut = dask.delayed(_cut, nout=n_ranges)
    ranges = zip(*(list(cut(part, bounds)) for part in sums), strict=True)
    return [_tree(dask.delayed(sum), list(parts)) for parts in ranges]


def _tree(merge: Any, parts: list[Any]) -> Any:
    """Merge a few at a time, so that no worker has to hold many."""
    while len(parts) > 1:
        parts = [merge(parts[k : k + _AT_ONCE]) for k in range(0, len(parts), _AT_ONCE)]
    return parts[0]


def _merged(surveys: list[Survey]) -> Survey:
    first = deepcopy(surveys[0])  # which Dask may use again
    for survey in surveys[1:]:
        first.add(survey)
    return first


def _surveyed(part: Table, columns: list[str], start: Survey) -> Survey:
    return Engine(part)._looked_at(columns, deepcopy(start))


def _summed(part: Table, schema: Schema, tasks: NDArray[np.intp], before: Counts) -> Collected:
    """Sum a part, and keep some of its rows; so many of the tasks are in the parts before."""
    seen = np.zeros(len(schema.labels), dtype=np.int64)
    seen[tasks] = before
    return Engine(part)._added(schema, seen, Statistics(schema.n_summed))


def _summed_at(part: Table, shared: tuple[Schema, Pass]) -> PassSums:
    return reduce(add, Engine(part)._passed(*shared, ""))


def _cut(sums: Any, bounds: NDArray[np.intp]) -> list[Any]:
    """Divide sums into ranges of tasks."""
    tasks = sums.labels if isinstance(sums, Statistics) else sums.tasks
    return [sums.take(slice(*pair)) for pair in pairwise(np.searchsorted(tasks, bounds))]
