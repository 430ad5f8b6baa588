"""Predictions beside a table larger than memory, a piece at a time."""

from __future__ import annotations

import gzip
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import pandas as pd

from crosslearning.files import replacing
from crosslearning.tables._files import MISSING, Files, frame_of, located
from crosslearning.tables.prediction import Predicted, refuse_taken
from crosslearning.tables.writing import format_of

if TYPE_CHECKING:
    from crosslearning.tables.model import TableModel


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
    from crosslearning.tables.scoring import Scorer

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
                refuse_taken(predictions, frame)
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
        yield _Text(out, separator)
        return
    path = Path(out)
    try:
        with replacing(path) as temporary:
            if not text:
                with _Parquet(temporary) as parquet:
                    yield parquet
            else:
                with gzip.open(temporary, "wb") if packed else temporary.open("wb") as stream:
                    yield _Text(stream, separator)
    except OSError as error:
        if error.errno is None:  # said already, of the table that is read
            raise
        raise OSError(
            f"Cannot write {path}: {error.strerror or error}. Choose another file."
        ) from error


class _Text:
    """Writes pieces as text, the header once."""

    def __init__(self, stream: Any, separator: str) -> None:
        self.stream, self.separator, self.header = stream, separator, True

    def __call__(self, table: Any, frame: pd.DataFrame, predictions: pd.DataFrame) -> None:  # noqa: ARG002
        both = pd.concat([frame, predictions], axis=1)
        both.to_csv(self.stream, sep=self.separator, header=self.header, index=False)
        self.header = False


class _Parquet:
    """Writes pieces as row groups."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.writer: Any = None

    def __enter__(self) -> _Parquet:
        return self

    def __exit__(self, *_: object) -> None:
        if self.writer is not None:
            self.writer.close()

    def __call__(self, table: Any, frame: pd.DataFrame, predictions: pd.DataFrame) -> None:  # noqa: ARG002
        import pyarrow as pa
        import pyarrow.parquet as pq

        for name in predictions.columns:
            table = table.append_column(name, pa.Array.from_pandas(predictions[name]))
        if self.writer is None:
            self.writer = pq.ParquetWriter(self.path, table.schema)
        self.writer.write_table(table.cast(self.writer.schema))
