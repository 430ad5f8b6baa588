"""Tables in files: CSV and its relatives, and Parquet; gzipped or not."""

from __future__ import annotations

import gzip
import io
import re
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import pandas as pd

from crosslearning.extras import require

if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Iterator

__all__ = ["read_table", "read_verbatim"]

_SEPARATORS = (",", ";", "\t", "|")
_SAMPLE = 1 << 16  # bytes to guess separator and decimal mark from


def read_table(
    source: str | os.PathLike[str] | BinaryIO, *, text: Collection[str] = ()
) -> pd.DataFrame:
    r"""Read a table; what kind of file it is, its first bytes tell.

    Parameters
    ----------
    source : path or binary stream
        Parquet, or text in UTF-8 with a header and fields separated by comma, semicolon, tab or
        bar, and then with a decimal comma if the numbers have one; gzipped or not.
    text : collection of str, optional
        Columns of text files to leave as they are, such as codes with leading zeros.

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
    return _read(source, {"dtype": dict.fromkeys(text, str)})


def read_verbatim(source: str | os.PathLike[str] | BinaryIO) -> pd.DataFrame:
    """Read a table with every field of a text file as it is written there."""
    return _read(source, {"dtype": str, "na_filter": False})


def _read(source: Any, options: dict[str, Any]) -> pd.DataFrame:
    name = "standard input" if hasattr(source, "read") else str(source)
    try:
        with _opened(source) as stream:
            frame = _parsed(stream, options)
    except OSError as error:
        raise OSError(f"Cannot read {name}: {error.strerror or error}. Check the path.") from error
    except (ValueError, pd.errors.ParserWarning) as error:
        raise ValueError(f"Cannot read {name} as a table: {_reason(error)}") from error
    if not len(frame):
        raise ValueError(f"{name} has a header and no rows. Give a table with rows.")
    return frame


@contextmanager
def _opened(source: Any) -> Iterator[BinaryIO]:
    """Open a file, or hold what a stream gives, and look through gzip."""
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


def _parsed(stream: BinaryIO, options: dict[str, Any]) -> pd.DataFrame:
    head = _first_bytes(stream, _SAMPLE)
    if head.startswith(b"PAR1"):
        require("Reading Parquet files", "pyarrow")
        stored = pd.read_parquet(stream)
        named = [name for name in stored.index.names if name is not None]
        return stored.reset_index(named) if named else stored
    if head.startswith((b"PK", b"\xd0\xcf\x11\xe0")):
        raise ValueError("this is a spreadsheet or an archive. Save the table as CSV or Parquet.")
    separator, decimal = _dialect(head.decode("utf-8", errors="ignore"))
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        # index_col=False: otherwise rows longer than the header would shift it.
        frame: pd.DataFrame = pd.read_csv(
            stream, sep=separator, decimal=decimal, index_col=False, low_memory=False, **options
        )
    return frame


def _dialect(sample: str) -> tuple[str, str]:
    """Guess separator and decimal mark."""
    header = re.sub(r'"[^"]*"', "", sample.split("\n", 1)[0])
    separator = max(_SEPARATORS, key=header.count)
    if separator == ",":
        return separator, "."
    cells = [cell.strip(' "\r') for cell in re.split(f"[{separator}\n]", sample)]
    comma = any(re.fullmatch(r"-?\d+,\d+", cell) for cell in cells)
    point = any(re.fullmatch(r"-?\d+\.\d+", cell) for cell in cells)
    return separator, "," if comma and not point else "."


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "it is not text in UTF-8. Save it as UTF-8 or as Parquet."
    if isinstance(error, pd.errors.EmptyDataError):
        return "it is empty. Give a file with a header and rows."
    if isinstance(error, pd.errors.ParserWarning):
        return "its rows have more fields than its header. Give every column a name."
    return str(error).removeprefix("Error tokenizing data. C error: ").strip()
