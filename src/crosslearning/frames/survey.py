"""Which column of a table is what, and what one look at all rows tells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crosslearning.frames import columns as reading
from crosslearning.frames.columns import as_numbers, require_columns
from crosslearning.frames.encoder import TaskLevels, tidy
from crosslearning.tasks.folds import uniform
from crosslearning.tasks.labels import as_objects

Array = NDArray[np.float64]
Codes = NDArray[np.intp]
_SAMPLE = 50_000  # rows to recognise columns from
_MOST_CLASSES = 100  # distinct targets to keep
_WHOLE = r"0|-?[1-9]\d{0,14}"


@dataclass(frozen=True, kw_only=True)
class Roles:
    """Columns of tasks, outermost first, of the target, and of others that are no features.

    `features` are all other columns by default; `types` are those of columns that are known.
    """

    task: tuple[str, ...]
    target: str
    features: tuple[str, ...] | None = None
    types: Mapping[str, str] = field(default_factory=dict)
    weights: str | None = None
    time: str | None = None
    group: str | None = None
    drop_unlabelled: bool = False


def columns_to_read(columns: Sequence[str], roles: Roles) -> list[str]:
    """Check roles against the names of the columns, and return those to read."""
    reading.check_names(columns)
    named = [("task", name) for name in roles.task]
    others = ("target", "weights", "time", "group")
    named += [(role, getattr(roles, role)) for role in others if getattr(roles, role)]
    for role, name in named:
        require_columns(columns, [name], f"the {role}")
    require_columns(columns, roles.features or (), "the features")
    require_columns(columns, list(roles.types), "numbers and categories")
    for role, name in named:
        if name in roles.types and role != "time":
            raise ValueError(
                f"Only features can be marked as numbers or categories; got {name!r}, which is the "
                f"{role}. Leave it out."
            )
    features = columns if roles.features is None else roles.features
    return list(dict.fromkeys([*(name for _, name in named), *features]))


@dataclass(eq=False)
class Survey:
    """What is known of the rows seen so far; surveys of parts of a table can be added."""

    roles: Roles
    seed: int = 0  # of the sample
    room: float = 0  # rows that may be kept in memory
    n_rows: int = 0  # to learn from
    dropped: int = 0  # other rows,
    unlabelled: int = 0  # of which these have a target
    labels: NDArray[Any] = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # distinct
    counts: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # theirs
    targets: NDArray[Any] | None = field(default_factory=lambda: np.empty(0))  # None if many
    sample: pd.DataFrame = field(default_factory=pd.DataFrame)  # rows in order, drawn at random
    keys: Array = field(default_factory=lambda: np.empty(0))  # that they are drawn by

    @property
    def complete(self) -> bool:
        """Whether the sample has all rows."""
        return len(self.sample) == self.n_rows

    def look(self, frame: pd.DataFrame, part: int) -> None:
        """Take rows of some part of the table into account."""
        target = self.roles.target
        rows, codes, labels = usable(frame, self.roles)
        for name in rows.select_dtypes("number"):
            as_numbers(rows[name])  # refuses infinities here, where the part is known
        keys = uniform(part, rows.index.to_numpy(), self.seed, "sample")
        few = keys < (self.keys.max() if len(self.keys) == max(self.room, _SAMPLE) else np.inf)
        seen = replace(self, n_rows=len(rows), dropped=len(frame) - len(rows))
        seen.unlabelled = int(frame[target].notna().sum()) - len(rows)
        seen.labels, seen.counts = labels, np.bincount(codes, minlength=len(labels))
        seen.targets = _few(np.asarray(rows[target].unique()))
        seen.sample, seen.keys = rows[few], keys[few]
        self.add(seen)

    def add(self, other: Survey) -> None:
        """Take rows of another survey into account."""
        self.n_rows += other.n_rows
        self.dropped += other.dropped
        self.unlabelled += other.unlabelled
        codes, self.labels = pd.factorize(_joined(self.labels, other.labels))
        self.counts = np.bincount(codes, np.append(self.counts, other.counts)).astype(np.int64)
        if self.targets is None or other.targets is None:
            self.targets = None
        else:
            self.targets = _few(pd.unique(_joined(self.targets, other.targets)))
        self.keys = np.append(self.keys, other.keys)
        if samples := [part for part in (self.sample, other.sample) if len(part)]:
            self.sample = pd.concat(samples)
        size = max(self.room, _SAMPLE)
        if len(self.keys) > size:
            smallest = np.sort(np.argsort(self.keys, kind="stable")[: int(size)])
            self.sample, self.keys = self.sample.iloc[smallest], self.keys[smallest]

    def tasks(self, *, text_labels: bool) -> tuple[pd.Index[Any], NDArray[Any], TaskLevels | None]:
        """Labels in order: as written, with their types, and by column if there are several."""
        written = pd.Index(self.labels, tupleize_cols=False)
        if len(self.roles.task) == 1:
            labels, ranks = _ranked(written, text_labels=text_labels)
            return written[np.argsort(ranks)], labels, None
        columns = [pd.Index(column) for column in zip(*self.labels, strict=True)]
        each, codes = zip(*(_ranked(c, text_labels=text_labels) for c in columns), strict=True)
        order = np.lexsort(codes[::-1])
        positions = np.column_stack(codes)[order]
        levels = TaskLevels(list(self.roles.task), list(each), positions)
        return written[order], as_objects(levels.names), levels


def _ranked(written: pd.Index[Any], *, text_labels: bool) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Distinct labels in order, and the position of each label among them."""
    if text_labels and written.astype(str).str.fullmatch(_WHOLE).all():  # read as text
        written = written.astype(np.int64)
    codes, distinct = pd.factorize(written)
    try:
        order = distinct.argsort()
    except TypeError:  # labels that cannot be compared stay in order of appearance
        order = np.arange(len(distinct))
    return as_objects(list(distinct[order])), np.argsort(order)[codes]


def usable(frame: pd.DataFrame, roles: Roles) -> tuple[pd.DataFrame, Codes, NDArray[Any]]:
    """Rows with a target, the code of each one's task, and the label of each code."""
    columns = [_factorized(frame[name]) for name in roles.task]
    codes, labels = columns[0] if len(columns) == 1 else _combined(columns)
    keep = frame[roles.target].notna().to_numpy()
    if roles.drop_unlabelled:
        keep = keep & (codes >= 0)
    labelled = [("task", name, one) for name, (one, _) in zip(roles.task, columns, strict=True)]
    if roles.group is not None:
        labelled.append(("group", roles.group, _factorized(frame[roles.group])[0]))
    for role, name, numbers in labelled:
        if (numbers[keep] < 0).any():
            how = " with option drop_unlabelled" if role == "task" else ""
            raise ValueError(
                f"The {role} column {name!r} must have a label in every row; it has none in "
                f"{reading.listed_rows(frame.index[keep & (numbers < 0)])}. Fill in the labels, or "
                f"drop these rows{how}."
            )
    if not keep.all():
        frame = frame[keep]
        used, codes = np.unique(codes[keep], return_inverse=True)
        labels = labels[used]
    return frame, codes, labels


def _factorized(column: pd.Series[Any]) -> tuple[Codes, NDArray[Any]]:
    """Return the code of each row's label, -1 if it has none, and the label of each code."""
    codes, uniques = pd.factorize(column)
    labels = tidy(pd.Series(np.asarray(uniques)))
    missing = np.append(labels.isna(), True)
    return np.where(missing[codes], -1, codes), labels.to_numpy()


def _combined(columns: list[tuple[Codes, NDArray[Any]]]) -> tuple[Codes, NDArray[Any]]:
    """Return the same for several columns: labels are tuples."""
    numbers = np.column_stack([codes for codes, _ in columns])
    full = (numbers >= 0).all(axis=1)
    distinct, positions = np.unique(numbers[full], axis=0, return_inverse=True)
    codes = np.full(len(numbers), -1)
    codes[full] = positions.ravel()
    each = (labels[at].tolist() for (_, labels), at in zip(columns, distinct.T, strict=True))
    return codes, as_objects(list(zip(*each, strict=True)))


def _few(values: NDArray[Any]) -> NDArray[Any] | None:
    return values if len(values) <= _MOST_CLASSES else None


def _joined(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """Labels of both, of the type of the second if there are none before."""
    return np.concatenate([a, b]) if len(a) else b
