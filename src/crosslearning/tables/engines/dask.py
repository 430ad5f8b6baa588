"""Goes over the parts of a table on the workers of a Dask cluster, where they are."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from functools import reduce
from itertools import pairwise
from operator import add
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crosslearning.convex.sums.passes import Pass, PassSums
from crosslearning.convex.sums.statistics import Statistics
from crosslearning.tables.engines import Collected, FrameTable, Table, local
from crosslearning.tables.engines.survey import Survey, usable
from crosslearning.tables.reading.files import Files
from crosslearning.tables.rows import Rows
from crosslearning.tables.schema import Schema
from crosslearning.tables.settings import FitSettings

_AT_ONCE = 8  # sums, or surveys, that are merged in one step
_RANGE = 2**23  # numbers in the sums of a range of tasks
Counts = tuple[NDArray[Any], NDArray[np.int64]]  # labels of tasks, and numbers of rows


@dataclass(eq=False)
class ClusterEngine:
    """Parts of a table, each a delayed data frame or a file that all workers can read.

    Sums hold the tasks of a part, and are merged on the workers by ranges of tasks. The work of a
    lost worker is repeated.
    """

    table: Table
    sources: list[Any]
    progress: Callable[[str], object]
    room: float = field(default_factory=lambda: local.ROOM)
    n_passes: int = 0

    def __post_init__(self) -> None:
        self.parts = list(enumerate(self.sources))
        self.counts: list[Counts] = []
        name = "fit_files" if isinstance(self.table, Files) else "fit_table"
        self.function = f"crosslearning.tables.dask.{name}"

    def survey(self, settings: FitSettings, columns: list[str]) -> Survey:
        """Look at all rows, and count those of each task in every part."""
        import dask

        self.progress(f"Looking at {len(self.parts):,} parts")
        look = dask.delayed(_look, nout=2)
        start = Survey(settings, self.room, self.table.text_as_categories)
        looked = [look(part, k, columns, start) for k, part in self.parts]
        merged = _tree(dask.delayed(_merged), [survey for survey, _ in looked])
        survey, *counts = dask.compute(merged, *(counts for _, counts in looked))
        filled = [k for k, (labels, _) in enumerate(counts) if len(labels)]
        self.parts, self.counts = [self.parts[k] for k in filled], [counts[k] for k in filled]
        result: Survey = survey
        return result

    def collect(self, schema: Schema) -> Collected:
        """Sum all rows, and keep some."""
        import dask

        self.progress(f"Adding up {len(self.parts):,} parts")
        n_tasks, width = len(schema.labels), schema.n_features + 1
        added, shared = dask.delayed(_added), dask.delayed(schema.without_survey())
        before, outs = np.zeros(n_tasks, dtype=np.int64), []
        for (k, part), (labels, counts) in zip(self.parts, self.counts, strict=True):
            where = schema.written.get_indexer(pd.Index(labels, tupleize_cols=False))
            outs.append(added(part, k, shared, where, before[where]))
            before[where] += counts
        merged = self._merged([out[0] for out in outs], n_tasks, schema.n_summed * width**2)
        *ranges, kept = dask.compute(*merged, [out[1] for out in outs])
        sums = Statistics.empty(np.arange(n_tasks), width - 1, schema.n_summed)
        for part in ranges:
            sums += part
        return Collected.of([chunk for chunks in kept for chunk in chunks], sums)

    def pass_over(self, schema: Schema, at: Pass) -> PassSums:
        """Sum all rows at the parameters of a pass."""
        import dask

        self.n_passes += 1
        self.progress(f"Pass {self.n_passes} over {len(self.parts):,} parts")
        shared, n_tasks, p = dask.delayed((schema.without_survey(), at)), *at.thetas.shape
        outs = [dask.delayed(_passed)(part, k, shared) for k, part in self.parts]
        sums = PassSums.empty(np.arange(n_tasks), p)
        for part in dask.compute(*self._merged(outs, n_tasks, p**2)):
            sums.add(part.tasks, part)
        return sums

    def _merged(self, outs: list[Any], n_tasks: int, n_numbers: int) -> list[Any]:
        """Merge sums by ranges of tasks, each so many numbers."""
        import dask

        n_ranges = min(-(-n_tasks * n_numbers // _RANGE), n_tasks)
        bounds = np.linspace(0, n_tasks, n_ranges + 1).astype(np.intp)
        cut = dask.delayed(_cut, nout=n_ranges)
        ranges = zip(*(list(cut(out, bounds)) for out in outs), strict=True)
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


def _table(part: Any, number: int) -> Table:
    return part if isinstance(part, Files) else FrameTable(part, f"Partition {number}")


def _look(part: Any, number: int, columns: list[str], start: Survey) -> tuple[Survey, Counts]:
    """Survey a part, and count the rows of its tasks."""
    survey, counts = deepcopy(start), pd.Series(dtype=np.int64)

    def work(_: int, frame: pd.DataFrame) -> pd.Series[Any]:
        survey.look(frame, number)
        codes, labels = usable(frame, start.settings)[1:]
        rows = pd.Series(
            np.bincount(codes, minlength=len(labels)), index=pd.Index(labels, tupleize_cols=False)
        )
        return rows.groupby(level=0).sum()

    for more in _table(part, number).each(columns, work):
        counts = counts.add(more, fill_value=0).astype(np.int64)
    return survey, (counts.index.to_numpy(), counts.to_numpy())


def _added(
    part: Any,
    number: int,
    schema: Schema,
    where: NDArray[np.intp],
    before: NDArray[np.int64],
) -> tuple[Statistics, list[tuple[Rows, NDArray[np.float64]]]]:
    """Sum a part, and keep some of its rows."""
    counts = np.zeros(len(schema.labels), dtype=np.int64)
    counts[where] = before
    sums = Statistics(schema.n_summed)
    table = _table(part, number)
    return sums, list(table.each(schema.columns, lambda _, rows: schema.add(rows, counts, sums)))


def _passed(part: Any, number: int, shared: tuple[Schema, Pass]) -> PassSums:
    """Sum a part at some parameters."""
    schema, at = shared
    table = _table(part, number)
    return reduce(add, table.each(schema.columns, lambda _, rows: schema.sums_at(rows, at)))


def _cut(sums: Any, bounds: NDArray[np.intp]) -> list[Any]:
    """Divide sums into ranges of tasks."""
    tasks = sums.labels if isinstance(sums, Statistics) else sums.tasks
    return [sums.take(slice(*pair)) for pair in pairwise(np.searchsorted(tasks, bounds))]
