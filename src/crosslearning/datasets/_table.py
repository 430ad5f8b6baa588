"""A table with a target and a task label per row."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["TableData", "read_packaged_csv"]


@dataclass(frozen=True, eq=False)
class TableData:
    """A data set for ``fit(X, y, tasks=tasks)``.

    The tables belong to the caller, who may change them.

    Parameters
    ----------
    name : str
        Short name.
    X : DataFrame of shape (n_rows, n_features)
        Features.
    y : Series of length n_rows
        Target.
    tasks : Series of length n_rows
        Task label of each row.
    frame : DataFrame
        The same rows with all columns, before any transformation of the target.
    description : str
        What the data are, their origin and their licence.
    """

    name: str
    X: pd.DataFrame = field(repr=False)
    y: pd.Series[Any] = field(repr=False)
    tasks: pd.Series[Any] = field(repr=False)
    frame: pd.DataFrame = field(repr=False)
    description: str = field(repr=False)


def read_packaged_csv(name: str) -> pd.DataFrame:
    """Read ``data/<name>.csv.gz`` from the package, wherever that is installed."""
    import pandas as pd  # here, because importing it takes longer than reading the data

    with (files("crosslearning.datasets") / "data" / f"{name}.csv.gz").open("rb") as stream:
        return pd.read_csv(stream, compression="gzip")
