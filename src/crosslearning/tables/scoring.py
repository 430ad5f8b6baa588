"""Predictions of a stored model against targets that are known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crosslearning.evaluation.scoring import Predicted
from crosslearning.tables.columns import as_numbers
from crosslearning.tables.forecast import forecast, probabilities
from crosslearning.tables.metrics import METRICS

if TYPE_CHECKING:
    import pandas as pd

    from crosslearning.tables.model import TableModel


class Scorer:
    """Scores rows with a target, also piece by piece: mean over tasks, all never seen as one."""

    def __init__(self, model: TableModel) -> None:
        self.model, self.metric = model, METRICS[model.metric]
        n_tasks = len(model.state["fitted"]["tasks_"])
        self.sums, self.weights, self.rows = np.zeros(n_tasks + 1), np.zeros(n_tasks + 1), 0

    def add(self, frame: pd.DataFrame) -> None:
        """Score some rows; an area under a curve cannot be made of pieces."""
        rows, y, said, codes = _said(self.model, frame)
        numbers = np.where(codes < 0, len(self.sums) - 1, codes)
        scores, weights = self.metric.of_tasks(y, said, np.ones(len(y)), numbers, len(self.sums))
        self.sums += np.where(np.isfinite(scores), scores * weights, 0.0)
        self.weights += np.where(np.isfinite(scores), weights, 0.0)
        self.rows += len(rows)

    @property
    def score(self) -> dict[str, Any]:
        """Metric, score and number of rows."""
        scored = self.weights > 0
        score = float(np.mean(self.sums[scored] / self.weights[scored])) if scored.any() else np.nan
        return {"metric": self.metric.words, "score": self.metric.shown(score), "rows": self.rows}


def _said(model: TableModel, frame: pd.DataFrame) -> tuple[Any, Any, Predicted, Any]:
    """Rows with a target, the targets, what is predicted, and the tasks."""
    rows = frame[frame[model.target].notna()].reset_index(drop=True)
    X, codes = model.encode(rows)
    classes = model.classes
    if classes is None:
        y = as_numbers(rows[model.target])
        said = Predicted(forecast(model.state, X, codes).mean)
    else:
        y = rows[model.target].to_numpy(dtype=object)
        if not isinstance(classes[0], str):
            y = as_numbers(rows[model.target]).astype(classes.dtype)
        else:
            y = np.array([str(value) for value in y], dtype=object)
        known = np.isin(y, classes)
        if not known.all():
            raise ValueError(
                f"The target {model.target!r} must be one of {', '.join(map(str, classes))} to be "
                f"scored; got {y[~known][0]!r}. Drop the column or the rows."
            )
        shares = probabilities(model.state, X, codes)
        said = Predicted(classes[shares.argmax(axis=1)], classes, shares)
    return rows, y, said, codes
