"""A table with its predictions, whole or in chunks."""

import io
import os
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from crosslearning.tables.forecast import Score, Scorer
from crosslearning.tables.model import TableModel, Untested
from crosslearning.tables.reading import (
    FALSE,
    MISSING,
    TRUE,
    Files,
    Source,
    frame_of,
    located,
    read_table,
    read_verbatim,
    refuse_overwriting,
    separator_of,
    writer,
)

_TRUTH = dict.fromkeys(TRUE, "1") | dict.fromkeys(FALSE, "0")


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
    text = separator_of(out) is not None
    files = replace(files, verbatim=text and files.text is not None)
    parquet = not text and Path(str(out)).suffix == ".parquet"
    predicted, scorer = Predicted(), Scorer(model)
    with writer(out) as write:
        for path, start, table in files.tables(files.columns):
            say(f"Predicting rows: {predicted.rows:,}")
            with located(path):
                frame = frame_of(table, start)
                understood = _understood(model, frame) if files.verbatim else frame
                if files.text is not None:
                    frame.attrs["dialect"] = files.text
                    understood.attrs["decimal"] = files.text.decimal
                predictions = _predictions(model, understood, frame.columns, coverage)
                predicted.add(model, understood)
                if model.metric != "auc":  # no mean over chunks
                    scorer.add(understood)
            write(_appended(table, predictions) if parquet else _beside(frame, predictions))
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


def _appended(table: Any, predictions: pd.DataFrame) -> Any:
    """Add columns to an Arrow table, whose own types stay as they are."""
    import pyarrow as pa

    for name in predictions.columns:
        table = table.append_column(name, pa.Array.from_pandas(predictions[name]))
    return table


def _beside(frame: pd.DataFrame, predictions: pd.DataFrame) -> pd.DataFrame:
    """Add columns to a table, which is written as it was read."""
    both = pd.concat([frame, predictions], axis=1)
    both.attrs = frame.attrs
    return both


def _understood(model: TableModel, frame: pd.DataFrame) -> pd.DataFrame:
    """Fields of text that the fit needs, without marks of missing values."""
    columns, horizon = {}, {model.horizon.column} if model.horizon else set()
    used = {*model.task_columns, model.target, *model.encoder.columns, *horizon}
    for name in used & set(frame.columns):
        texts = pd.Series(frame[name].cat.categories, dtype=object).str.strip()
        texts = texts.replace(_TRUTH) if name in model.encoder.plain else texts
        columns[name] = texts.where(~texts.isin(MISSING), None).to_numpy()[frame[name].cat.codes]
    return pd.DataFrame(columns, index=frame.index)
