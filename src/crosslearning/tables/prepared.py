"""A table prepared for fitting: target, features, rows as numbers, and splits."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crosslearning.tables.columns.encoder import TableEncoder
from crosslearning.tables.columns.labels import tidy
from crosslearning.tables.columns.schema import (
    Features,
    check_names,
    check_tasks_of,
    features_of,
    remarks,
    require_columns,
)
from crosslearning.tables.columns.target import Target, target_of
from crosslearning.tables.learners.features import Rotation
from crosslearning.tables.metrics import weights_of
from crosslearning.tables.options import option
from crosslearning.tables.rows import Rows
from crosslearning.tables.splits import Splits, splits_of
from crosslearning.tasks import TaskIndex

_FEWEST_ROWS = 10


class Prepared(NamedTuple):
    """A table prepared for fitting."""

    task: str
    table: pd.DataFrame
    goal: Target
    features: Features
    encoder: TableEncoder
    rotation: Rotation | None
    rows: Rows
    labels: NDArray[Any]
    splits: Splits
    notes: list[str]


def prepared(
    frame: pd.DataFrame,
    task: str,
    target: str,
    *,
    features: Sequence[str] | None,
    types: dict[str, str],
    kind: str,
    family: str,
    metric: str | None,
    roles: Mapping[str, str | None],
    folds: int,
    drop: bool,
    seed: int,
) -> Prepared:
    """Prepare a table; `roles` are the columns of weights, times and groups."""
    for role, column in roles.items():
        require_columns(frame, [column] if column else [], f"the {role}")
    weights, time, group = (roles[role] for role in ("weights", "time", "group"))
    table = _usable_rows(frame, task, target, drop=drop)
    kind = kind_asked(kind, family, types.pop(target, None))
    goal = target_of(table[target], kind, family, metric)
    used = features_of(table, task, target, features, excluded=(weights, group), types=types)
    encoder = TableEncoder.of(table, used.of("number"), used.of("category"), used.of("date"))
    encoder = encoder.knowing(table, goal, weights)
    rows, labels, rotation = _rows(table, task, goal, encoder, weights)
    splits = splits_of(
        rows.codes,
        folds,
        seed,
        classes=rows.y if rows.classes is not None else None,
        time=table[time] if time else None,
        group=table[group] if group else None,
    )
    notes = remarks(table, used, task, labels, timed=time is not None)
    return Prepared(task, table, goal, used, encoder, rotation, rows, labels, splits, notes)


def kind_asked(kind: str, family: str, wanted: str | None) -> str:
    """Return the kind of target that is asked for, possibly as a type of column."""
    if wanted is None or kind != "auto" or family != "auto":
        return kind
    return {"number": "regression", "category": "classification"}[wanted]


def check_settings(
    frame: pd.DataFrame, task: str, target: str, epsilon: float, seed: int, folds: int
) -> None:
    """Refuse missing columns and bad settings."""
    check_names(frame)
    require_columns(frame, [task], "the task")
    require_columns(frame, [target], "the target")
    if task == target:
        raise ValueError(f"Task and target must be two columns; got {task!r} for both.")
    if seed < 0:
        raise ValueError(f"{option('seed')} must be at least 0; got {seed}.")
    if folds < 2:
        raise ValueError(f"{option('folds')} must be at least 2; got {folds}.")
    if not epsilon >= 0:
        raise ValueError(
            f"{option('epsilon')} is a distance and must be at least 0; got {epsilon}. Use 0 for "
            "one pooled model, inf for no bound."
        )


def _usable_rows(frame: pd.DataFrame, task: str, target: str, *, drop: bool) -> pd.DataFrame:
    """Rows with a target, indexed by their number in the table."""
    numbered = frame.reset_index(drop=True)
    missing = numbered[target].isna()
    labels = tidy(numbered[task])
    if drop:
        missing |= labels.isna()
    if labels is not numbered[task]:
        numbered = numbered.assign(**{task: labels})
    rows = numbered[~missing] if missing.any() else numbered
    check_rows(len(rows), len(frame), target)
    check_tasks_of(rows[task])
    return rows


def check_rows(usable: int, of: int, target: str) -> None:
    """Refuse a table of very few rows."""
    if usable < _FEWEST_ROWS:
        raise ValueError(
            f"A fit needs at least {_FEWEST_ROWS} rows with a target; {target!r} has a value in "
            f"{usable} of {of} rows. Add rows."
        )


def weightless(weights: str | None) -> ValueError:
    """Say that no row counts."""
    return ValueError(f"The weights in {weights!r} must not all be 0.")


def _rows(
    table: pd.DataFrame, task: str, goal: Target, encoder: TableEncoder, weights: str | None
) -> tuple[Rows, NDArray[Any], Rotation | None]:
    """Rows as numbers, the labels of the tasks, and principal axes of very many features."""
    index, codes = TaskIndex.of(table[task])
    labels = np.empty(len(index), dtype=object)
    labels[:] = index.labels
    X = encoder.encode(table)
    rotation = Rotation.of(X)
    if rotation is not None:
        X = rotation.apply(X)
    classes = np.unique(goal.y) if goal.kind == "classification" else None
    given = None if weights is None else weights_of(table, weights, encoder.marks)
    if given is not None and not given.any():
        raise weightless(weights)
    return Rows(X, goal.y, codes, len(index), given, classes), labels, rotation
