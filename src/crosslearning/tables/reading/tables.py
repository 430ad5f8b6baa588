"""Tables read from files and written: CSV and its relatives, Parquet, Excel; gzipped or not."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import os
import re
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast
from zipfile import ZipFile, is_zipfile

import pandas as pd

from crosslearning.extras import require
from crosslearning.files import replacing
from crosslearning.tables.reading.numerals import CODE, evidence

_SEPARATORS = (",", ";", "\t", "|")
_SAMPLE = 1 << 16  # bytes to recognise separator and decimal mark from
_MISSING = ("?", ".", "-", "--")  # in addition to those of pandas, such as NA
_ROWS = 1000  # to recognise integers and decimal marks from
_WRITTEN = {".csv": ",", ".tsv": "\t"}  # separators by suffix
Source = str | os.PathLike[str] | BinaryIO  # or where to write to


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
    return _read(source, text)


def read_verbatim(source: Source) -> pd.DataFrame:
    """Read a table with every field of a text file as written."""
    return _read(source, None)


def _read(source: Any, text: Collection[str] | None) -> pd.DataFrame:
    """Read a table with some columns as text, or verbatim if these are None."""
    name = "standard input" if hasattr(source, "read") else str(source)
    try:
        with _opened(source) as stream:
            frame = _parsed(stream, text)
    except OSError as error:
        raise OSError(f"Cannot read {name}: {error.strerror or error}. Check the path.") from error
    except (ValueError, pd.errors.ParserWarning) as error:
        raise ValueError(f"Cannot read {name} as a table: {_reason(error)}") from error
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


def _parsed(stream: BinaryIO, text: Collection[str] | None) -> pd.DataFrame:
    head = stream.read(4)
    stream.seek(0)
    if head == b"PAR1":
        require("Reading Parquet files", "pyarrow")
        stored = pd.read_parquet(stream)
        named = [name for name in stored.index.names if name is not None]
        return stored.reset_index(named) if named else stored
    if head.startswith(b"PK") or head == b"\xd0\xcf\x11\xe0":
        return _workbook(stream, text)
    dialect, others = dialect_of(stream)
    options: dict[str, Any] = {"sep": dialect.separator, "encoding": dialect.encoding}
    # Without an index: otherwise rows longer than the header would shift it.
    options |= {"index_col": False, "low_memory": False}
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        if text is None:
            frame: pd.DataFrame = pd.read_csv(stream, dtype=str, na_filter=False, **options)
            frame.attrs["dialect"] = dialect
            return frame
        options |= {"na_values": _MISSING, "skipinitialspace": True}
        kept = dict.fromkeys([*text, *others], str)
        frame = pd.read_csv(stream, decimal=dialect.decimal, dtype=kept, **options)
        frame.attrs["decimal"] = dialect.decimal
        return _with_codes(stream, frame, options)


def _workbook(stream: BinaryIO, text: Collection[str] | None) -> pd.DataFrame:
    """Read the first sheet of an Excel file."""
    if not is_zipfile(stream) or "xl/workbook.xml" not in ZipFile(stream).namelist():
        raise ValueError("this is an archive or an old spreadsheet. Save it as .xlsx or CSV.")
    require("Reading Excel files", "openpyxl")
    stream.seek(0)
    missing = None if text is None else _MISSING
    # Cells as they are: otherwise "01" would become a number.
    frame: pd.DataFrame = pd.read_excel(stream, engine="openpyxl", dtype=object, na_values=missing)
    kept = frame.columns.intersection(list(text or ()))
    return frame.astype(dict.fromkeys(kept, "string")).infer_objects()


def _with_codes(stream: BinaryIO, frame: pd.DataFrame, options: dict[str, Any]) -> pd.DataFrame:
    """Read columns of integers from 0 again as text if a value is written as a code."""
    numeric = frame.select_dtypes("number")
    whole = [
        name
        for name, values in numeric.items()
        if values.min() >= 0 and not values.dropna().head(_ROWS).mod(1).any()
    ]
    if not whole:
        return frame
    stream.seek(0)
    written = pd.read_csv(stream, **(options | {"usecols": whole, "dtype": str}))
    for name in whole:
        if written[name].str.strip().str.fullmatch(CODE).any():
            frame[name] = written[name].str.strip()
    return frame


def dialect_of(stream: BinaryIO) -> tuple[Dialect, list[str]]:
    """Guess how a text is written, with the decimal mark of most columns; and other columns."""
    head = stream.read(_SAMPLE)
    stream.seek(0)
    encoding = _encoding(stream, head)
    sample = head.decode(encoding, errors="ignore")
    separator = max(_SEPARATORS, key=re.sub(r'"[^"]*"', "", sample.split("\n", 1)[0]).count)
    lines = io.StringIO(sample, newline=None)
    rows = list(islice(csv.reader(lines, delimiter=separator, skipinitialspace=True), _ROWS))
    header = [name for name in rows[0] if name] if len(rows) > 1 else []
    if twice := [name for name, count in Counter(header).items() if count > 1]:
        # pandas would rename the second
        raise ValueError(f"two columns have the name {twice[0]!r}. Rename one of them.")
    columns = dict(zip(*rows[:1], zip_longest(*rows[1:], fillvalue=""), strict=False))
    hints = {name: evidence(dict.fromkeys(cells)) for name, cells in columns.items()}
    marks = [mark for mark, _, _ in hints.values() if mark]
    if not marks and separator != ",":  # programs that write decimal points separate by comma
        marks = [guess for _, _, guess in hints.values() if guess]
        if not marks and any("," in unclear for _, unclear, _ in hints.values()):
            marks = [","]
    decimal = max(".,", key=marks.count) if marks else "."
    others = [name for name, (mark, _, _) in hints.items() if mark not in (None, decimal)]
    return Dialect(separator, decimal, encoding), others


def _encoding(stream: BinaryIO, head: bytes) -> str:
    """Recognise UTF-16 by its mark; what is not UTF-8 is taken for Latin-1."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        while part := stream.read(1 << 20):
            decoder.decode(part)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return "cp1252" if b"\0" not in head else "utf-8"
    finally:
        stream.seek(0)
    return "utf-8-sig" if head.startswith(codecs.BOM_UTF8) else "utf-8"


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "it is not text. Save it as CSV in UTF-8 or as Parquet."
    if isinstance(error, pd.errors.EmptyDataError):
        return "it is empty. A table has a header and rows."
    if isinstance(error, pd.errors.ParserWarning):
        return "its rows have more fields than its header. Name every column."
    return str(error).removeprefix("Error tokenizing data. C error: ").strip()


def write_table(frame: pd.DataFrame, target: Source) -> None:
    """Write a table in the format of the suffix; to a stream as CSV.

    Parameters
    ----------
    frame : DataFrame
        The table; text files omit an index that only numbers the rows. A table read verbatim
        is written with its own separator, decimal mark and encoding.
    target : path or binary stream
        A path ends in .csv, .tsv (either with .gz), .parquet or .xlsx.
    """
    with writer(target) as write:
        write(frame)


@contextmanager
def writer(target: Source) -> Iterator[Callable[[Any], None]]:
    """Open what writes a table, or the chunks of one: data frames, or Arrow tables to Parquet."""
    text, separator, packed = format_of(target)
    if hasattr(target, "write"):
        yield _text_writer(target, separator)
        return
    path = Path(target)
    try:
        with replacing(path) as temporary, ExitStack() as opened:
            if text:
                open_ = gzip.open if packed else open
                yield _text_writer(opened.enter_context(open_(temporary, "wb")), separator)
            elif path.suffix == ".xlsx":
                require("Writing Excel files", "openpyxl")
                chunks: list[pd.DataFrame] = []
                yield chunks.append
                pd.concat(chunks).to_excel(temporary, index=False, engine="openpyxl")
            else:
                require("Writing Parquet files", "pyarrow")
                yield _parquet_writer(temporary, opened)
    except OSError as error:
        if error.errno is None:  # about a table that is read
            raise
        raise OSError(
            f"Cannot write {path}: {error.strerror or error}. Choose another file."
        ) from error


def format_of(target: Source) -> tuple[bool, str, bool]:
    """Return whether a file is text, its separator, and whether it is gzipped."""
    if hasattr(target, "write"):
        return True, ",", False
    path = Path(target)
    packed = path.suffix == ".gz"
    suffix = Path(path.stem).suffix if packed else path.suffix
    if suffix not in _WRITTEN and path.suffix not in (".parquet", ".xlsx"):
        raise ValueError(
            f"The name of a table must end in .csv, .tsv (either with .gz), .parquet or .xlsx; "
            f"got {path.name!r}."
        )
    return suffix in _WRITTEN, _WRITTEN.get(suffix, ""), packed


def refuse_overwriting(target: Source, sources: Iterable[str | os.PathLike[str]]) -> None:
    """Refuse to write to a file that is read."""
    if hasattr(target, "write") or not Path(target).exists():
        return
    if any(Path(source).exists() and Path(source).samefile(target) for source in sources):
        raise ValueError(f"{target} is the table itself, which would be lost. Name another file.")


def is_text(path: Path) -> bool:
    """Whether the suffix is that of a text format; unknown suffixes are refused."""
    return format_of(path)[0]


def _text_writer(stream: Any, separator: str) -> Callable[[pd.DataFrame], None]:
    encoder: Any = None  # one for all chunks, which writes a byte order mark once

    def write(frame: pd.DataFrame) -> None:
        nonlocal encoder
        index, first = not isinstance(frame.index, pd.RangeIndex), encoder is None
        sep, decimal, encoding = frame.attrs.get("dialect", (separator, ".", "utf-8"))
        sep = sep if separator == "," else separator
        encoder = encoder or codecs.getincrementalencoder(encoding)("backslashreplace")
        text = frame.to_csv(None, sep=sep, decimal=decimal, index=index, header=first)
        stream.write(encoder.encode(text))

    return write


def _parquet_writer(path: Path, opened: ExitStack) -> Callable[[Any], None]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    file: Any = None

    def write(chunk: Any) -> None:
        nonlocal file
        table = pa.Table.from_pandas(chunk) if isinstance(chunk, pd.DataFrame) else chunk
        file = file or opened.enter_context(pq.ParquetWriter(path, table.schema))
        file.write_table(table.cast(file.schema))

    return write
