"""Scores of a model on tables that have the target."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crosslearning.tables.columns.recognition import as_numbers, class_codes
from crosslearning.tables.forecast import is_in_fit, predictions
from crosslearning.tables.metrics import Predictions, metric_of

if TYPE_CHECKING:
    from crosslearning.tables.model import TableModel


class Score(NamedTuple):
    """Name of a metric, score, and number of rows that were scored."""

    metric: str
    score: float
    rows: int


class Scorer:
    """Scores rows with a target, also in chunks: mean over tasks.

    New tasks count each; rows without a label count as one task. `weighted` is a column of weights,
    if the table has it.
    """

    def __init__(self, model: TableModel, weighted: str | None = None) -> None:
        self.weighted = weighted
        kind = "regression" if model.classes is None else "classification"
        self.model, self.metric = model, metric_of(model.metric, kind, model.quantile)
        self.new: dict[str, int] = {}  # numbers of new tasks
        self.n_tasks, self.rows = len(model.state["fitted"]["tasks_"]), 0
        self.sums, self.weights = np.zeros(self.n_tasks), np.zeros(self.n_tasks)

    def add(self, frame: pd.DataFrame) -> None:
        """Score some rows; an area under a curve cannot be added up from chunks."""
        target = self.model.target
        if target not in frame.columns or not frame[target].notna().any():
            return
        y, predicted, codes, rows = predict_targets(self.model, frame)
        new = ~is_in_fit(self.model.state, codes)
        names = self.model.written_labels(rows[new]).astype(object).map(str)  # or "None"
        codes[new] = [self.new.setdefault(n, self.n_tasks + len(self.new)) for n in names]
        n_tasks = self.n_tasks + len(self.new)
        self.sums.resize(n_tasks, refcheck=False)
        self.weights.resize(n_tasks, refcheck=False)
        row_weights = self.model.encoder.weights(rows, self.weighted)
        scores, weights = self.metric.of_tasks(y, predicted, row_weights, codes, n_tasks)
        self.sums += np.where(np.isfinite(scores), scores * weights, 0.0)
        self.weights += np.where(np.isfinite(scores), weights, 0.0)
        self.rows += len(y)

    @property
    def score(self) -> Score | None:
        """Score of all rows, if one has a target."""
        scored = self.weights > 0
        if not self.rows:
            return None
        score = float(np.mean(self.sums[scored] / self.weights[scored])) if scored.any() else np.nan
        return Score(self.metric.words, self.metric.reported(score), self.rows)


def predict_targets(
    model: TableModel, frame: pd.DataFrame
) -> tuple[NDArray[Any], Predictions, NDArray[np.int64], pd.DataFrame]:
    """Targets, their predictions, the numbers of their tasks, and these rows."""
    rows, classes = frame[frame[model.target].notna()].reset_index(drop=True), model.classes
    mark = model.encoder.marks.get(model.target)
    if classes is None:
        y = as_numbers(rows[model.target], mark)
        rows, y = rows[~np.isnan(y)], y[~np.isnan(y)]
    else:
        y = classes[class_codes(rows[model.target], classes, mark)]
    X, codes = model.encode(rows)
    return y, Predictions.of(predictions(model.state, X, codes), classes), codes, rows
