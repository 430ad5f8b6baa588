"""Tables in files: CSV and its relatives, Parquet and Excel; gzipped or not."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import os
import re
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, BinaryIO, cast
from zipfile import ZipFile, is_zipfile

import pandas as pd
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from crosslearning.extras import require
from crosslearning.tables.reading.numerals import CODE, evidence

_SEPARATORS = (",", ";", "\t", "|")
_SAMPLE = 1 << 16  # bytes to recognise separator and decimal mark from
_MISSING = ("?", ".", "-", "--")  # in addition to those of pandas, such as NA
_ROWS = 1000  # to recognise integers and decimal marks from


def read_table(
    source: str | os.PathLike[str] | BinaryIO, *, text: Collection[str] = ()
) -> pd.DataFrame:
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
    return _read(source, {"na_values": _MISSING, "skipinitialspace": True}, text)


def read_verbatim(source: str | os.PathLike[str] | BinaryIO) -> pd.DataFrame:
    """Read a table with every field of a text file as written."""
    return _read(source, {"dtype": str, "na_filter": False}, None)


def dialect_of(head: bytes) -> tuple[str, str, str]:
    """Recognise encoding, separator and decimal mark from the first bytes of a text file."""
    encoding = _encoding(io.BytesIO(head), head)
    separator, decimal, _ = _dialect(head[:_SAMPLE].decode(encoding, errors="ignore"))
    return encoding, separator, decimal or "."


def _read(source: Any, options: dict[str, Any], text: Collection[str] | None) -> pd.DataFrame:
    name = "standard input" if hasattr(source, "read") else str(source)
    try:
        with _opened(source) as stream:
            frame = _parsed(stream, options, text)
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
    held = hasattr(source, "read")
    with io.BytesIO(source.read()) if held else Path(source).open("rb") as stream:
        if _first_bytes(stream, 2) == b"\x1f\x8b":
            with gzip.GzipFile(fileobj=stream) as unpacked:
                yield cast("BinaryIO", unpacked)
        else:
            yield stream


def _first_bytes(stream: BinaryIO, count: int) -> bytes:
    stream.seek(0)
    head = stream.read(count)
    stream.seek(0)
    return head


def _parsed(
    stream: BinaryIO, options: dict[str, Any], text: Collection[str] | None
) -> pd.DataFrame:
    head = _first_bytes(stream, _SAMPLE)
    if head.startswith(b"PAR1"):
        require("Reading Parquet files", "pyarrow")
        stored = pd.read_parquet(stream)
        named = [name for name in stored.index.names if name is not None]
        return stored.reset_index(named) if named else stored
    if head.startswith((b"PK", b"\xd0\xcf\x11\xe0")):
        return _workbook(stream, {"na_values": options.get("na_values")}, text)
    encoding = _encoding(stream, head)
    separator, decimal, others = _dialect(head.decode(encoding, errors="ignore"))
    shared: dict[str, Any] = {"sep": separator, "encoding": encoding}
    _check_header(stream, shared)
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        # index_col=False: otherwise rows longer than the header would shift it.
        shared |= {"index_col": False, "low_memory": False, **options}
        if text is None:
            frame: pd.DataFrame = pd.read_csv(stream, **shared)
            plain = encoding == "utf-8-sig" and not head.startswith(codecs.BOM_UTF8)
            frame.attrs["dialect"] = separator, decimal or ".", "utf-8" if plain else encoding
            return frame
        kept = dict.fromkeys([*text, *others], str)
        frame = pd.read_csv(stream, decimal=decimal or ".", dtype=kept, **shared)
        if decimal:
            frame.attrs["decimal"] = decimal
        return _with_codes(stream, frame, shared)


def _workbook(
    stream: BinaryIO, options: dict[str, Any], text: Collection[str] | None
) -> pd.DataFrame:
    """Read the first sheet of an Excel file."""
    if not is_zipfile(stream) or "xl/workbook.xml" not in ZipFile(stream).namelist():
        raise ValueError("this is an archive or an old spreadsheet. Save it as .xlsx or CSV.")
    require("Reading Excel files", "openpyxl")
    stream.seek(0)
    # Cells as they are: otherwise "01" would become a number.
    frame: pd.DataFrame = pd.read_excel(stream, engine="openpyxl", dtype=object, **options)
    kept = frame.columns.intersection(list(text or ()))
    return frame.astype(dict.fromkeys(kept, "string")).infer_objects()


def _encoding(stream: BinaryIO, head: bytes) -> str:
    """Recognise UTF-16 by its mark; what is not UTF-8 is taken for Latin-1."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
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
    return "utf-8-sig"


def _check_header(stream: BinaryIO, shared: dict[str, Any]) -> None:
    """Refuse duplicate column names: pandas would rename the second."""
    first = pd.read_csv(stream, header=None, nrows=1, dtype=str, index_col=False, **shared)
    stream.seek(0)
    names = first.iloc[0].dropna()
    twice = names[names.duplicated()]
    if len(twice):
        raise ValueError(f"two columns have the name {twice.iloc[0]!r}. Rename one of them.")


def _with_codes(stream: BinaryIO, frame: pd.DataFrame, shared: dict[str, Any]) -> pd.DataFrame:
    """Read columns of integers again as text if a value is written as a code."""
    whole = [name for name in frame.columns if _may_be_codes(frame[name])]
    if not whole:
        return frame
    stream.seek(0)
    written = pd.read_csv(stream, **(shared | {"usecols": whole, "dtype": str}))
    for name in whole:
        if written[name].str.strip().str.fullmatch(CODE).any():
            frame[name] = written[name].str.strip()
    return frame


def _may_be_codes(values: pd.Series[Any]) -> bool:
    """Whether a column holds nonnegative integers, which may be codes with leading zeros."""
    if not is_numeric_dtype(values.dtype) or is_bool_dtype(values.dtype):
        return False
    known = values.dropna()
    return len(known) > 0 and not known.head(_ROWS).mod(1).any() and known.min() >= 0


def _dialect(sample: str) -> tuple[str, str | None, list[str]]:
    """Guess the separator, the decimal mark of most columns, and columns of the other mark.

    No mark is None.
    """
    header = re.sub(r'"[^"]*"', "", sample.split("\n", 1)[0])
    separator = max(_SEPARATORS, key=header.count)
    lines = io.StringIO(sample, newline=None)
    rows = list(islice(csv.reader(lines, delimiter=separator, skipinitialspace=True), _ROWS))
    columns = dict(zip(*rows[:1], zip_longest(*rows[1:], fillvalue=""), strict=False))
    found = {name: evidence(dict.fromkeys(cells)) for name, cells in columns.items()}
    marks = [mark for mark, _, _ in found.values() if mark]
    if not marks and separator != ",":  # programs that write decimal points separate by comma
        marks = [guess for _, _, guess in found.values() if guess]
        marks = marks or [","] * any("," in unclear for _, unclear, _ in found.values())
    most = max(".,", key=marks.count) if marks else None
    return separator, most, [n for n, (mark, _, _) in found.items() if mark not in (None, most)]


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "it is not text. Save it as CSV in UTF-8 or as Parquet."
    if isinstance(error, pd.errors.EmptyDataError):
        return "it is empty. A table has a header and rows."
    if isinstance(error, pd.errors.ParserWarning):
        return "its rows have more fields than its header. Name every column."
    return str(error).removeprefix("Error tokenizing data. C error: ").strip()
