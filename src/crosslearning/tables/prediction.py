"""A table with its predictions, whole or in chunks."""

import io
import os
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import pandas as pd

from crosslearning.tables.metrics import Scorer
from crosslearning.tables.model import TableModel
from crosslearning.tables.reading.files import MISSING, Files, frame_of, located
from crosslearning.tables.reading.tables import read_table, read_verbatim
from crosslearning.tables.writing import format_of, refuse_overwriting, writer


@dataclass(frozen=True, eq=False)
class Predicted:
    """A table with predictions.

    Attributes
    ----------
    table : DataFrame, optional
        All columns of the input, then those of :meth:`TableModel.predict`; none if it was written
        in chunks.
    unknown : dict
        Number of rows of each new task, predicted by the centre; None stands for no label.
    categories : dict
        Number of rows of each new category, by column.
    score : dict or None
        Metric, score and number of rows, if the table has the target.
    rows : int
        Number of rows.
    outside_rows, outside : int, dict
        Number of rows with a number or date outside the range of the fit: in all, and by column,
        most first.
    unread : dict
        Number of values that are not numbers and count as missing, by column of numbers.
    untested : dict, optional
        Number of ``rows`` whose time, in ``column``, is after ``until``, farther ahead than tested.
    """

    table: pd.DataFrame | None
    unknown: dict[Any, int]
    categories: dict[str, dict[str, int]]
    score: dict[str, Any] | None
    rows: int
    outside_rows: int
    outside: dict[str, int]
    unread: dict[str, int]
    untested: dict[str, Any] | None = None


class _Tally:
    """Predictions of a table, whole or in chunks, and what is remarkable about its rows."""

    def __init__(self, model: TableModel, coverage: float, *, chunks: bool) -> None:
        self.model, self.coverage = model, coverage
        self.scorer: Scorer | None = None
        self.scored = not (chunks and model.metric == "auc")  # no mean over chunks
        self.rows = self.outside_rows = 0
        self.untested: dict[str, Any] | None = None
        self.unknown: Counter[Any] = Counter()
        self.outside: Counter[str] = Counter()
        self.unread: Counter[str] = Counter()
        self.categories: dict[str, Counter[str]] = {}

    def predict(self, frame: pd.DataFrame, taken: Iterable[Any]) -> pd.DataFrame:
        """Predict some rows; columns of predictions must not be `taken`."""
        model = self.model
        predictions = model.predict(frame, coverage=self.coverage)
        if twice := [name for name in predictions.columns if name in taken]:
            raise ValueError(
                f"The table already has a column {twice[0]!r}, as the predictions do. "
                "Rename or drop it."
            )
        self.rows += len(frame)
        self.unknown.update(model.unknown_tasks(frame))
        for name, counts in model.unknown_categories(frame).items():
            self.categories.setdefault(name, Counter()).update(counts)
        beyond, by_column = model.encoder.outside(frame)
        self.outside_rows += beyond
        self.outside.update(by_column)
        if late := model.untested(frame):
            self.untested = late | {"rows": late["rows"] + (self.untested or {"rows": 0})["rows"]}
        self.unread.update(model.encoder.unread(frame))
        if self.scored and model.target in frame.columns and frame[model.target].notna().any():
            self.scorer = self.scorer or Scorer(model)
            self.scorer.add(frame)
        return predictions

    def result(self, table: pd.DataFrame | None) -> Predicted:
        categories = {name: dict(counts.most_common()) for name, counts in self.categories.items()}
        return Predicted(
            table,
            dict(self.unknown.most_common()),
            categories,
            self.scorer.score if self.scorer else None,
            self.rows,
            self.outside_rows,
            dict(self.outside.most_common()),
            dict(self.unread.most_common()),
            untested=self.untested,
        )


def predict_table(
    model: TableModel,
    source: str | os.PathLike[str] | BinaryIO,
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
    frame, tally = read_table(again, text=model.text_columns), _Tally(model, coverage, chunks=False)
    predictions = tally.predict(frame, frame.columns)
    if verbatim:
        if again is not source:
            again.seek(0)
        frame = read_verbatim(again)
    table = pd.concat([frame, predictions], axis=1)
    table.attrs = frame.attrs
    return tally.result(table)


def predict_files(
    model: TableModel,
    source: str | os.PathLike[str],
    out: str | os.PathLike[str] | BinaryIO,
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
    text = format_of(out)[0]
    files = replace(files, verbatim=text and files.text is not None)
    parquet = not text and Path(str(out)).suffix == ".parquet"
    tally = _Tally(model, coverage, chunks=True)
    with writer(out) as write:
        for path, start, table in files.tables(list(files.types)):
            say(f"Predicting rows: {tally.rows:,}")
            with located(path):
                frame = frame_of(table, start)
                known = _understood(model, frame) if files.verbatim else frame
                if files.text is not None:
                    known.attrs["decimal"] = files.text["decimal"]
                predictions = tally.predict(known, frame.columns)
            write(_appended(table, predictions) if parquet else _beside(frame, predictions, files))
    return tally.result(None)


def _appended(table: Any, predictions: pd.DataFrame) -> Any:
    """Add columns to an Arrow table, whose own types stay as they are."""
    import pyarrow as pa

    for name in predictions.columns:
        table = table.append_column(name, pa.Array.from_pandas(predictions[name]))
    return table


def _beside(frame: pd.DataFrame, predictions: pd.DataFrame, files: Files) -> pd.DataFrame:
    both = pd.concat([frame, predictions], axis=1)
    if files.verbatim and files.text is not None:
        both.attrs["dialect"] = tuple(files.text[name] for name in ("sep", "decimal", "encoding"))
    return both


def _understood(model: TableModel, frame: pd.DataFrame) -> pd.DataFrame:
    """Fields of text that the fit needs, without marks of missing values."""
    columns = {}
    for name in {model.task, model.target, *model.encoder.columns} & set(frame.columns):
        values = frame[name].astype(object).str.strip()
        columns[name] = values.where(~values.isin(MISSING), None)
    return pd.DataFrame(columns, index=frame.index)
