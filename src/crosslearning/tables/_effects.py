"""Partial effects: predictions as one column changes and the others stay at typical values."""

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crosslearning.tables.columns import as_numbers
from crosslearning.tables.encoding import counted
from crosslearning.tables.forecast import forecast, probabilities
from crosslearning.tables.model import TableModel

_MOST_COLUMNS, _MOST_TASKS, _MOST_LEVELS, _GRID = 12, 60, 12, 21
_CENTRAL = (0.025, 0.975)  # quantiles of a column


def effects(model: TableModel, frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Effects at the centre and in some tasks, for the columns with the largest ones at the centre.

    For classes it is the effect on the probability of the last one. The other columns have their
    medians and most frequent levels.
    """
    grids = _grids(model, frame)
    if not grids:
        return []
    X = _encoded(model, frame, grids)
    ends = np.cumsum([0, *map(len, grids.values())])
    center = _said(model, X, np.full(len(X), -1))
    parts = [slice(*pair) for pair in pairwise(ends)]
    size = [np.ptp(center[part]) for part in parts]
    order = np.argsort(-np.array(size), kind="stable")[:_MOST_COLUMNS]
    rows = np.concatenate([np.arange(len(X))[parts[k]] for k in order])
    labels = model._tasks.labels
    shown = np.arange(0, len(labels), -(-len(labels) // _MOST_TASKS))
    tasks = np.full((len(shown), len(X)), np.nan)
    said = _said(model, np.tile(X[rows], (len(shown), 1)), np.repeat(shown, len(rows)))
    tasks[:, rows] = said.reshape(len(shown), -1)
    names = list(grids)
    classes = model.classes
    what = model.predicts if classes is None else f"probability of {model.target} = {classes[-1]}"
    return [
        {
            "feature": names[k],
            "what": what,
            "grid": grids[names[k]],
            "center": center[parts[k]],
            "tasks": [
                {"task": labels[i], "values": values[parts[k]]}
                for i, values in zip(shown, tasks, strict=True)
            ],
        }
        for k in order
    ]


def _grids(model: TableModel, frame: pd.DataFrame) -> dict[str, list[Any]]:
    """Values of each column: few numbers as they are, others evenly spaced; frequent levels."""
    grids: dict[str, list[Any]] = {}
    for name in model.encoder.plain:
        values = as_numbers(frame[name])
        values = values[np.isfinite(values)]
        low, high = np.quantile(values, _CENTRAL)
        distinct = np.unique(values[(values >= low) & (values <= high)])
        many = len(distinct) > _GRID
        grids[name] = (np.linspace(low, high, _GRID) if many else distinct).tolist()
    for name, levels in model.encoder.levels.items():
        counts = counted(frame[name]).sort_values(ascending=False, kind="stable")
        grids[name] = [level for level in counts.index if level in levels][:_MOST_LEVELS]
    return {name: grid for name, grid in grids.items() if len(grid) > 1}


def _encoded(
    model: TableModel, frame: pd.DataFrame, grids: dict[str, list[Any]]
) -> NDArray[np.float64]:
    """Features of a typical row, in which one column after the other takes the values of a grid."""
    length, start = sum(map(len, grids.values())), 0
    rows = {model.task: np.full(length, None, dtype=object)}
    for name in model.encoder.columns:
        typical = model.encoder.numbers.get(name)
        if typical is None:
            common = frame[name].dropna().mode()
            typical = common.iloc[0] if len(common) else None
        rows[name] = np.full(length, typical, dtype=object)
    for name, grid in grids.items():
        rows[name][start : start + len(grid)] = grid
        start += len(grid)
    return model.encode(pd.DataFrame(rows))[0]


def _said(
    model: TableModel, X: NDArray[np.float64], codes: NDArray[np.intp]
) -> NDArray[np.float64]:
    if model.classes is None:
        return forecast(model.state, X, codes, spread=False)[0]
    return probabilities(model.state, X, codes)[:, -1]
