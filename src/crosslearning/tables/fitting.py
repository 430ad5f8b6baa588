"""Fit a table: a data frame, or files larger than memory, here or on a Dask cluster."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import pandas as pd

from crosslearning.extras import require
from crosslearning.frames.reading import Files
from crosslearning.tables.describe import describe
from crosslearning.tables.engines import ClusterEngine, Engine, FrameTable
from crosslearning.tables.model import TableModel
from crosslearning.tables.pipeline import HeldOut, Progress, fit
from crosslearning.tables.settings import FitSettings, with_options

CURRENT = "current"  # scheduler


@with_options
def fit_table(
    frame: Any,
    *,
    held_out: HeldOut | None = None,
    command: str = "",
    progress: Progress | None = None,
    **options: Any,
) -> TableModel:
    """Fit one model per task to a table, and find out whether sharing between tasks helps.

    Parameters
    ----------
    frame : DataFrame
        The table, one row per example. Rows without a target are omitted and counted. Partitions of
        a Dask data frame are summed where they are, as :func:`fit_files` does chunks.
    {options}
    held_out : DataFrame or path, optional
        Another table on which to score the models. One that is read in chunks, from a path, is
        scored by the chosen model alone.
    command : str, optional
        Command that repeats the fit, for the results.
    progress : callable, optional
        Called with a description of the current step and the share of the work that is done.

    Returns
    -------
    TableModel
        Predicts and saves itself; the findings are in ``results``.

    Notes
    -----
    Models are scored on held-out rows; how much they share comes from the evidence of the training
    rows. The best of them, or a blend weighted on held-out rows, is fitted to all rows. Medians,
    levels and knots come from all rows, but not from their targets.

    Examples
    --------
    >>> from crosslearning.datasets import load_hsb82
    >>> from crosslearning.tables import fit_table
    >>> pupils = load_hsb82().frame.head(400)
    >>> model = fit_table(pupils, task="school", target="math", features=["ses"], base="linear")
    >>> model.results["target_kind"], model.results["verdict"]["effect"]
    ('regression', 'undecided')
    >>> model.predict(pupils.head(2)).columns.tolist()
    ['prediction', 'lower', 'upper', 'std']
    """
    settings, report = FitSettings.of(options), progress or (lambda *_: None)
    if isinstance(frame, pd.DataFrame):
        engine = Engine(FrameTable(frame))
    elif hasattr(frame, "to_delayed"):
        require("Fitting Dask data frames", "dask")
        import dask

        table = FrameTable(pd.DataFrame(columns=list(frame.columns)))
        parts = [dask.delayed(FrameTable)(part, k) for k, part in enumerate(frame.to_delayed())]
        engine = ClusterEngine(table, lambda text: report(text, 0.2), parts=parts)
    else:
        raise TypeError(
            f"`fit_table` takes a DataFrame; got {type(frame).__name__}. Use `read_table` or "
            "`fit_files` for a file."
        )
    return _fitted(engine, settings, held_out, command, report)


@with_options
def fit_files(
    source: str | os.PathLike[str],
    *,
    scheduler: str | None = None,
    held_out: str | os.PathLike[str] | None = None,
    command: str = "",
    progress: Progress | None = None,
    **options: Any,
) -> TableModel:
    """Fit a table that is read in chunks, as :func:`fit_table` does one in memory.

    It is read twice: for the labels of tasks and a sample, from which columns are recognised; and
    for the sums of each task and fold. At most 65,536 rows are kept in memory, and the fit is that
    of :func:`fit_table`. Otherwise models are linear. Those of numbers, and their mean squared
    errors, follow from the sums. Classes and counts, and other metrics, are compared on the rows of
    some tasks, and the best model takes some 10 more passes. Levels, medians that replace missing
    values, and moments that divide the rows come from the sample.

    Parameters
    ----------
    source : path
        A file, a folder of files, or a pattern such as ``"part-*.parquet"``: Parquet, or CSV.
    {options}
    scheduler : str, optional
        Address of a Dask scheduler whose workers can read the files, or "current"; each file is a
        unit of work. By default files are read here, one after the other.
    held_out : path, optional
        Another table, on which the model is scored.
    command, progress
        As in :func:`fit_table`.
    """
    settings, report = FitSettings.of(options), progress or (lambda *_: None)
    if scheduler is not None:
        require("Fitting on a cluster", "dask", "distributed")
    files = Files.of(str(source), text=[*settings.task, *settings.categories])
    engine = Engine(files, lambda text: report(text, 0.2))
    if scheduler is not None:
        parts = [replace(files, paths=(one,), first=k) for k, one in enumerate(files.paths)]
        engine = ClusterEngine(files, engine.progress, parts=parts)
    with _client(scheduler):
        return _fitted(engine, settings, held_out, command, report)


def _fitted(
    engine: Engine, settings: FitSettings, held_out: HeldOut | None, command: str, report: Progress
) -> TableModel:
    outcome = fit(engine, settings, held_out, report)
    return replace(outcome.model, findings=describe(outcome, command))


def _client(address: str | None) -> AbstractContextManager[Any]:
    """Connect to a scheduler, unless it is the current one or there is none."""
    if address in (None, CURRENT):
        return nullcontext()
    from distributed import Client

    try:
        client: AbstractContextManager[Any] = Client(address, timeout="10s")
    except (OSError, ValueError) as error:
        raise OSError(
            f"No scheduler answers at {address}. An address is such as tcp://10.0.0.1:8786."
        ) from error
    return client
