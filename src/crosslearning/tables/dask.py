"""Tables on many machines: Dask sums the parts of a table where they are.

``fit_table`` is :func:`crosslearning.tables.fit_table`, which takes Dask data frames, too.
"""

import os
from typing import Any

from crosslearning.tables.fitting import CURRENT, fit_table
from crosslearning.tables.fitting import fit_files as fit_files_here
from crosslearning.tables.model import TableModel

__all__ = ["fit_files", "fit_table"]


def fit_files(
    source: str | os.PathLike[str], *, scheduler: str | None = None, **options: Any
) -> TableModel:
    """As :func:`crosslearning.tables.fit_files`, on a scheduler, by default the current one."""
    return fit_files_here(source, scheduler=scheduler or CURRENT, **options)
