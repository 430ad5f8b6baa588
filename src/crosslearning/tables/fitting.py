"""Fit a table: a data frame, or files larger than memory."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pandas as pd

from crosslearning.tables.engines.local import FilesEngine, FrameEngine
from crosslearning.tables.model import TableModel
from crosslearning.tables.pipeline import fit
from crosslearning.tables.reading.files import Files
from crosslearning.tables.settings import FitSettings, with_options

Progress = Callable[[str, float], object]


def silent(text: str, share: float) -> None:
    """Say nothing."""


@with_options
def fit_table(
    frame: pd.DataFrame,
    *,
    held_out: pd.DataFrame | None = None,
    command: str = "",
    progress: Progress | None = None,
    **options: Any,
) -> TableModel:
    """Fit one model per task to a table, and find out whether sharing between tasks helps.

    Parameters
    ----------
    frame : DataFrame
        The table, one row per example. Rows without a target are omitted and counted.
    {options}
    held_out : DataFrame, optional
        Another table on which to score the models.
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
    levels and knots come from all rows, but not from their targets; of these only the range and
    the unit of the predictions of trees do.

    Examples
    --------
    >>> from crosslearning.datasets import load_hsb82
    >>> from crosslearning.tables import fit_table
    >>> pupils = load_hsb82().frame.head(400)
    >>> model = fit_table(pupils, task="school", target="math", features=["ses"], base="linear")
    >>> model.results["target_kind"], model.results["comparison"]["effect"]
    ('regression', 'undecided')
    >>> model.predict(pupils.head(2)).columns.tolist()
    ['prediction', 'lower', 'upper', 'std']
    """
    if not isinstance(frame, pd.DataFrame):
        raise TypeError(
            f"`fit_table` takes a DataFrame; got {type(frame).__name__}. Use `read_table` or "
            "`fit_files` for a file."
        )
    engine, settings = FrameEngine(frame), FitSettings.of(options)
    return fit(engine, settings, held_out=held_out, command=command, progress=progress or silent)


@with_options
def fit_files(
    source: str | os.PathLike[str],
    *,
    held_out: str | os.PathLike[str] | None = None,
    command: str = "",
    progress: Progress | None = None,
    **options: Any,
) -> TableModel:
    """Fit a table that is read in chunks, as :func:`fit_table` does one in memory.

    It is read twice: to learn labels, levels and gaps and to draw a sample, from which columns are
    recognised; and to sum the rows of each task and fold. If there are at most 65,536 rows, they
    are kept in memory, and the fit is that of :func:`fit_table`. Otherwise memory holds the sums
    and two chunks, and models are linear. Those of numbers, and their mean squared errors, follow
    from the sums. Classes and counts, and other metrics, are compared on the rows of some tasks,
    and the best model takes some 10 more passes. Medians, which replace missing values, and moments
    that rows are divided at are those of the sample.

    Parameters
    ----------
    source : path
        A file, a folder of files, or a pattern such as ``"part-*.parquet"``: Parquet, or CSV.
    {options}
    held_out : path, optional
        Another table, on which the model is scored.
    command : str, optional
        Command that repeats the fit, for the results.
    progress : callable, optional
        Called with a description of the current step and the share of the work that is done.

    Returns
    -------
    TableModel
    """
    settings, report = FitSettings.of(options), progress or silent
    engine = FilesEngine(Files.for_fit(source, settings), lambda text: report(text, 0.2))
    return fit(engine, settings, held_out=held_out, command=command, progress=progress or silent)
