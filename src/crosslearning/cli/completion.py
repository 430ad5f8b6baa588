"""Values that the shell offers when it completes options."""

import csv
import gzip
from collections.abc import Callable
from pathlib import Path

import typer

_HEADER = 1 << 16  # bytes


def one_of(*values: str) -> Callable[[str], list[str]]:
    """Offer values of a list."""
    return lambda incomplete: [value for value in values if value.startswith(incomplete)]


def columns(context: typer.Context, incomplete: str) -> list[str]:
    """Offer the columns of the text or Parquet file that comes before the option."""
    before, comma, start = incomplete.rpartition(",")
    # An option without its value ends the parsing: arguments are left over.
    table = context.params.get("table") or next(iter(context.args), "")
    try:
        names = _header(Path(table))
    except (OSError, ValueError, ImportError):
        return []
    return [before + comma + name for name in names if name.startswith(start)]


def _header(path: Path) -> list[str]:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rb") as stream:
        line = stream.readline(_HEADER)
    if line.startswith(b"PAR1"):
        import pyarrow.parquet as pq

        return list(pq.read_schema(path).names)
    text = line.decode("utf-8-sig")
    return next(csv.reader([text.strip()], delimiter=max(",;\t|", key=text.count)))
