"""What a table holds: its target, features and tasks, recognised from a survey of its rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crosslearning.tables.columns.encoder import TableEncoder
from crosslearning.tables.columns.features import (
    Features,
    check_names,
    check_task_count,
    features_of,
    remarks,
    require_columns,
)
from crosslearning.tables.columns.recognition import ROW_NUMBER, as_numbers
from crosslearning.tables.columns.target import Target, target_of
from crosslearning.tables.engines import Engine
from crosslearning.tables.engines.plan import Plan
from crosslearning.tables.engines.survey import Survey
from crosslearning.tables.metrics import Metric, metric_of
from crosslearning.tables.settings import FitSettings
from crosslearning.tables.splits import horizon, time_starts, time_values

_FEWEST_ROWS = 10
_FEWEST_TASKS = 50  # to compare models on that need rows
_SHOWN = 20_000  # rows to look at predictions of
_COMPARED = 50_000  # tasks that are enough to compare models by sums
_IN_MEMORY = ("student", "gamma", "quantile")  # families whose models need all rows at once


@dataclass(frozen=True, eq=False, kw_only=True)
class Schema:
    """What a table holds; `complete` if all rows fit into the room that the engine has."""

    settings: FitSettings
    survey: Survey
    target: Target
    features: Features
    encoder: TableEncoder
    written: pd.Index[Any]
    labels: NDArray[Any]
    metric: Metric
    complete: bool

    @property
    def classes(self) -> NDArray[Any] | None:
        """The classes, if the target is one of them."""
        return np.unique(self.target.y) if self.target.kind == "classification" else None

    @property
    def notes(self) -> list[str]:
        """What seems odd about columns and labels, and what a sample had to do for."""
        survey, notes = self.survey, []
        if not survey.complete:
            gaps = ", and medians in place of gaps" if self.encoder.flagged else ""
            some = f"{len(survey.sample):,} rows drawn at random{gaps}"
            notes.append(f"columns were recognised from {some}")
        timed = self.settings.time is not None
        return notes + remarks(
            survey.sample, self.features, self.settings.task, self.labels, timed=timed
        )

    def plan(self, room: float) -> Plan:
        """Decide what to do with each chunk of the table."""
        given, survey, column = self.settings, self.survey, self.settings.time
        times: dict[str, Any] = {}
        if column is not None:
            first, sample = column in survey.day_first, survey.sample[column]
            values = time_values(sample, day_first=first)
            starts = time_starts(values, column, given.folds)
            reach = horizon(sample, values, starts, day_first=first)
            times = {"starts": starts, "horizon": reach, "day_first": first}
        return Plan(
            settings=given,
            encoder=self.encoder,
            labels=self.written,
            classes=self.classes,
            complete=self.complete,
            **times,
            **({} if self.complete else self._shares(room)),
        )

    def _shares(self, room: float) -> dict[str, Any]:
        """Compare normal models by sums of all rows, others on all rows of some tasks."""
        n_tasks, n_rows = len(self.labels), self.survey.n_rows
        normal = self.classes is None and self.target.family == "gaussian"
        if normal and self.metric.name == "mse":
            share = _SHOWN * max(n_tasks / _COMPARED, 1.0) / n_rows
            return {"summed_by_fold": True, "row_share": share}
        share = min(max(room / n_rows, _FEWEST_TASKS / n_tasks), 1.0)
        return {"task_share": share, "row_share": room / (share * n_rows)}


def look(engine: Engine, settings: FitSettings) -> Schema:
    """Look at all rows, and recognise target and columns."""
    survey = engine.survey(settings, _wanted(engine.columns, settings))
    n_rows, sample = survey.n_rows, survey.sample
    _check_size(survey, settings)
    complete = n_rows <= engine.room
    if not complete:
        _refuse_in_chunks(settings)
    values = sample[settings.target]
    if survey.targets is not None:  # rare ones may not be in the sample
        rare = pd.Series(survey.targets, name=settings.target)
        values = pd.concat([values, rare[~rare.isin(values)]]) if not survey.complete else values
    target = target_of(values, settings.target_kind, settings.family, settings.metric)
    if target.family in _IN_MEMORY and not complete:
        why = f"{target.why}; modelled as normal in chunks"
        target = replace(target, family="gaussian", why=why)
    features = _features(survey, settings)
    written, labels = survey.tasks(text_labels=engine.text_labels)
    encoder = survey.encoder(*(features.of(kind) for kind in ("number", "category", "date")))
    return Schema(
        settings=settings,
        survey=survey,
        target=target,
        features=features,
        encoder=encoder.knowing(sample, target, settings.weights),
        written=written,
        labels=labels,
        metric=metric_of(settings.metric, target.kind, settings.level),
        complete=complete,
    )


def _wanted(columns: list[str], settings: FitSettings) -> list[str]:
    """Check the settings against the names of the columns; and which of these to read."""
    header = pd.DataFrame(columns=columns)
    check_names(header)
    roles = {
        role: getattr(settings, role) for role in ("task", "target", "weights", "time", "group")
    }
    used = {role: name for role, name in roles.items() if name is not None}
    for role, name in used.items():
        require_columns(header, [name], f"the {role}")
    require_columns(header, settings.features or (), "the features")
    require_columns(header, list(settings.column_types), "numbers and categories")
    wanted = columns if settings.features is None else settings.features
    return list(dict.fromkeys([*used.values(), *wanted]))


def _check_size(survey: Survey, settings: FitSettings) -> None:
    """Refuse very few rows, one task, and one row per task."""
    if survey.n_rows < _FEWEST_ROWS:
        raise ValueError(
            f"A fit needs at least {_FEWEST_ROWS} rows with a target; {settings.target!r} has a "
            f"value in {survey.n_rows} of {survey.n_rows + survey.dropped} rows. Add rows."
        )
    check_task_count(settings.task, survey.labels, survey.n_rows)


def _refuse_in_chunks(settings: FitSettings) -> None:
    """Refuse options that need all rows in memory."""
    possible = {"base": ("auto", "linear", "none"), "jobs": (1,), "quantile": (None,)}
    wrong = [name for name, values in possible.items() if getattr(settings, name) not in values]
    wrong += ["family"] if settings.family in _IN_MEMORY else []
    if wrong:
        raise ValueError(
            f"Option {wrong[0]}={getattr(settings, wrong[0])} needs all rows in memory, but this "
            "table is read in chunks. Choose another value, or fit a part of the table."
        )


def _features(survey: Survey, settings: FitSettings) -> Features:
    """Choose the features; what numbers rows is seen only in the order of all of them."""
    sample, types = survey.sample, settings.column_types
    types.pop(settings.target, None)
    chosen = features_of(
        sample,
        settings.task,
        settings.target,
        settings.features,
        excluded=(settings.weights, settings.group),
        types=types,
    )
    if survey.complete:
        return chosen
    columns = [
        replace(column, missing=survey.missing.get(column.name, column.missing))
        for column in chosen.used
    ]
    numbering = {
        column.name
        for column in columns
        if settings.features is None
        and column.type == "number"
        and _numbers_rows(sample[column.name], survey)
    }
    ignored = [replace(c, reason=ROW_NUMBER) for c in columns if c.name in numbering]
    used = tuple(column for column in columns if column.name not in numbering)
    if not used:
        raise ValueError(
            f"No column besides task and target can be a feature ({', '.join(sorted(numbering))}: "
            f"{ROW_NUMBER}). Add a column of numbers or categories that varies."
        )
    return Features(used, (*chosen.ignored, *ignored))


def _numbers_rows(values: pd.Series[Any], survey: Survey) -> bool:
    """Whether a column seems to number the rows of the table that a sample was drawn from."""
    if values.isna().any() or not values.is_unique:
        return False
    numbers = as_numbers(values)
    return not np.any(numbers % 1) and bool(np.ptp(numbers) < 2 * survey.n_rows)
