"""Predictions of a stored model against targets that are known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crosslearning.evaluation.scores import mean
from crosslearning.evaluation.scoring import Predicted
from crosslearning.tables.columns import as_numbers
from crosslearning.tables.forecast import forecast, probabilities
from crosslearning.tables.metrics import METRICS

if TYPE_CHECKING:
    import pandas as pd

    from crosslearning.tables.model import TableModel

__all__ = ["score_frame"]


def score_frame(model: TableModel, frame: pd.DataFrame) -> dict[str, Any]:
    """Score the rows with a target: mean over tasks, those never seen together as one."""
    rows = frame[frame[model.target].notna()].reset_index(drop=True)
    X, codes = model.encode(rows)
    classes, metric = model.classes, METRICS[model.metric]
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
    numbers = np.where(codes < 0, codes.max() + 1, codes)
    scores, weights = metric.of_tasks(y, said, np.ones(len(y)), numbers, int(numbers.max()) + 1)
    score = metric.shown(float(mean(scores, weights > 0, axis=0)))
    return {"metric": metric.words, "score": score, "rows": len(rows)}
