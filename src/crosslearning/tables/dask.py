"""Tables on many machines: Dask sums the parts of a table where they are."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from operator import add
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crosslearning.convex.passes import Pass, PassSums
from crosslearning.convex.statistics import Statistics
from crosslearning.extras import require
from crosslearning.tables.engines.plan import Plan, Shown
from crosslearning.tables.engines.survey import Survey, usable
from crosslearning.tables.model import TableModel
from crosslearning.tables.reading.files import Files, located
from crosslearning.tables.streaming import fit_engine

__all__ = ["fit_files", "fit_table"]

_AT_ONCE = 8  # sums, or surveys, that are merged in one step
_RANGE = 2**23  # numbers in the sums of a range of tasks


def fit_table(
    frame: Any,
    *,
    task: str,
    target: str,
    progress: Callable[[str], object] | None = None,
    **settings: Any,
) -> TableModel:
    """Fit a Dask data frame, on the current Dask scheduler.

    Partitions are surveyed and then summed where they are. Sums hold the tasks of a partition, and
    are merged on the workers by ranges of tasks; the work of a lost worker is repeated.

    Parameters
    ----------
    frame : dask.dataframe.DataFrame
        The table.
    task, target, progress, **settings
        As in :func:`crosslearning.tables.fit_files`, and the result is the same.

    Returns
    -------
    TableModel
    """
    require("Fitting Dask data frames", "dask")
    say = progress or (lambda _: None)
    engine = _Cluster(list(frame.columns), frame.to_delayed(), say)
    return fit_engine(engine, {"task": task, "target": target, **settings})


def fit_files(
    source: str | os.PathLike[str],
    *,
    task: str,
    target: str,
    scheduler: str | None = None,
    categories: Sequence[str] = (),
    progress: Callable[[str], object] | None = None,
    **settings: Any,
) -> TableModel:
    """Fit files that all workers can read; each file is a unit of work.

    Parameters
    ----------
    source : path
        A folder or a pattern, as in :func:`crosslearning.tables.fit_files`.
    scheduler : str, optional
        Address of the scheduler; the current one by default.
    task, target, categories, progress, **settings
        As in :func:`fit_table`.

    Returns
    -------
    TableModel
    """
    require("Fitting on a cluster", "dask", "distributed")
    goal = None if settings.get("kind") == "classification" else target
    files = Files.of(str(source), text=[task, *categories], target=goal)
    parts = [replace(files, paths=(path,)) for path in files.paths]
    with _client(scheduler):
        engine = _Cluster(list(files.types), parts, progress or (lambda _: None), files.notes)
        given = {"task": task, "target": target, "categories": categories, **settings}
        return fit_engine(engine, given)


@contextmanager
def _client(address: str | None) -> Iterator[None]:
    from distributed import Client

    try:
        found = nullcontext() if address is None else Client(address, timeout="10s")
    except OSError as error:
        raise OSError(f"No scheduler answers at {address}. Check the address.") from error
    with found:
        yield


class _Cluster:
    """Goes over parts of a table where they are."""

    def __init__(
        self, columns: list[str], parts: list[Any], say: Any, notes: Sequence[str] = ()
    ) -> None:
        self.columns, self.parts = columns, list(enumerate(parts))
        self.say, self.notes = say, notes
        self.n_passes = 0
        self.counts: list[tuple[NDArray[Any], NDArray[np.int64]]] = []

    def survey(self, start: Survey, columns: list[str], types: dict[str, str], seed: int) -> Survey:
        """Look at all rows, and count those of each task in every part."""
        import dask

        self.say(f"Looking at {len(self.parts):,} parts")
        look = dask.delayed(_look, nout=2)
        looked = [look(p, k, columns, start, types, seed) for k, p in self.parts]
        merged = _tree(dask.delayed(_merged), [survey for survey, _ in looked])
        found, *counts = dask.compute(merged, *(counts for _, counts in looked))
        filled = [k for k, (labels, _) in enumerate(counts) if len(labels)]
        self.parts, self.counts = [self.parts[k] for k in filled], [counts[k] for k in filled]
        survey: Survey = found
        return survey

    def sums(self, plan: Plan) -> tuple[Statistics, Shown]:
        """Sum all rows; and keep some."""
        import dask

        self.say(f"Adding up {len(self.parts):,} parts")
        n_tasks, width = len(plan.labels), len(plan.encoder.feature_names) + 1
        added, shared = dask.delayed(_added), dask.delayed(plan)
        seen, outs = np.zeros(n_tasks, dtype=np.int64), []
        for (k, part), (labels, counts) in zip(self.parts, self.counts, strict=True):
            where = plan.labels.get_indexer(pd.Index(labels))
            outs.append(added(part, k, shared, where, seen[where]))
            seen[where] += counts
        merged = self._merged([out[0] for out in outs], n_tasks, plan.n_summed * width**2)
        *found, shown = dask.compute(*merged, [out[1] for out in outs])
        sums = Statistics.empty(np.arange(n_tasks), width - 1, plan.n_summed)
        for part in found:
            sums += part
        return sums, Shown.of(shown)

    def passed(self, plan: Plan, at: Pass) -> PassSums:
        """Sum all rows at some parameters."""
        import dask

        self.n_passes += 1
        self.say(f"Pass {self.n_passes} over {len(self.parts):,} parts")
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
) -> tuple[Survey, tuple[NDArray[Any], NDArray[np.int64]]]:
    """Survey a part, and count the rows of its tasks."""
    survey = start.copy()
    counts = pd.Series(dtype=np.int64)
    with _named(part, number):
        for frame in _frames(part, columns):
            survey.look(frame, number, types, seed)
            _, codes, labels = usable(frame, start.task, start.target, drop=start.drop)
            found = pd.Series(np.bincount(codes, minlength=len(labels)), index=labels)
            counts = counts.add(found.groupby(level=0).sum(), fill_value=0).astype(np.int64)
    return survey, (counts.index.to_numpy(), counts.to_numpy())


def _added(
    part: Any,
    number: int,
    plan: Plan,
    where: NDArray[np.intp],
    before: NDArray[np.int64],
) -> tuple[Statistics, Shown]:
    """Sum a part, and keep some of its rows."""
    seen = np.zeros(len(plan.labels), dtype=np.int64)
    seen[where] = before
    sums = Statistics(plan.n_summed)
    with _named(part, number):
        shown = [plan.add_up(frame, seen, sums) for frame in _frames(part, plan.columns)]
    return sums, Shown.of(shown)


def _passed(part: Any, number: int, shared: tuple[Plan, Pass]) -> PassSums:
    """Sum a part at some parameters."""
    plan, at = shared
    with _named(part, number):
        return reduce(add, (plan.passed(frame, at) for frame in _frames(part, plan.columns)))


def _cut(sums: Any, bounds: NDArray[np.intp]) -> list[Any]:
    """Divide sums into ranges of tasks."""
    tasks = sums.labels if isinstance(sums, Statistics) else sums.tasks
    return [sums.take(slice(*pair)) for pair in pairwise(np.searchsorted(tasks, bounds))]
