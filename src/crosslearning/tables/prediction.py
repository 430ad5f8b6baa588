"""Predictions beside the table that they are for."""

from __future__ import annotations

import io
import os
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

import pandas as pd

from crosslearning.tables.reading import read_table, read_verbatim

if TYPE_CHECKING:
    from crosslearning.tables.model import TableModel


@dataclass(frozen=True, eq=False)
class Predicted:
    """A table with predictions.

    Attributes
    ----------
    table : DataFrame, optional
        All columns of the input, then those of :meth:`TableModel.predict`; none if it
        is written by pieces.
    unknown : dict
        Number of rows by task that the centre stood in for; None stands for no label.
    categories : dict
        Number of rows by category never seen, by column.
    score : dict or None
        Metric, score and number of rows, if the table has the target.
    rows : int
        Number of rows.
    outside_rows, outside : int, dict
        Number of rows with a number outside the range of the fit: in all, and by column, most
        first.
    """

    table: pd.DataFrame | None
    unknown: dict[Any, int]
    categories: dict[str, dict[str, int]]
    score: dict[str, Any] | None
    rows: int
    outside_rows: int
    outside: dict[str, int]


def predict_table(
    model: TableModel,
    source: str | os.PathLike[str] | BinaryIO,
    *,
    coverage: float = 0.9,
    verbatim: bool = False,
) -> Predicted:
    """Read a table and add predictions to it, in the order of its rows.

    Parameters
    ----------
    model : TableModel
        The fit.
    source : path or binary stream
        The table.
    coverage : float, default=0.9
        Probability that a number lies in its interval.
    verbatim : bool, default=False
        Whether to keep the fields of a text file as they are written, for writing them again.

    Returns
    -------
    Predicted
    """
    again: Any = io.BytesIO(source.read()) if hasattr(source, "read") else source
    frame = read_table(again, text=model.text_columns)
    predictions = model.predict(frame, coverage=coverage)
    refuse_taken(predictions, frame)
    found = model.unknown_tasks(frame), model.unknown_categories(frame), model.score(frame)
    outside_rows, outside = model.outside(frame)
    if verbatim:
        if again is not source:
            again.seek(0)
        frame = read_verbatim(again)
    table = pd.concat([frame, predictions], axis=1)
    table.attrs = frame.attrs
    return Predicted(table, *found, len(frame), outside_rows, dict(Counter(outside).most_common()))


def refuse_taken(predictions: pd.DataFrame, frame: pd.DataFrame) -> None:
    """Refuse a table that has columns where predictions are to go."""
    taken = [name for name in predictions.columns if name in frame.columns]
    if taken:
        raise ValueError(
            f"The table has a column {taken[0]!r} already, where predictions are to go. "
            "Rename or drop it."
        )
