"""From files to data frames, whole or in chunks, and back: CSV, Parquet, Excel."""

from __future__ import annotations

import codecs
import csv
import glob
import gzip
import io
import os
import re
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar, cast
from zipfile import BadZipFile

import pandas as pd

from crosslearning.extras import require
from crosslearning.files import replacing
from crosslearning.frames.columns import CODE, decimal_mark

_SEPARATORS = (",", ";", "\t", "|")
_SAMPLE = 1 << 16  # bytes to recognise separator and decimal mark from
_ROWS = 1000  # to recognise integers and decimal marks from
_MISSING = ("?", ".", "-", "--")  # in addition to those of pandas, such as NA
_WRITTEN = {".csv": ",", ".tsv": "\t"}  # separators by suffix
_NUMBERS = 2**24  # in a chunk
_LARGE = 2**25  # numbers in a file; larger ones are read in chunks
_BYTES = 8  # of text for a number, about
_HEAD = 2**22  # bytes of text to recognise types from
Source = str | os.PathLike[str] | BinaryIO  # or where to write to
T = TypeVar("T")


class Dialect(NamedTuple):
    """How a text file is written."""

    separator: str
    decimal: str
    encoding: str


def read_table(source: Source, *, text: Collection[str] = ()) -> pd.DataFrame:
    r"""Read a table from a file whose format is recognised from its first bytes.

    Parameters
    ----------
    source : path or binary stream
        Parquet, Excel (the first sheet), or text in UTF-8, UTF-16 or Latin-1 with a header and
        fields separated by comma, semicolon, tab or bar, with decimal points or commas. Gzipped or
        not.
    text : collection of str, optional
        Columns of text files to keep as text. Columns of digits with leading zeros, or with more
        digits than a float can hold, are kept as text in any case: they are codes.

    Returns
    -------
    DataFrame
        A named index of a Parquet file becomes columns.

    Examples
    --------
    >>> import io
    >>> read_table(io.BytesIO(b"school;ses\nnorth;0,5\n"))
      school  ses
    0  north  0.5
    """
    name = "standard input" if hasattr(source, "read") else str(source)
    with located(name, "Cannot read {} as a table"), _opened(source) as stream:
        frame = _parsed(stream, text)
    if not len(frame):
        raise ValueError(f"{name} has a header but no rows. Add rows.")
    if not hasattr(source, "read"):
        frame.attrs["source"] = name
    return frame


@contextmanager
def _opened(source: Any) -> Iterator[BinaryIO]:
    """Open a file, or buffer a stream, and decompress gzip."""
    buffered = hasattr(source, "read")
    with io.BytesIO(source.read()) if buffered else Path(source).open("rb") as stream:
        packed = stream.read(2) == b"\x1f\x8b"
        stream.seek(0)
        yield cast("BinaryIO", gzip.GzipFile(fileobj=stream)) if packed else stream


def _parsed(stream: BinaryIO, text: Collection[str]) -> pd.DataFrame:
    head = stream.read(_SAMPLE)
    stream.seek(0)
    if head.startswith(b"PAR1"):
        require("A Parquet file", "pyarrow")
        stored = pd.read_parquet(stream)
        named = [name for name in stored.index.names if name is not None]
        return stored.reset_index(named) if named else stored
    if head.startswith(b"PK"):
        require("Reading Excel files", "openpyxl")
        # Cells as they are: otherwise "01" would become a number.
        frame: pd.DataFrame = pd.read_excel(stream, dtype=object, na_values=_MISSING)
        kept = frame.columns.intersection(list(text))
        return frame.astype(dict.fromkeys(kept, "string")).infer_objects()
    dialect, others = dialect_of(head)
    options = _text_options(dialect, [*text, *others])
    try:
        frame = _parsed_text(stream, options)
    except UnicodeDecodeError:  # beyond the head
        if b"\0" in head:
            raise
        options["encoding"] = "cp1252"
        stream.seek(0)
        frame = _parsed_text(stream, options)
    frame.attrs["dialect"] = dialect._replace(encoding=options["encoding"])
    return _with_codes(stream, frame, options)


def _parsed_text(stream: BinaryIO, options: dict[str, Any], **more: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        return pd.read_csv(stream, **options, **more)


def read_verbatim(source: Source, dialect: Dialect) -> pd.DataFrame:
    """Read every field of a text file as it is written."""
    with _opened(source) as stream:
        frame: pd.DataFrame = _parsed_text(stream, _text_options(dialect, None))
    frame.attrs["dialect"] = dialect
    return frame


def _text_options(dialect: Dialect, text: Collection[str] | None) -> dict[str, Any]:
    """Return how pandas reads a dialect with some columns as text; if None, all as written."""
    options = {
        "sep": dialect.separator,
        "encoding": dialect.encoding,
        "skipinitialspace": True,
        "index_col": False,  # otherwise rows longer than the header would shift it
        "low_memory": False,
    }
    if text is None:
        return options | {"dtype": str, "na_filter": False}
    types = dict.fromkeys(text, str)
    return options | {"decimal": dialect.decimal, "dtype": types, "na_values": _MISSING}


def _with_codes(stream: BinaryIO, frame: pd.DataFrame, options: dict[str, Any]) -> pd.DataFrame:
    """Read columns of integers from 0 again as text if a value is written as a code."""
    numbers = frame.select_dtypes("number")
    first = numbers.loc[:, numbers.min() >= 0].head(_ROWS)
    whole = [name for name in first if not first[name].dropna().mod(1).any()]
    if whole:
        stream.seek(0)
        written = pd.read_csv(stream, **(options | {"usecols": whole, "dtype": str}))
        for name in whole:
            if written[name].str.strip().str.fullmatch(CODE).any():
                frame[name] = written[name].str.strip()
    return frame


def dialect_of(head: bytes) -> tuple[Dialect, list[str]]:
    """Guess from its first bytes how a text is written, and which columns have another mark."""
    encoding = _encoding(head)
    sample = head[:_SAMPLE].decode(encoding, errors="ignore")
    separator = max(_SEPARATORS, key=re.sub(r'"[^"]*"', "", sample.split("\n", 1)[0]).count)
    lines = io.StringIO(sample, newline=None)
    rows = list(islice(csv.reader(lines, delimiter=separator, skipinitialspace=True), _ROWS))
    header = [name for name in rows[0] if name] if len(rows) > 1 else []
    if twice := [name for name, count in Counter(header).items() if count > 1]:
        # pandas would rename the second
        raise ValueError(f"two columns have the name {twice[0]!r}. Rename one of them.")
    columns = dict(zip(*rows[:1], zip_longest(*rows[1:], fillvalue=""), strict=False))
    marks = {name: decimal_mark(dict.fromkeys(cells)) for name, cells in columns.items()}
    shown = [mark for mark in marks.values() if mark]
    if not shown and separator != ",":  # programs that write decimal points separate by comma
        cells = (cell for column in columns.values() for cell in column)
        shown = [","] if any(re.fullmatch(r"\d+,\d{3}", cell) for cell in cells) else []
    decimal = max(".,", key=shown.count)
    others = [name for name, mark in marks.items() if mark not in (None, decimal)]
    return Dialect(separator, decimal, encoding), others


def _encoding(head: bytes) -> str:
    """Recognise UTF-16 by its mark; what is not UTF-8 is taken for Latin-1."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return "cp1252" if b"\0" not in head else "utf-8"
    return "utf-8-sig" if head.startswith(codecs.BOM_UTF8) else "utf-8"


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError | BadZipFile | KeyError):
        return "it is neither text nor an .xlsx file. Save it as CSV in UTF-8 or as Parquet."
    if isinstance(error, pd.errors.EmptyDataError):
        return "it is empty. A table has a header and rows."
    if isinstance(error, pd.errors.ParserWarning):
        return "its rows have more fields than its header. Name every column."
    return str(error).removeprefix("Error tokenizing data. C error: ").strip()


@dataclass(frozen=True)
class Files:
    """Files of one table, to be read in chunks: Parquet has a `schema`, text a `dialect`."""

    source: str
    paths: tuple[Path, ...]
    columns: list[str]
    schema: Any = None
    n_rows: int | None = None
    dialect: Dialect | None = None
    text: tuple[str, ...] | None = ()  # columns that are text; if None, all as they are written
    first: int = 0  # number of the first file, if these are some of several

    @property
    def text_labels(self) -> bool:
        """Whether labels of tasks were read as text."""
        return self.dialect is not None

    @classmethod
    def of(cls, pattern: str, *, text: Collection[str] = ()) -> Files:
        """Open a file, a folder, or what a pattern matches; `text` as in :func:`read_table`."""
        paths = _matching(pattern)
        with located(paths[0]), _opened(paths[0]) as stream:
            head = stream.read(_HEAD)
            if not head.startswith(b"PAR1"):
                head = head if len(head) < _HEAD else head[: head.rfind(b"\n") + 1]
                first = read_table(io.BytesIO(head), text=text)
                texts = first.select_dtypes(exclude=["number", "bool"])
                dialect, text = dialect_of(head)[0], tuple(texts.columns)
                return cls(pattern, paths, list(first.columns), dialect=dialect, text=text)
        pq, n_rows = _parquet(), 0
        schema: Any = None
        for path in paths:
            with located(path):
                stored = pq.read_metadata(path)
                n_rows += stored.num_rows
                schema = schema or stored.schema.to_arrow_schema()
                if absent := [name for name in schema.names if name not in stored.schema.names]:
                    raise ValueError(
                        f"All files must have the same columns; it lacks {absent[0]!r}."
                    )
        columns = [name for name in schema.names if not name.startswith("__index_level_")]
        return cls(pattern, paths, columns, schema, n_rows)

    def each(self, columns: Sequence[str], work: Callable[[int, pd.DataFrame], T]) -> Iterator[T]:
        """Yield the result of some work on the number of a file and a chunk of its rows."""
        for number, path in enumerate(self.paths, self.first):
            start = 0
            with located(path):
                for frame in self._chunks(path, list(columns)):
                    frame.index = pd.RangeIndex(start, start + len(frame))
                    start += len(frame)
                    yield work(number, frame)

    def _chunks(self, path: Path, columns: list[str]) -> Iterator[pd.DataFrame]:
        size = max(_NUMBERS // max(len(columns), 1), 1)
        if self.dialect is not None:
            options = _text_options(self.dialect, self.text)
            with (
                _opened(path) as stream,
                _parsed_text(stream, options, usecols=columns, chunksize=size) as chunks,
            ):
                for chunk in chunks:
                    frame: pd.DataFrame = chunk[columns]
                    frame.attrs["dialect"] = self.dialect
                    if len(frame):
                        yield frame
            return
        import pyarrow as pa

        # Columns are decoded as they are asked for, not whole row groups ahead.
        with _parquet().ParquetFile(path, buffer_size=2**20) as file:
            schema = pa.schema([self.schema.field(name) for name in columns])
            for batch in file.iter_batches(size, columns=columns):
                table = batch.select(columns).cast(schema)  # as in the first file
                yield table.to_pandas(split_blocks=True, date_as_object=False)


@contextmanager
def located(path: Path | str, words: str = "{}") -> Iterator[None]:
    """Say in errors which file they are about."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error).splitlines()[0]
        raise OSError(f"Cannot read {path}: {reason}. Check the path.") from error
    except (ValueError, KeyError, BadZipFile, pd.errors.ParserWarning) as error:
        raise ValueError(f"{words.format(path)}: {_reason(error)}") from error


def is_large(table: str) -> bool:
    """Whether a table is to be read in chunks: several files, or one that is large."""
    path = Path(table)
    if not path.is_file():
        return path.is_dir() or glob.has_magic(table)
    with path.open("rb") as stream:
        start = stream.read(4)
    if start != b"PAR1":
        packed = 4 if start.startswith(b"\x1f\x8b") else 1
        return packed * path.stat().st_size > _LARGE * _BYTES
    with located(path):
        stored = _parquet().read_metadata(path)
    return bool(stored.num_rows * stored.num_columns > _LARGE)


def _matching(pattern: str) -> tuple[Path, ...]:
    path = Path(pattern)
    paths = [path]
    if path.is_dir():
        inside = sorted(p for p in path.rglob("*") if p.is_file() and p.name[0] not in "._")
        text = [p for p in inside if p.name.removesuffix(".gz").endswith((*_WRITTEN, ".txt"))]
        paths = [p for p in inside if p.suffix == ".parquet"] or text
    elif not path.is_file():  # Path.glob wants the folder apart from the pattern
        paths = [Path(p) for p in sorted(glob.glob(pattern))]  # noqa: PTH207
    if not paths:
        raise ValueError(f"No Parquet or CSV file matches {pattern}. Check the path.")
    return tuple(paths)


def write_table(frame: pd.DataFrame, target: Source) -> None:
    """Write a table in the format of the suffix; to a stream as CSV.

    Parameters
    ----------
    frame : DataFrame
        The table; one that was read from text is written in the same way. Text files omit an index
        that only numbers the rows.
    target : path or binary stream
        A path ends in .csv, .tsv (either with .gz), .parquet or .xlsx.
    """
    with writer(target) as write:
        write(frame)


@contextmanager
def writer(target: Source) -> Iterator[Callable[[pd.DataFrame], None]]:
    """Open what writes a table, or the chunks of one."""
    separator = separator_of(target)
    if hasattr(target, "write"):
        yield _text_writer(target, ",")
        return
    path = Path(target)
    try:
        with replacing(path) as temporary, ExitStack() as opened:
            if separator is not None:
                open_ = gzip.open if path.suffix == ".gz" else open
                yield _text_writer(opened.enter_context(open_(temporary, "wb")), separator)
            elif path.suffix == ".xlsx":
                require("Writing Excel files", "openpyxl")
                chunks: list[pd.DataFrame] = []
                yield chunks.append
                pd.concat(chunks).to_excel(temporary, index=False, engine="openpyxl")
            else:
                yield _parquet_writer(temporary, opened)
    except OSError as error:
        if error.errno is None:  # about a table that is read
            raise
        raise OSError(
            f"Cannot write {path}: {error.strerror or error}. Choose another file."
        ) from error


def separator_of(target: Source) -> str | None:
    """Return the separator of a text file to write, None for other formats; refuse other names."""
    if hasattr(target, "write"):
        return ","
    path = Path(target)
    suffix = Path(path.stem).suffix if path.suffix == ".gz" else path.suffix
    if suffix not in _WRITTEN and path.suffix not in (".parquet", ".xlsx"):
        raise ValueError(
            f"The name of a table must end in .csv, .tsv (either with .gz), .parquet or .xlsx; "
            f"got {path.name!r}."
        )
    return _WRITTEN.get(suffix)


def refuse_overwriting(target: Source, sources: Iterable[str | os.PathLike[str]]) -> None:
    """Refuse to write to a file that is read."""
    if hasattr(target, "write") or not Path(target).exists():
        return
    if any(Path(source).exists() and Path(source).samefile(target) for source in sources):
        raise ValueError(f"{target} is the table itself, which would be lost. Name another file.")


def _text_writer(stream: Any, separator: str) -> Callable[[pd.DataFrame], None]:
    encoder: Any = None  # one for all chunks, which writes a byte order mark once

    def write(frame: pd.DataFrame) -> None:
        nonlocal encoder
        index, first = not isinstance(frame.index, pd.RangeIndex), encoder is None
        sep, decimal, encoding = frame.attrs.get("dialect", (separator, ".", "utf-8"))
        sep = sep if separator == "," else separator
        encoder = encoder or codecs.getincrementalencoder(encoding)("backslashreplace")
        text = frame.to_csv(sep=sep, decimal=decimal, index=index, header=first)
        stream.write(encoder.encode(text))

    return write


def _parquet_writer(path: Path, opened: ExitStack) -> Callable[[pd.DataFrame], None]:
    pq, file = _parquet(), cast("Any", None)
    import pyarrow as pa

    def write(frame: pd.DataFrame) -> None:
        nonlocal file
        table = pa.Table.from_pandas(frame)
        file = file or opened.enter_context(pq.ParquetWriter(path, table.schema))
        file.write_table(table.cast(file.schema))

    return write


def _parquet() -> Any:
    require("A Parquet file", "pyarrow")
    import pyarrow.parquet as pq

    return pq
