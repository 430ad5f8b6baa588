"""A first look at all rows of a table: recognises its columns, and decides what to do with rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd

from crosslearning.convex.families import REGISTRY
from crosslearning.tables.columns.features import (
    Features,
    check_names,
    check_task_count,
    features_of,
    require_columns,
)
from crosslearning.tables.columns.target import Target, target_of
from crosslearning.tables.engines import Engine
from crosslearning.tables.engines.survey import Survey
from crosslearning.tables.metrics import metric_of
from crosslearning.tables.schema import Schema
from crosslearning.tables.settings import FitSettings
from crosslearning.tables.splits import horizon_of, time_starts, time_values

COMPARED = 50_000  # tasks that are enough to compare models by sums
_FEWEST_ROWS = 10
_FEWEST_TASKS = 50  # to compare models on that need rows
_SHOWN = 20_000  # rows to look at predictions of


def look(engine: Engine, settings: FitSettings) -> Schema:
    """Look at all rows, recognise target and columns, and decide what to do with rows."""
    survey = engine.survey(settings, _columns_to_read(list(engine.table.columns), settings))
    if survey.n_rows < _FEWEST_ROWS:
        raise ValueError(
            f"A fit needs at least {_FEWEST_ROWS} rows with a target; {settings.target!r} has a "
            f"value in {survey.n_rows} of {survey.n_rows + survey.dropped} rows. Add rows."
        )
    check_task_count(settings.task, survey.labels, survey.n_rows)
    complete = survey.n_rows <= engine.room
    if not complete:
        _refuse_in_chunks(settings)
    target, features = _target(survey, settings, complete=complete), _features(survey, settings)
    written, labels, levels = survey.tasks(text_labels=engine.table.text_labels)
    if levels is not None:
        levels.check()
    encoder = survey.encoder(*(features.of(kind) for kind in ("number", "category", "date")))
    metric = metric_of(settings.metric, target.kind, settings.level)
    choices: dict[str, Any] = {}
    if settings.time is not None:
        choices |= _in_time(survey, settings)
    if not complete:
        by_sums = target.family == "gaussian" and metric.name == "mse"
        choices |= _shares(survey.n_rows, len(labels), engine.room, by_sums=by_sums)
    return Schema(
        settings=settings,
        survey=survey,
        target=target,
        features=features,
        metric=metric,
        encoder=encoder.knowing(survey.sample, target, settings.weights),
        written=written,
        labels=labels,
        levels=levels,
        complete=complete,
        **choices,
    )


def _columns_to_read(columns: list[str], settings: FitSettings) -> list[str]:
    """Check the settings against the names of the columns; and which of these to read."""
    header = pd.DataFrame(columns=columns)
    check_names(header)
    roles = ("target", "weights", "time", "group")
    used = [("the task", name) for name in settings.task]
    used += [(f"the {role}", getattr(settings, role)) for role in roles if getattr(settings, role)]
    for role, name in used:
        require_columns(header, [name], role)
    require_columns(header, settings.features or (), "the features")
    require_columns(header, list(settings.column_types), "numbers and categories")
    features = columns if settings.features is None else settings.features
    return list(dict.fromkeys([*(name for _, name in used), *features]))


def _refuse_in_chunks(settings: FitSettings) -> None:
    """Refuse options that need all rows in memory."""
    possible = {"base": ("auto", "linear", "none"), "jobs": (1,), "quantile": (None,)}
    wrong = [name for name, values in possible.items() if getattr(settings, name) not in values]
    if len(settings.task) > 1:
        raise ValueError(
            f"Groups within groups need all rows in memory, but this table is read in chunks; got "
            f"the task columns {', '.join(map(repr, settings.task))}. Name one, or fit a part of "
            "the table."
        )
    wrong += ["family"] if _needs_rows(settings.family) else []
    if wrong:
        raise ValueError(
            f"Option {wrong[0]}={getattr(settings, wrong[0])} needs all rows in memory, but this "
            "table is read in chunks. Choose another value, or fit a part of the table."
        )


def _needs_rows(family: str) -> bool:
    """Whether models of a family need all rows at once; normal ones need sums alone."""
    by_passes = [name for name, one in REGISTRY.items() if one.by_passes]
    return family not in ("auto", "gaussian", *by_passes)


def _target(survey: Survey, settings: FitSettings, *, complete: bool) -> Target:
    """Recognise the target."""
    values = survey.sample[settings.target]
    if survey.targets is not None and not survey.complete:  # rare ones may not be in the sample
        rare = pd.Series(survey.targets, name=settings.target)
        values = pd.concat([values, rare[~rare.isin(values)]])
    target = target_of(values, settings.target_kind, settings.family, settings.metric)
    if _needs_rows(target.family) and not complete:
        how = "without their order" if target.grades is not None else "as normal"
        why = f"{target.why}; modelled {how} in chunks"
        target = replace(target, family="gaussian", grades=None, why=why)
    return target


def _features(survey: Survey, settings: FitSettings) -> Features:
    """Choose the features by a sample; gaps are counted in all rows."""
    features = features_of(survey.sample, settings, survey.n_rows)
    if survey.complete:
        return features
    used = (replace(c, missing=survey.missing.get(c.name, c.missing)) for c in features.used)
    return replace(features, used=tuple(used))


def _in_time(survey: Survey, settings: FitSettings) -> dict[str, Any]:
    """Moments that rows are divided at, and how far ahead that tests."""
    times = survey.sample[settings.time]
    day_first = settings.time in survey.day_first
    values = time_values(times, day_first=day_first)
    starts = time_starts(values, str(settings.time), settings.folds)
    return {"starts": starts, "horizon": horizon_of(times, values, starts, day_first=day_first)}


def _shares(n_rows: int, n_tasks: int, room: float, *, by_sums: bool) -> dict[str, Any]:
    """Compare normal models by sums of all rows, others on all rows of some tasks."""
    if by_sums:
        share = _SHOWN * max(n_tasks / COMPARED, 1.0) / n_rows
        return {"summed_by_fold": True, "row_share": share}
    share = min(max(room / n_rows, _FEWEST_TASKS / n_tasks), 1.0)
    return {"task_share": share, "row_share": room / (share * n_rows)}
