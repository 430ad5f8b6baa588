"""Predictions beside the table that they are for, whole or a piece at a time."""

from __future__ import annotations

import gzip
import io
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import pandas as pd

from crosslearning.files import replacing
from crosslearning.tables._files import MISSING, Files, frame_of, located
from crosslearning.tables.model import TableModel
from crosslearning.tables.reading import read_table, read_verbatim
from crosslearning.tables.writing import format_of


@dataclass(frozen=True, eq=False)
class Predicted:
    """A table with predictions.

    Attributes
    ----------
    table : DataFrame, optional
        All columns of the input, then those of :meth:`TableModel.predict`; none if it
        is written by pieces.
    unknown : dict
        Number of rows by task that the centre stood in for; None stands for no label.
    categories : dict
        Number of rows by category never seen, by column.
    score : dict or None
        Metric, score and number of rows, if the table has the target.
    rows : int
        Number of rows.
    outside_rows, outside : int, dict
        Number of rows with a number outside the range of the fit: in all, and by column, most
        first.
    """

    table: pd.DataFrame | None
    unknown: dict[Any, int]
    categories: dict[str, dict[str, int]]
    score: dict[str, Any] | None
    rows: int
    outside_rows: int
    outside: dict[str, int]


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
        Whether to keep the fields of a text file as they are written, for writing them again.

    Returns
    -------
    Predicted
    """
    again: Any = io.BytesIO(source.read()) if hasattr(source, "read") else source
    frame = read_table(again, text=model.text_columns)
    predictions = model.predict(frame, coverage=coverage)
    _refuse_taken(predictions, frame)
    found = model.unknown_tasks(frame), model.unknown_categories(frame), model.score(frame)
    outside_rows, outside = model.outside(frame)
    if verbatim:
        if again is not source:
            again.seek(0)
        frame = read_verbatim(again)
    table = pd.concat([frame, predictions], axis=1)
    table.attrs = frame.attrs
    return Predicted(table, *found, len(frame), outside_rows, dict(Counter(outside).most_common()))


def _refuse_taken(predictions: pd.DataFrame, frame: pd.DataFrame) -> None:
    """Refuse a table that has columns where predictions are to go."""
    taken = [name for name in predictions.columns if name in frame.columns]
    if taken:
        raise ValueError(
            f"The table has a column {taken[0]!r} already, where predictions are to go. "
            "Rename or drop it."
        )


def predict_files(
    model: TableModel,
    source: str | os.PathLike[str],
    out: str | os.PathLike[str] | BinaryIO,
    *,
    coverage: float = 0.9,
    progress: Callable[[str], object] | None = None,
) -> Predicted:
    """Add predictions to a table that is read and written by pieces, in the order of its rows.

    Parameters
    ----------
    model : TableModel
        The fit.
    source : path
        A file, a folder of files, or a pattern: Parquet, or CSV.
    out : path or binary stream
        File to write, as in :func:`write_table`; text keeps the fields of text as they are.
    coverage : float, default=0.9
        Probability that a number lies in its interval.
    progress : callable, optional
        Called with what is being done.

    Returns
    -------
    Predicted
        Without a table; `rows` counts those that were written.
    """
    from crosslearning.tables.metrics import Scorer

    say = progress or (lambda _: None)
    files = Files.of(str(source), text=model.text_columns)
    text, separator, packed = format_of(out)
    if text and files.text is not None:
        files = replace(files, verbatim=True)
    unknown: Counter[Any] = Counter()
    categories: dict[str, Counter[str]] = {}
    scorer = Scorer(model) if model.metric != "auc" and model.target in files.types else None
    done = outside_rows = 0
    outside: Counter[str] = Counter()
    with _writer(out, text=text, separator=separator, packed=packed) as write:
        for path, start, table in files.tables(list(files.types)):
            say(f"Predicting rows: {done:,}")
            with located(path):
                frame = frame_of(table, start)
                understood = _understood(model, files, frame) if files.verbatim else frame
                predictions = model.predict(understood, coverage=coverage)
                _refuse_taken(predictions, frame)
                unknown.update(model.unknown_tasks(understood))
                for name, counts in model.unknown_categories(understood).items():
                    categories.setdefault(name, Counter()).update(counts)
                beyond, by_column = model.outside(understood)
                outside_rows += beyond
                outside.update(by_column)
                if scorer is not None and understood[model.target].notna().any():
                    scorer.add(understood)
            write(table, frame, predictions)
            done += len(frame)
    score = scorer.score if scorer is not None and scorer.rows else None
    counted = {name: dict(counts.most_common()) for name, counts in categories.items()}
    return Predicted(
        None, dict(unknown.most_common()), counted, score, done, outside_rows,
        dict(outside.most_common()),
    )  # fmt: skip


def _understood(model: TableModel, files: Files, frame: pd.DataFrame) -> pd.DataFrame:
    """Fields of text as values: numbers where the fit has them, gaps where nothing is said."""
    assert files.text is not None
    columns = {}
    for name in {model.task, model.target, *model.encoder.columns} & set(frame.columns):
        values = frame[name].astype(object).str.strip()
        values = values.where(~values.isin(MISSING), None)
        numeric = name in model.encoder.plain or (name == model.target and model.classes is None)
        if numeric and files.text["decimal"] == ",":
            values = values.str.replace(",", ".")
        columns[name] = values
    return pd.DataFrame(columns, index=frame.index)


@contextmanager
def _writer(out: Any, *, text: bool, separator: str, packed: bool) -> Iterator[Any]:
    """Open what takes pieces: a file is there in full or not at all."""
    if hasattr(out, "write"):
        yield _text_writer(out, separator)
        return
    path = Path(out)
    try:
        with replacing(path) as temporary:
            if not text:
                with ExitStack() as opened:
                    yield _parquet_writer(temporary, opened)
            else:
                with gzip.open(temporary, "wb") if packed else temporary.open("wb") as stream:
                    yield _text_writer(stream, separator)
    except OSError as error:
        if error.errno is None:  # said already, of the table that is read
            raise
        raise OSError(
            f"Cannot write {path}: {error.strerror or error}. Choose another file."
        ) from error


def _text_writer(stream: Any, separator: str) -> Callable[[Any, pd.DataFrame, pd.DataFrame], None]:
    """Write pieces as text, the header once."""
    header = iter([True])

    def write(_: Any, frame: pd.DataFrame, predictions: pd.DataFrame) -> None:
        both = pd.concat([frame, predictions], axis=1)
        both.to_csv(stream, sep=separator, header=next(header, False), index=False)

    return write


def _parquet_writer(
    path: Path, opened: ExitStack
) -> Callable[[Any, pd.DataFrame, pd.DataFrame], None]:
    """Write pieces as row groups."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    writers: list[Any] = []

    def write(table: Any, _: pd.DataFrame, predictions: pd.DataFrame) -> None:
        for name in predictions.columns:
            table = table.append_column(name, pa.Array.from_pandas(predictions[name]))
        if not writers:
            writers.append(opened.enter_context(pq.ParquetWriter(path, table.schema)))
        writers[0].write_table(table.cast(writers[0].schema))

    return write
