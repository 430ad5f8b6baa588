"""Tables to files, completely or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, BinaryIO

import pandas as pd

from crosslearning.extras import require
from crosslearning.files import replacing

_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_SUFFIXES = ".csv, .tsv (either with .gz), .parquet or .xlsx"


def write_table(frame: pd.DataFrame, target: str | os.PathLike[str] | BinaryIO) -> None:
    """Write a table in the format of the suffix; to a stream as CSV.

    Parameters
    ----------
    frame : DataFrame
        The table; text files omit an index that only numbers the rows. A table read verbatim
        is written with its own separator and decimal mark.
    target : path or binary stream
        A path ends in .csv, .tsv (either with .gz), .parquet or .xlsx.
    """
    if hasattr(target, "write"):
        _write_text(frame, target, ",", None)
        return
    path = Path(target)
    text, separator, packed = format_of(path)
    excel = path.suffix == ".xlsx"
    if not text:
        module = "openpyxl" if excel else "pyarrow"
        require(f"Writing {'Excel' if excel else 'Parquet'} files", module)
    try:
        with replacing(path) as temporary:
            if text:
                _write_text(frame, temporary, separator, "gzip" if packed else None)
            elif excel:
                frame.to_excel(temporary, index=False, engine="openpyxl")
            else:
                frame.to_parquet(temporary)
    except OSError as error:
        raise OSError(
            f"Cannot write {path}: {error.strerror or error}. Choose another file."
        ) from error


def format_of(target: str | os.PathLike[str] | BinaryIO) -> tuple[bool, str, bool]:
    """Return whether a file is text, its separator, and whether it is gzipped."""
    if hasattr(target, "write"):
        return True, ",", False
    path = Path(target)
    packed = path.suffix == ".gz"
    suffix = Path(path.stem).suffix if packed else path.suffix
    if suffix not in _SEPARATORS and path.suffix not in (".parquet", ".xlsx"):
        raise ValueError(f"The name of a table must end in {_SUFFIXES}; got {path.name!r}.")
    return suffix in _SEPARATORS, _SEPARATORS.get(suffix, ""), packed


def is_text(path: Path) -> bool:
    """Whether the suffix is that of a text format; unknown suffixes are refused."""
    return format_of(path)[0]


def _write_text(frame: pd.DataFrame, target: Any, separator: str, compression: Any) -> None:
    index = not isinstance(frame.index, pd.RangeIndex)
    own, decimal = frame.attrs.get("dialect", (separator, "."))
    own = own if separator == "," else separator
    frame.to_csv(target, sep=own, decimal=decimal, index=index, compression=compression)
