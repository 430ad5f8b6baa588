"""Tables on many machines: Dask sums the parts of a table where they are."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

from crosslearning.extras import require
from crosslearning.tables.engines.dask import ClusterEngine
from crosslearning.tables.fitting import Progress, silent
from crosslearning.tables.model import TableModel
from crosslearning.tables.pipeline import fit
from crosslearning.tables.reading.files import Files
from crosslearning.tables.settings import FitSettings, with_options

__all__ = ["fit_files", "fit_table"]


@with_options
def fit_table(
    frame: Any,
    *,
    held_out: str | os.PathLike[str] | None = None,
    command: str = "",
    progress: Progress | None = None,
    **options: Any,
) -> TableModel:
    """Fit a Dask data frame, on the current Dask scheduler.

    Partitions are surveyed and then summed where they are.

    Parameters
    ----------
    frame : dask.dataframe.DataFrame
        The table.
    {options}
    held_out, command, progress
        As in :func:`crosslearning.tables.fit_files`, and the result is the same.

    Returns
    -------
    TableModel
    """
    require("Fitting Dask data frames", "dask")
    columns, parts, report = list(frame.columns), frame.to_delayed(), progress or silent
    engine = ClusterEngine(columns, list(parts), lambda text: report(text, 0.2))
    settings = FitSettings.of(options)
    return fit(engine, settings, held_out=held_out, command=command, progress=progress or silent)


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
    """Fit files that all workers can read; each file is a unit of work.

    Parameters
    ----------
    source : path
        A folder or a pattern, as in :func:`crosslearning.tables.fit_files`.
    {options}
    scheduler : str, optional
        Address of the scheduler; the current one by default.
    held_out, command, progress
        As in :func:`crosslearning.tables.fit_files`, and the result is the same.

    Returns
    -------
    TableModel
    """
    require("Fitting on a cluster", "dask", "distributed")
    settings, report = FitSettings.of(options), progress or silent
    files = Files.for_fit(source, settings)
    parts = [replace(files, paths=(path,)) for path in files.paths]
    with _client(scheduler):
        engine = ClusterEngine(
            columns=list(files.types),
            sources=parts,
            progress=lambda text: report(text, 0.2),
            source=files.source,
            notes=files.notes,
            text_labels=files.text is not None,
        )
        return fit(engine, settings, held_out=held_out, command=command, progress=report)


@contextmanager
def _client(address: str | None) -> Iterator[None]:
    from distributed import Client

    try:
        client = nullcontext() if address is None else Client(address, timeout="10s")
    except OSError as error:
        raise OSError(f"No scheduler answers at {address}. Check the address.") from error
    with client:
        yield
