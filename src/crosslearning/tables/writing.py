"""Tables to files, completely or not at all."""

import codecs
import gzip
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain, repeat
from pathlib import Path
from typing import Any, BinaryIO

import pandas as pd

from crosslearning.extras import require
from crosslearning.files import replacing

_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_SUFFIXES = ".csv, .tsv (either with .gz), .parquet or .xlsx"
Target = str | os.PathLike[str] | BinaryIO


def write_table(frame: pd.DataFrame, target: Target) -> None:
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
def writer(target: Target) -> Iterator[Callable[[Any], None]]:
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


def format_of(target: Target) -> tuple[bool, str, bool]:
    """Return whether a file is text, its separator, and whether it is gzipped."""
    if hasattr(target, "write"):
        return True, ",", False
    path = Path(target)
    packed = path.suffix == ".gz"
    suffix = Path(path.stem).suffix if packed else path.suffix
    if suffix not in _SEPARATORS and path.suffix not in (".parquet", ".xlsx"):
        raise ValueError(f"The name of a table must end in {_SUFFIXES}; got {path.name!r}.")
    return suffix in _SEPARATORS, _SEPARATORS.get(suffix, ""), packed


def refuse_overwriting(target: Target, sources: Iterable[str | os.PathLike[str]]) -> None:
    """Refuse to write to a file that is read."""
    if hasattr(target, "write") or not Path(target).exists():
        return
    if any(Path(source).exists() and Path(source).samefile(target) for source in sources):
        raise ValueError(f"{target} is the table itself, which would be lost. Name another file.")


def is_text(path: Path) -> bool:
    """Whether the suffix is that of a text format; unknown suffixes are refused."""
    return format_of(path)[0]


def _text_writer(stream: Any, separator: str) -> Callable[[pd.DataFrame], None]:
    header = chain([True], repeat(False))
    encoders: list[Any] = []  # one for all chunks, which writes a byte order mark once

    def write(frame: pd.DataFrame) -> None:
        index = not isinstance(frame.index, pd.RangeIndex)
        sep, decimal, encoding = frame.attrs.get("dialect", (separator, ".", "utf-8"))
        sep = sep if separator == "," else separator
        if not encoders:
            encoders.append(codecs.getincrementalencoder(encoding)("backslashreplace"))
        text = frame.to_csv(None, sep=sep, decimal=decimal, index=index, header=next(header))
        stream.write(encoders[0].encode(text))

    return write


def _parquet_writer(path: Path, opened: ExitStack) -> Callable[[Any], None]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    writers: list[Any] = []

    def write(chunk: Any) -> None:
        table = pa.Table.from_pandas(chunk) if isinstance(chunk, pd.DataFrame) else chunk
        if not writers:
            writers.append(opened.enter_context(pq.ParquetWriter(path, table.schema)))
        writers[0].write_table(table.cast(writers[0].schema))

    return write
