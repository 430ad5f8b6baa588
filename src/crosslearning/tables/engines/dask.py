"""Goes over the parts of a table on the workers of a Dask cluster, where they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
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
from crosslearning.tables.engines import local
from crosslearning.tables.engines.plan import Collected, Kept, Plan
from crosslearning.tables.engines.survey import Survey, usable
from crosslearning.tables.reading.files import Files, located
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

    columns: list[str]
    sources: list[Any]
    progress: Callable[[str], object]
    source: str = "TABLE"
    notes: Sequence[str] = ()
    text_labels: bool = False
    room: float = field(default_factory=lambda: local.ROOM)
    counts: list[Counts] = field(default_factory=list)
    n_passes: int = 0

    def __post_init__(self) -> None:
        self.parts = list(enumerate(self.sources))
        name = "fit_files" if isinstance(self.sources[0], Files) else "fit_table"
        self.function = f"crosslearning.tables.dask.{name}"

    def survey(self, settings: FitSettings, columns: list[str]) -> Survey:
        """Look at all rows, and count those of each task in every part."""
        import dask

        self.progress(f"Looking at {len(self.parts):,} parts")
        files = isinstance(self.sources[0], Files)
        start = Survey.start(settings, room=self.room, decode=files)
        look = dask.delayed(_look, nout=2)
        types, seed = settings.column_types, settings.seed
        looked = [look(part, k, columns, start, types, seed) for k, part in self.parts]
        merged = _tree(dask.delayed(_merged), [survey for survey, _ in looked])
        survey, *counts = dask.compute(merged, *(counts for _, counts in looked))
        filled = [k for k, (labels, _) in enumerate(counts) if len(labels)]
        self.parts, self.counts = [self.parts[k] for k in filled], [counts[k] for k in filled]
        result: Survey = survey
        return result

    def collect(self, plan: Plan) -> Collected:
        """Sum all rows, and keep some."""
        import dask

        self.progress(f"Adding up {len(self.parts):,} parts")
        n_tasks, width = len(plan.labels), plan.n_features + 1
        added, shared = dask.delayed(_added), dask.delayed(plan)
        seen, outs = np.zeros(n_tasks, dtype=np.int64), []
        for (k, part), (labels, counts) in zip(self.parts, self.counts, strict=True):
            where = plan.labels.get_indexer(pd.Index(labels, tupleize_cols=False))
            outs.append(added(part, k, shared, where, seen[where]))
            seen[where] += counts
        merged = self._merged([out[0] for out in outs], n_tasks, plan.n_summed * width**2)
        *ranges, kept = dask.compute(*merged, [out[1] for out in outs])
        sums = Statistics.empty(np.arange(n_tasks), width - 1, plan.n_summed)
        for part in ranges:
            sums += part
        return Collected.of([one for parts in kept for one in parts], sums)

    def pass_over(self, plan: Plan, at: Pass) -> PassSums:
        """Sum all rows at the parameters of a pass."""
        import dask

        self.n_passes += 1
        self.progress(f"Pass {self.n_passes} over {len(self.parts):,} parts")
        shared, n_tasks, p = dask.delayed((plan, at)), *at.thetas.shape
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
    first = surveys[0].copy()
    for survey in surveys[1:]:
        first.add(survey)
    return first


@contextmanager
def _named(part: Any, number: int) -> Iterator[None]:
    """Say in errors which part."""
    if isinstance(part, Files):
        with located(part.paths[0]):
            yield
        return
    try:
        yield
    except ValueError as error:
        raise ValueError(f"Partition {number}: {error}") from error


def _frames(part: Any, columns: list[str]) -> Iterator[pd.DataFrame]:
    """Rows of a part, in chunks if it is a file."""
    if isinstance(part, Files):
        yield from (frame for _, frame in part.chunks(columns))
        return
    absent = [name for name in columns if name not in part.columns]
    if absent:
        raise ValueError(f"All partitions must have the same columns; it has no {absent[0]!r}.")
    yield part[columns].reset_index(drop=True)


def _look(
    part: Any, number: int, columns: list[str], start: Survey, types: dict[str, str], seed: int
) -> tuple[Survey, Counts]:
    """Survey a part, and count the rows of its tasks."""
    survey = start.copy()
    counts = pd.Series(dtype=np.int64)
    with _named(part, number):
        for frame in _frames(part, columns):
            survey.look(frame, number, types, seed)
            _, codes, labels = usable(frame, start.task, start.target, drop=start.drop)
            more = pd.Series(np.bincount(codes, minlength=len(labels)), index=labels)
            counts = counts.add(more.groupby(level=0).sum(), fill_value=0).astype(np.int64)
    return survey, (counts.index.to_numpy(), counts.to_numpy())


def _added(
    part: Any,
    number: int,
    plan: Plan,
    where: NDArray[np.intp],
    before: NDArray[np.int64],
) -> tuple[Statistics, list[Kept]]:
    """Sum a part, and keep some of its rows."""
    seen = np.zeros(len(plan.labels), dtype=np.int64)
    seen[where] = before
    sums = Statistics(plan.n_summed)
    with _named(part, number):
        kept = [plan.add(frame, seen, sums) for frame in _frames(part, plan.columns)]
    return sums, kept


def _passed(part: Any, number: int, shared: tuple[Plan, Pass]) -> PassSums:
    """Sum a part at some parameters."""
    plan, at = shared
    with _named(part, number):
        return reduce(add, (plan.sums_at(frame, at) for frame in _frames(part, plan.columns)))


def _cut(sums: Any, bounds: NDArray[np.intp]) -> list[Any]:
    """Divide sums into ranges of tasks."""
    tasks = sums.labels if isinstance(sums, Statistics) else sums.tasks
    return [sums.take(slice(*pair)) for pair in pairwise(np.searchsorted(tasks, bounds))]
