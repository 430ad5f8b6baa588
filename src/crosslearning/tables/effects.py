"""Partial effects: predictions as one column changes, averaged over rows of the table."""

from collections.abc import Collection
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crosslearning.tables.columns import as_numbers
from crosslearning.tables.encoder import counted
from crosslearning.tables.findings import PartialEffect
from crosslearning.tables.forecast import count_trees, predictions
from crosslearning.tables.model import TableModel

_MOST_COLUMNS, _MOST_TASKS, _MOST_LEVELS, _GRID = 12, 60, 12, 21
_CENTRAL = (0.025, 0.975)  # quantiles of a column
_NUMBERS, _MOST_ROWS = 2**24, 200  # to predict from in all, and rows to average over at most
_NODES = 64  # that probabilities of three or more classes are averaged over, or more


def effects(
    model: TableModel, frame: pd.DataFrame, constant: Collection[str] = ()
) -> tuple[PartialEffect, ...]:
    """Effects at the centre and in some tasks, for the columns with the largest ones at the centre.

    For classes it is the effect on the probability of the last one. The other columns are those of
    rows spread evenly over the table, whose predictions are averaged. Tasks cannot differ in the
    effect of a column whose features are `constant` within all of them.
    """
    grids = _grids(model, frame)
    if not grids:
        return ()
    labels, names = model._tasks.labels, list(grids)
    drawn = np.arange(0, len(labels), -(-len(labels) // _MOST_TASKS))
    ends = np.cumsum([0, *map(len, grids.values())])
    some = _evenly_chosen(model, frame, ends[-1] * (len(drawn) + 1))
    X = _encoded(model, some, grids).reshape(ends[-1], len(some), -1)
    center = _averaged(model, X, -1)
    parts = [slice(*pair) for pair in pairwise(ends)]
    size = [np.ptp(center[part]) for part in parts]
    order = np.argsort(-np.array(size), kind="stable")[:_MOST_COLUMNS]
    points = np.concatenate([np.arange(len(X))[parts[k]] for k in order])
    tasks = np.full((len(drawn), len(X)), np.nan)
    for i, task in enumerate(drawn.tolist()):
        tasks[i, points] = _averaged(model, X[points], task)
    classes = model.classes
    what = model.predicts if classes is None else f"probability of {model.target} = {classes[-1]}"
    differ = [not set(model.encoder.features_of(name)) <= set(constant) for name in names]
    return tuple(
        PartialEffect(
            feature=names[k],
            what=what,
            probability=classes is not None,
            grid=tuple(grids[names[k]]),
            center=tuple(center[parts[k]]),
            tasks=tuple(labels[i] for i in drawn) if differ[k] else (),
            lines=tuple(map(tuple, tasks[:, parts[k]])) if differ[k] else (),
        )
        for k in order
    )


def _evenly_chosen(model: TableModel, frame: pd.DataFrame, n_points: int) -> pd.DataFrame:
    """Rows to average over, fewer if they are to be predicted for many points."""
    n_scores = 1 if model.classes is None else len(model.classes) - 1
    nodes = n_scores * _NODES if n_scores > 1 else 0
    each = n_scores * len(model.encoder.feature_names) + nodes + count_trees(model.state)
    affordable = _NUMBERS // (n_points * each)
    count = np.clip(affordable, 1, min(_MOST_ROWS, len(frame)))
    return frame.iloc[np.linspace(0, len(frame) - 1, count).astype(np.intp)]


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
    """Features of all rows for each value of a grid, one column after the other."""
    n_rows, points = len(frame), sum(map(len, grids.values()))
    nobody = np.full(points * n_rows, None, dtype=object)
    rows: dict[str, NDArray[Any]] = dict.fromkeys(model.task_columns, nobody)
    for name in model.encoder.columns:
        values = frame[name].to_numpy(dtype=object)
        if name in model.encoder.numbers:
            values = as_numbers(frame[name], model.encoder.marks.get(name), strict=False)
        rows[name] = np.tile(values, points).reshape(points, n_rows)
    start = 0
    for name, grid in grids.items():
        rows[name][start : start + len(grid)] = np.array(grid, dtype=object)[:, np.newaxis]
        start += len(grid)
    return model.encode(pd.DataFrame({name: column.ravel() for name, column in rows.items()}))[0]


def _averaged(model: TableModel, X: NDArray[np.float64], task: int) -> NDArray[np.float64]:
    """Mean predictions of a task over the rows of each value of a grid; -1 is the centre."""
    rows = X.reshape(-1, X.shape[-1])
    codes = np.full(len(rows), task)
    values = predictions(model.state, rows, codes)
    values = values if model.classes is None else values[:, -1]
    return np.asarray(values.reshape(X.shape[:-1]).mean(axis=1))
