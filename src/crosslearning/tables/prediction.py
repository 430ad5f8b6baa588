"""A table with its predictions, whole or in chunks."""

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from crosslearning.tables.model import Score, Scorer, TableModel, Untested
from crosslearning.tables.reading import (
    Files,
    Source,
    read_table,
    refuse_overwriting,
    separator_of,
    writer,
)


@dataclass(eq=False, kw_only=True)
class Predicted:
    """A table with predictions, and what is remarkable about its rows.

    Attributes
    ----------
    table : DataFrame, optional
        All columns of the input, then those of :meth:`TableModel.predict`; none if it was written
        in chunks.
    score : Score, optional
        Metric, score and number of rows, if the table has the target.
    rows : int
        Number of rows.
    unknown : Counter
        Number of rows of each new task; None stands for no label.
    fallback : str
        What predicts these rows: the centre, or their group if tasks are within groups.
    categories : dict of Counter
        Number of rows of each new category, by column.
    outside_rows, outside : int, Counter
        Number of rows with a number or date outside the range of the fit: in all, and by column.
    unread : Counter
        Number of values that are not numbers and count as missing, by column of numbers.
    untested : Untested, optional
        Number of rows that lie later than any that models were tested on.
    """

    table: pd.DataFrame | None = None
    score: Score | None = None
    rows: int = 0
    unknown: Counter[Any] = field(default_factory=Counter)
    fallback: str = "the centre"
    categories: dict[str, Counter[str]] = field(default_factory=dict)
    outside_rows: int = 0
    outside: Counter[str] = field(default_factory=Counter)
    unread: Counter[str] = field(default_factory=Counter)
    untested: Untested | None = None

    def add(self, model: TableModel, frame: pd.DataFrame, coverage: float) -> pd.DataFrame:
        """Add predictions to some rows, which are written as they were read, and count these."""
        predictions = model.predict(frame, coverage=coverage)
        if twice := [name for name in predictions.columns if name in frame.columns]:
            raise ValueError(
                f"The table already has a column {twice[0]!r}, as the predictions do. Rename or "
                "drop it."
            )
        self.rows += len(frame)
        if model.levels is not None:
            self.fallback = "their group or the centre"
        self.unknown.update(model.unknown_tasks(frame))
        for name, counts in model.encoder.unknown(frame).items():
            self.categories.setdefault(name, Counter()).update(counts)
        outside_rows, outside = model.encoder.outside(frame)
        self.outside_rows += outside_rows
        self.outside.update(outside)
        self.unread.update(model.encoder.unread(frame))
        if late := model.untested(frame):
            before = self.untested.rows if self.untested else 0
            self.untested = late._replace(rows=before + late.rows)
        both = pd.concat([frame, predictions], axis=1)
        both.attrs = frame.attrs
        return both


def predict_table(model: TableModel, source: Source, *, coverage: float = 0.9) -> Predicted:
    """Read a table and add predictions to it, in the order of its rows.

    Parameters
    ----------
    model : TableModel
        The fit.
    source : path or binary stream
        The table.
    coverage : float, default=0.9
        Probability that a number lies in its interval.

    Returns
    -------
    Predicted
    """
    frame, predicted = read_table(source, text=model.text_columns), Predicted()
    predicted.table = predicted.add(model, frame, coverage)
    predicted.score = model.score(frame)
    return predicted


def predict_files(
    model: TableModel,
    source: str | os.PathLike[str],
    out: Source,
    *,
    coverage: float = 0.9,
    progress: Callable[[str], object] | None = None,
) -> Predicted:
    """Add predictions to a table that is read and written in chunks, in the order of its rows.

    Parameters
    ----------
    model : TableModel
        The fit.
    source : path
        A file, a folder of files, or a pattern: Parquet, or CSV.
    out : path or binary stream
        File to write, as in :func:`write_table`; text is written in the dialect of the input.
    coverage : float, default=0.9
        Probability that a number lies in its interval.
    progress : callable, optional
        Called with a description of the current step.

    Returns
    -------
    Predicted
        Without a table; `rows` counts those that were written.
    """
    say = progress or (lambda _: None)
    files = Files.of(str(source), text=model.text_columns)
    refuse_overwriting(out, files.paths)
    separator_of(out)  # refuses names of no format
    predicted, scorer = Predicted(), Scorer(model)

    def predict(_: int, frame: pd.DataFrame) -> pd.DataFrame:
        say(f"Predicting rows: {predicted.rows:,}")
        table = predicted.add(model, frame, coverage)
        if model.metric != "auc":  # no mean over chunks
            scorer.add(frame)
        return table

    with writer(out) as write:
        for table in files.each(files.columns, predict):
            write(table)
    predicted.score = scorer.score
    return predicted
