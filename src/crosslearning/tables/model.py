"""A fitted table: it predicts, and it can be saved."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import pandas as pd

from crosslearning.convex.logistic_loss import softmax
from crosslearning.convex.prediction import class_scores, linear_scores
from crosslearning.tables.persistence import read_model, save
from crosslearning.tables.recognition import kept_as_text, recognised
from crosslearning.tables.schema import check_names, require_columns
from crosslearning.tasks import TaskIndex

if TYPE_CHECKING:
    import os

    from crosslearning.tables.encoding import TableEncoder

__all__ = ["TableModel"]

_NOBODY = object()  # a label that no task has


@dataclass(frozen=True, eq=False)
class TableModel:
    """What :func:`fit_table` returns.

    Attributes
    ----------
    task : str
        Column of task labels.
    encoder : TableEncoder
        Turns columns into numbers.
    state : dict
        Class, parameters and fitted attributes of the estimator.
    results : dict
        What was found: the contents of ``results.json``. Empty after :meth:`load`, since a model
        needs none to predict.
    """

    task: str
    encoder: TableEncoder
    state: dict[str, Any]
    results: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def estimator(self) -> Any:
        """One model per task, fitted: a CrossRidgeCV or CrossLogisticRegressionCV."""
        from crosslearning.linear.persistence import model_of  # needs scikit-learn, which is slow

        return model_of(self.state)

    @property
    def _tasks(self) -> TaskIndex:
        return TaskIndex(tuple(self.state["fitted"]["tasks_"]))

    @property
    def text_columns(self) -> list[str]:
        """Columns to read as text, so that labels look as they did in the fit."""
        labels = [self.task] * kept_as_text(self._tasks.labels)
        return [*self.encoder.levels, *labels]

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
        require_columns(frame, [self.task, *self.encoder.columns], "the model")
        numbered = frame.reset_index(drop=True)
        X = self.encoder.encode(numbered)
        fitted = self.state["fitted"]
        scores = linear_scores(fitted, X, self._tasks.encode(self._labels(numbered)))
        if "classes_" not in fitted:
            return pd.DataFrame({"prediction": scores[:, 0]}, index=frame.index)
        shares, classes = softmax(class_scores(scores)), fitted["classes_"]
        predictions = {"prediction": classes[shares.argmax(axis=1)]}
        predictions |= {f"probability_{c}": s for c, s in zip(classes, shares.T, strict=True)}
        return pd.DataFrame(predictions, index=frame.index)

    def unknown_tasks(self, frame: pd.DataFrame) -> dict[Any, int]:
        """Count the rows of each task that the fit has not seen; None stands for no label."""
        labels = self._labels(frame)
        counts = Counter(labels[self._tasks.encode(labels) < 0]).most_common()
        return {None if label is _NOBODY else label: rows for label, rows in counts}

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write ``model.npz``, to predict with, and ``results.json``, to report, into a folder.

        A folder with an earlier fit is written anew; one with anything else is refused. Nothing is
        pickled.
        """
        save(self, folder)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Self:
        """Read a model from its folder or its file, without unpickling."""
        return cls(**read_model(folder))

    def _labels(self, frame: pd.DataFrame) -> pd.Series[Any]:
        """Labels of the rows as the fit has them; one that no task has where there is none."""
        labels = frame[self.task].astype(object)
        return recognised(labels.where(labels.notna(), _NOBODY), self._tasks.labels)
