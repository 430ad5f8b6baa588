"""Tables on many machines: Dask sums the parts of a table where they are.

``fit_table`` is :func:`crosslearning.tables.fit_table`, which takes Dask data frames, too.
``fit_files`` is :func:`crosslearning.tables.fit_files` on the current scheduler by default.
"""

from functools import partial

from crosslearning.tables import fitting
from crosslearning.tables.fitting import fit_table

__all__ = ["fit_files", "fit_table"]

fit_files = partial(fitting.fit_files, scheduler=fitting.CURRENT)
