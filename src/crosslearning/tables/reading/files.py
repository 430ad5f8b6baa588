"""A table in files, read in chunks: Parquet, or CSV and its relatives."""

from __future__ import annotations

import glob
import io
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import pandas as pd

from crosslearning.extras import require
from crosslearning.tables.columns.recognition import (
    as_numbers,
    column_of,
    refuse_slips,
    slips_note,
)
from crosslearning.tables.reading.numerals import mark_of
from crosslearning.tables.reading.tables import Dialect, dialect_of, read_table

_NUMBERS = 2**23  # in a chunk
_LARGE = 2**25  # numbers in a file; larger ones are read in chunks
_BYTES = 8  # of text for a number, about
_HEAD = 2**22  # bytes of text to recognise types from
_BLOCK = 2**24  # bytes of text to parse at once
MISSING = (
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
    "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null", "?", ".", "-", "--",
)  # fmt: skip
TRUE, FALSE = ("True", "TRUE", "true"), ("False", "FALSE", "false")
_TEXT = (".csv", ".tsv", ".txt")
T = TypeVar("T")
_ROW = re.compile(r"In CSV column #\d+: Row #(\d+): (.*)", re.DOTALL)


@dataclass(frozen=True)
class Files:
    """Files of one table, all of the same columns.

    `types` are Arrow's by name, in the order of the first file; `text` is the dialect of text
    files, whose fields are left as written if `verbatim`. Only Parquet files tell the number of
    rows. Text in columns of `marks` holds numbers with these decimal marks, and
    `notes` tell what among it does not; in the `target` that is an error.
    """

    source: str
    paths: tuple[Path, ...]
    types: dict[str, Any]
    text: Dialect | None
    n_rows: int | None
    verbatim: bool = False
    marks: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    target: str | None = None
    first: int = 0  # number of the first file, if these are some of several
    text_as_categories: ClassVar[bool] = True

    @classmethod
    def of(cls, pattern: str, *, text: Collection[str] = (), target: str | None = None) -> Files:
        """Open a file, a folder, or all that a pattern such as ``part-*.parquet`` matches.

        Columns of text files whose names are in `text` are not taken for numbers.
        """
        require("Reading large tables", "pyarrow")
        paths = _matching(pattern)
        with located(paths[0]), paths[0].open("rb") as stream:
            parquet = stream.read(4) == b"PAR1"
        if parquet:
            types, n_rows = _parquet_types(paths)
            return cls(source=pattern, paths=paths, types=types, text=None, n_rows=n_rows)
        with located(paths[0]):
            head = _head(paths[0])
            first = read_table(io.BytesIO(head), text=text)
            dialect, _ = dialect_of(io.BytesIO(head))
        numeric = {
            str(name): values
            for name, values in first.select_dtypes(exclude=["number", "bool"]).items()
            if name not in text and column_of(values).type == "number"
        }
        notes = [
            slips_note(name, [*map(repr, values[np.isnan(as_numbers(values))].dropna().unique())])
            for name, values in numeric.items()
        ]
        return cls(
            source=pattern,
            paths=paths,
            types={str(name): _arrow_type(first[name]) for name in first},
            text=dialect,
            n_rows=None,
            marks={name: mark_of(values) for name, values in numeric.items()},
            notes=tuple(filter(None, notes)),
            target=target,
        )

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self.types)

    @property
    def text_labels(self) -> bool:
        """Whether labels of tasks were read as text."""
        return self.text is not None

    def each(self, columns: Sequence[str], work: Callable[[int, pd.DataFrame], T]) -> Iterator[T]:
        """Yield the result of some work on the number of a file and a chunk of its rows.

        An index numbers the rows of a file.
        """
        for path, start, table in self.tables(columns):
            with located(path):
                frame = frame_of(table, start)
                for name in frame.columns.intersection(list(self.marks)):
                    numbers = as_numbers(frame[name], self.marks[name])
                    if name == self.target:
                        refuse_slips(frame[name], numbers)
                    frame[name] = numbers
                result = work(self.first + self.paths.index(path), frame)
            yield result

    def tables(self, columns: Sequence[str]) -> Iterator[tuple[Path, int, Any]]:
        """Read chunks as Arrow has them: file, number of the first row, and rows."""
        import pyarrow as pa

        size = max(_NUMBERS // max(len(columns), 1), 1)
        for path in self.paths:
            batches: list[Any] = []
            start = count = 0
            with located(path):
                for batch in self._batches(path, list(columns)):
                    batches.append(batch)
                    count += len(batch)
                    if count >= size:
                        table = pa.Table.from_batches(batches)
                        batches.clear()
                        yield path, start, table
                        start, count = start + count, 0
            if count:
                yield path, start, pa.Table.from_batches(batches)

    def _batches(self, path: Path, columns: list[str]) -> Iterator[Any]:
        import pyarrow as pa

        if self.text is None:
            import pyarrow.parquet as pq

            # Columns are decoded as they are asked for, not whole row groups ahead.
            with pq.ParquetFile(path, buffer_size=2**20) as file:
                for batch in file.iter_batches(_NUMBERS // max(len(columns), 1), columns=columns):
                    types = [(name, self.types[name]) for name in batch.schema.names]
                    yield batch.cast(pa.schema(types))  # as in the first file
            return
        from pyarrow import csv

        utf8 = self.text.encoding.startswith("utf-8")  # whose mark pyarrow knows
        encoding = "utf8" if utf8 else self.text.encoding
        # Without threads, for errors to name the row.
        read = csv.ReadOptions(use_threads=False, block_size=_BLOCK, encoding=encoding)
        parse = csv.ParseOptions(delimiter=self.text.separator, newlines_in_values=True)
        convert = csv.ConvertOptions(
            column_types={n: pa.string() if self.verbatim else self.types[n] for n in columns},
            include_columns=columns,
            null_values=[] if self.verbatim else MISSING,
            strings_can_be_null=not self.verbatim,
            true_values=TRUE,
            false_values=FALSE,
            decimal_point=self.text.decimal,
        )
        with pa.input_stream(path) as stream, csv.open_csv(stream, read, parse, convert) as reader:
            for batch in reader:
                yield batch if self.verbatim else _stripped(batch)


@contextmanager
def located(path: Path) -> Iterator[None]:
    """Say in errors which file, and where pyarrow knows it which row."""
    import pyarrow as pa

    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error).splitlines()[0]
        raise OSError(f"Cannot read {path}: {reason}. Check the file.") from error
    except pa.ArrowException as error:
        reason = " ".join(str(error).split())
        if row := _ROW.fullmatch(reason):
            reason = f"row {int(row[1]) - 1} (the first below the header is 1): {row[2]}"
        raise ValueError(f"Cannot read {path}: {reason}. Check the file.") from error
    except ValueError as error:
        if str(path) in str(error):
            raise
        raise ValueError(f"{path}: {error}") from error


def is_large(table: str) -> bool:
    """Whether a table is to be read in chunks: several files, or one that is large."""
    path = Path(table)
    if not path.is_file():
        return path.is_dir() or glob.has_magic(table)
    with path.open("rb") as stream:
        head = stream.read(4)
    if head != b"PAR1":
        packed = 4 if head.startswith(b"\x1f\x8b") else 1
        return packed * path.stat().st_size > _LARGE * _BYTES
    require("Reading Parquet files", "pyarrow")
    import pyarrow.parquet as pq

    with located(path):
        stored = pq.read_metadata(path)
    return bool(stored.num_rows * stored.num_columns > _LARGE)


def _matching(pattern: str) -> tuple[Path, ...]:
    path = Path(pattern)
    if path.is_dir():
        inside = sorted(p for p in path.rglob("*") if p.is_file() and p.name[0] not in "._")
        text = [p for p in inside if p.name.removesuffix(".gz").endswith(_TEXT)]
        paths = [p for p in inside if p.suffix == ".parquet"] or text
        if not paths:
            raise ValueError(f"The folder {path} holds no Parquet or CSV file. Check the path.")
        return tuple(paths)
    # Not Path.glob, which wants the folder apart from the pattern.
    paths = [path] if path.is_file() else [Path(p) for p in sorted(glob.glob(pattern))]  # noqa: PTH207
    if not paths:
        raise ValueError(f"No file matches {pattern}. Check the path.")
    return tuple(paths)


def _parquet_types(paths: Sequence[Path]) -> tuple[dict[str, Any], int]:
    """Types of all columns, which all files must have, and the number of rows."""
    import pyarrow.parquet as pq

    types: dict[str, Any] = {}
    n_rows = 0
    for path in paths:
        with located(path), pq.ParquetFile(path) as file:
            n_rows += file.metadata.num_rows
            here = {
                field.name: field.type
                for field in file.schema_arrow
                if not re.fullmatch(r"__index_level_\d+__", field.name)
            }
            types = types or here
            for name, kind in types.items():
                other = here.get(name)
                if other != kind and not (_is_number(other) and _is_number(kind)):
                    raise ValueError(
                        f"All files must have the same columns; {name!r} is {other} in {path}, and "
                        f"{kind} in {paths[0]}. Convert one of them."
                    )
    return types, n_rows


def _is_number(kind: Any) -> bool:
    import pyarrow as pa

    return kind is not None and bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _head(path: Path) -> bytes:
    """Read the first lines of a text file, packed or not."""
    import pyarrow as pa

    with pa.input_stream(path) as stream:
        head: bytes = stream.read(_HEAD)
    return head if len(head) < _HEAD else head[: head.rfind(b"\n") + 1]


def _arrow_type(values: pd.Series[Any]) -> Any:
    """Type of a column by its first rows; whole numbers may be followed by decimals."""
    import pyarrow as pa

    if pd.api.types.is_bool_dtype(values.dtype):
        return pa.bool_()
    return pa.float64() if pd.api.types.is_numeric_dtype(values.dtype) else pa.string()


def _stripped(batch: Any) -> Any:
    """Strip blanks before text, as the reader of small tables does."""
    import pyarrow as pa
    from pyarrow.compute import utf8_ltrim_whitespace as strip

    columns = [strip(c) if pa.types.is_string(c.type) else c for c in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def frame_of(table: Any, start: int) -> pd.DataFrame:
    """Strings become categories: their rows are then numbers."""
    frame: pd.DataFrame = table.replace_schema_metadata(None).to_pandas(
        strings_to_categorical=True, split_blocks=True, date_as_object=False
    )
    frame.index = pd.RangeIndex(start, start + len(frame))
    return frame
