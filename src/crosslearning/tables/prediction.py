"""A table with its predictions, whole or in chunks."""

import io
import os
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from crosslearning.tables.forecast import Score, Scorer
from crosslearning.tables.model import TableModel, Untested
from crosslearning.tables.reading import (
    Files,
    Source,
    read_table,
    read_verbatim,
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
        Number of rows of each new task, predicted by the centre; None stands for no label.
    in_groups : int
        Number of these rows that are predicted by a group of tasks that is in the fit.
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
    in_groups: int = 0
    categories: dict[str, Counter[str]] = field(default_factory=dict)
    outside_rows: int = 0
    outside: Counter[str] = field(default_factory=Counter)
    unread: Counter[str] = field(default_factory=Counter)
    untested: Untested | None = None

    def add(self, model: TableModel, frame: pd.DataFrame) -> None:
        """Take some rows into account."""
        self.rows += len(frame)
        self.unknown.update(model.unknown_tasks(frame))
        self.in_groups += model.count_in_groups(frame)
        for name, counts in model.unknown_categories(frame).items():
            self.categories.setdefault(name, Counter()).update(counts)
        outside_rows, outside = model.encoder.outside(frame)
        self.outside_rows += outside_rows
        self.outside.update(outside)
        self.unread.update(model.encoder.unread(frame))
        if late := model.untested(frame):
            before = self.untested.rows if self.untested else 0
            self.untested = late._replace(rows=before + late.rows)


def predict_table(
    model: TableModel,
    source: Source,
    *,
    coverage: float = 0.9,
    verbatim: bool = False,
) -> Predicted:
    """Read a table and add predictions to it, in the order of its rows.

    Parameters
    ----------
    model : TableModel
        The fit.
    source : path or binary stream
        The table.
    coverage : float, default=0.9
        Probability that a number lies in its interval.
    verbatim : bool, default=False
        Whether to keep the fields of a text file as written, so that they can be written again.

    Returns
    -------
    Predicted
    """
    again: Any = io.BytesIO(source.read()) if hasattr(source, "read") else source
    frame, predicted = read_table(again, text=model.text_columns), Predicted()
    predictions = _predictions(model, frame, frame.columns, coverage)
    predicted.add(model, frame)
    predicted.score = model.score(frame)
    if verbatim:
        if again is not source:
            again.seek(0)
        frame = read_verbatim(again)
    predicted.table = _beside(frame, predictions)
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
        File to write, as in :func:`write_table`; fields of text files are copied as written.
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
    as_written = separator_of(out) is not None and files.dialect is not None
    predicted, scorer = Predicted(), Scorer(model)

    def predict(_: int, frame: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
        say(f"Predicting rows: {predicted.rows:,}")
        predictions = _predictions(model, frame, frame.columns, coverage)
        predicted.add(model, frame)
        if model.metric != "auc":  # no mean over chunks
            scorer.add(frame)
        return frame, predictions

    with writer(out) as write:
        chunks = files.each(files.columns, predict)
        verbatim = replace(files, verbatim=True).each(files.columns, lambda _, frame: frame)
        for frame, predictions in chunks:
            write(_beside(next(verbatim) if as_written else frame, predictions))
    predicted.score = scorer.score
    return predicted


def _predictions(
    model: TableModel, frame: pd.DataFrame, taken: Iterable[str], coverage: float
) -> pd.DataFrame:
    """Predict some rows; columns of predictions must not be `taken`."""
    predictions = model.predict(frame, coverage=coverage)
    if twice := [name for name in predictions.columns if name in taken]:
        raise ValueError(
            f"The table already has a column {twice[0]!r}, as the predictions do. Rename or drop "
            "it."
        )
    return predictions


def _beside(frame: pd.DataFrame, predictions: pd.DataFrame) -> pd.DataFrame:
    """Add columns to a table, which is written as it was read."""
    both = pd.concat([frame, predictions], axis=1)
    both.attrs = frame.attrs
    return both
