"""From files to data frames: formats, dialects, numerals, chunks."""

from crosslearning.tables.reading.tables import read_table, read_verbatim

__all__ = ["read_table", "read_verbatim"]
