"""A fitted table: it predicts, and it lives in a folder."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import pandas as pd

from crosslearning.tables.encoding import columns_in, encoded
from crosslearning.tables.persistence import load, save
from crosslearning.tables.recognition import kept_as_text, recognised
from crosslearning.tables.schema import check_names, require_columns
from crosslearning.tasks import TaskIndex

if TYPE_CHECKING:
    import os

    from sklearn.compose import ColumnTransformer

__all__ = ["TableModel"]

_NOBODY = object()  # a label that no task has


@dataclass(frozen=True, eq=False)
class TableModel:
    """What :func:`fit_table` returns.

    Attributes
    ----------
    encoder : ColumnTransformer
        Turns columns into numbers.
    estimator : CrossRidgeCV or CrossLogisticRegressionCV
        One model per task, fitted.
    results : dict
        What was found: the contents of ``results.json``.
    """

    encoder: ColumnTransformer
    estimator: Any
    results: dict[str, Any]

    @property
    def task(self) -> str:
        """Column of task labels."""
        return str(self.results["task"])

    @property
    def text_columns(self) -> list[str]:
        """Columns to read as text, so that labels look as they did in the fit."""
        labels = [self.task] * kept_as_text(self.estimator.tasks_)
        return columns_in(self.encoder)["category"] + labels

    def predict(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Predict the target for the rows of a table.

        Parameters
        ----------
        frame : DataFrame
            A table with the task column and the columns learned from. A label means the task it
            equals, as a value or else in text: "1" is the task 1. Rows of tasks never seen, and
            rows without a label, are predicted by the centre.

        Returns
        -------
        DataFrame
            With the index of `frame`: the column ``prediction``, and for classes a column
            ``probability_<class>`` each.
        """
        check_names(frame)
        columns = columns_in(self.encoder)
        needed = [self.task, *columns["number"], *columns["category"]]
        require_columns(frame, needed, "the model")
        numbered = frame.reset_index(drop=True)
        X = encoded(self.encoder, numbered, fit=False)
        tasks = self._labels(numbered)
        predictions = {"prediction": self.estimator.predict(X, tasks=tasks)}
        if hasattr(self.estimator, "classes_"):
            shares = self.estimator.predict_proba(X, tasks=tasks).T
            names = [f"probability_{label}" for label in self.estimator.classes_]
            predictions |= dict(zip(names, shares, strict=True))
        return pd.DataFrame(predictions, index=frame.index)

    def unknown_tasks(self, frame: pd.DataFrame) -> dict[Any, int]:
        """Count the rows of each task that the fit has not seen; None stands for no label."""
        labels = self._labels(frame)
        codes = TaskIndex(tuple(self.estimator.tasks_)).encode(labels)
        counts = Counter(labels[codes < 0]).most_common()
        return {None if label is _NOBODY else label: rows for label, rows in counts}

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write ``pipeline.skops``, ``model.npz`` and ``results.json`` into a folder.

        A folder with an earlier fit is written anew; one with anything else is refused. Nothing is
        pickled.
        """
        save(self.encoder, self.estimator, self.results, folder)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Self:
        """Read what :meth:`save` wrote, without unpickling; anything else is refused."""
        return cls(*load(folder))

    def _labels(self, frame: pd.DataFrame) -> pd.Series[Any]:
        """Labels of the rows as the fit has them; one that no task has where there is none."""
        labels = frame[self.task].astype(object)
        return recognised(labels.where(labels.notna(), _NOBODY), self.estimator.tasks_)
