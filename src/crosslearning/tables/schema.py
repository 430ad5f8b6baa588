"""What a table holds, by a first look at all of its rows, and what is to be done with them."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crosslearning.convex.families import REGISTRY
from crosslearning.convex.sums.statistics import Statistics
from crosslearning.evaluation.metrics import Metric, metric_of
from crosslearning.frames import columns as reading
from crosslearning.frames.encoder import TableEncoder, TaskLevels
from crosslearning.frames.survey import Roles, Survey, usable
from crosslearning.frames.target import Features, Target, features_of, remarks, target_of
from crosslearning.tables.findings import Horizon
from crosslearning.tables.rows import Rows
from crosslearning.tables.settings import FAMILIES, FitSettings
from crosslearning.tasks.folds import Splits, deal, divide, time_starts, uniform

Array = NDArray[np.float64]
COMPARED = 50_000  # tasks that are enough to compare models by sums
_FEWEST_ROWS = 10
_FEWEST_TASKS = 50  # to compare models on that need rows
_DAY = 864e11  # nanoseconds
_SHOWN = 20_000  # rows to look at predictions of


def roles_of(settings: FitSettings) -> Roles:
    """Return what the columns of a table are."""
    types = dict.fromkeys(settings.numbers, "number")
    types |= dict.fromkeys(settings.categories, "category")
    names = {one.name for one in fields(Roles)} - {"types"}
    return Roles(**{name: getattr(settings, name) for name in names}, types=types)


@dataclass(frozen=True, eq=False, kw_only=True)
class Schema:
    """What a table holds, and what is to be done with its rows."""

    settings: FitSettings
    survey: Survey
    target: Target
    features: Features
    metric: Metric
    encoder: TableEncoder
    written: pd.Index[Any]  # labels of the tasks, as they are written
    labels: NDArray[Any]  # the same with their types
    levels: TaskLevels | None  # the same by column, if tasks are within groups
    starts: NDArray[Any] = field(default_factory=lambda: np.empty(0))  # of parts of later rows
    horizon: Horizon | None = None  # how far ahead models are tested

    @classmethod
    def of(cls, settings: FitSettings, survey: Survey, *, text_labels: bool) -> Schema:
        """Recognise target and columns, and decide what to do with rows."""
        _check_size(survey)
        if survey.n_rows > survey.room:
            _refuse_in_chunks(settings)
        target = _target(settings, survey)
        features = features_of(survey.sample, survey.roles, survey.n_rows)
        written, labels, levels = survey.tasks(text_labels=text_labels)
        if levels is not None:
            levels.check()
        numeric = target.classes is None or target.classes.dtype.kind in "fi"
        marked = [name for name in (target.name if numeric else None, settings.weights) if name]
        in_time = {} if settings.time is None else _in_time(survey, settings.time, settings.folds)
        numbers, categories, dates = map(features.of, ("number", "category", "date"))
        schema = cls(
            settings=settings,
            survey=survey,
            target=target,
            features=features,
            metric=metric_of(settings.metric, target.kind, settings.level),
            encoder=TableEncoder.of(survey.sample, numbers, categories, dates, marked),
            written=written,
            labels=labels,
            levels=levels,
            **in_time,
        )
        if levels is not None and not (schema.complete or schema.summed_by_fold):
            raise ValueError(
                "Groups within groups need all rows in memory unless models are normal and scored "
                "by mse, but this table is read in chunks; got the task columns "
                f"{', '.join(map(repr, settings.task))}. Choose family=gaussian and metric=mse for "
                "numbers, name one column, or fit a part of the table."
            )
        return schema

    @property
    def classes(self) -> NDArray[Any] | None:
        """The classes, if the target is one of them."""
        return self.target.classes

    @property
    def complete(self) -> bool:
        """Whether all rows are kept in memory, so that nothing needs to be summed."""
        return self.survey.n_rows <= self.survey.room

    @property
    def summed_by_fold(self) -> bool:
        """Whether models are compared by sums, not by rows."""
        normal = self.target.family == "gaussian"
        return normal and self.metric.name == "mse" and not self.complete

    @property
    def notes(self) -> list[str]:
        """What seems odd about columns, and what was decided from a sample."""
        survey, notes = self.survey, []
        if not survey.complete:
            gaps = ", and medians in place of gaps" if self.encoder.flagged else ""
            some = f"{len(survey.sample):,} rows drawn at random{gaps}"
            notes.append(f"columns were recognised from {some}")
        return notes + remarks(survey.sample, self.features, survey.roles)

    @property
    def columns(self) -> list[str]:
        """The columns that are needed."""
        settings = self.settings
        others = (settings.target, settings.weights, settings.group, settings.time)
        names = [*settings.task, *self.encoder.columns, *(name for name in others if name)]
        return list(dict.fromkeys(names))

    @property
    def n_features(self) -> int:
        """Number of encoded features."""
        return len(self.encoder.feature_names)

    @property
    def n_folds(self) -> int:
        """Number of parts that rows are divided into."""
        return self.settings.folds if self.horizon is None else len(self.starts) + 1

    @property
    def n_summed(self) -> int:
        """Number of folds whose sums are needed."""
        return self.n_folds if self.summed_by_fold else 1

    @property
    def parts(self) -> list[tuple[list[int], int]]:
        """Folds to learn from, and the one to test on, of each split."""
        folds = range(self.n_folds)
        if self.horizon is not None:
            return [(list(range(k)), k) for k in folds[1:]]
        return [([j for j in folds if j != k], k) for k in folds]

    @property
    def words(self) -> str:
        """Which rows models are tested on."""
        if self.horizon is not None:
            column, reach = self.horizon.column, self.horizon.reach
            return f"on rows with a later {column} than the training rows, by at most {reach}"
        group = self.settings.group
        return f"on rows with a held-out {group}" if group else "on held-out rows"

    def without_survey(self) -> Schema:
        """Return what the work on rows needs, which is small."""
        old = self.survey
        return replace(self, survey=Survey(old.roles, room=old.room, n_rows=old.n_rows))

    def no_sums(self) -> Statistics:
        """Return sums of no rows, for all tasks."""
        return Statistics.empty(np.arange(len(self.labels)), self.n_features, self.n_summed)

    def encoded(self, frame: pd.DataFrame) -> tuple[pd.DataFrame, Rows]:
        """Rows with a target, and the same as numbers; classes by their positions."""
        settings = self.settings
        frame, codes, labels = usable(frame, self.survey.roles)
        target, mark = frame[settings.target], self.encoder.marks.get(settings.target)
        if self.classes is None:
            y = reading.target_numbers(target, mark)
        else:
            y = reading.class_codes(target, self.classes, mark).astype(np.float64)
        index = pd.Index(labels, tupleize_cols=False)
        return frame, Rows(
            X=self.encoder.encode(frame),
            y=y,
            codes=self.written.get_indexer(index)[codes],
            n_tasks=len(self.labels),
            weights=self.encoder.weights(frame, settings.weights) if settings.weights else None,
            classes=self.classes,
            levels=self.levels,
        )

    def add(
        self, frame: pd.DataFrame, seen: NDArray[np.int64], sums: Statistics
    ) -> tuple[Rows, Array]:
        """Add rows to sums, having seen so many of each task; return some, and extreme targets."""
        frame, rows = self.encoded(frame)
        settings, counted, horizon = self.settings, rows.counted, self.horizon
        ends = np.array([counted.min(), counted.max()]) if len(counted) else np.empty(0)
        if horizon is not None:
            times = reading.time_values(frame[horizon.column], day_first=horizon.day_first)
            rows = replace(rows, folds=np.searchsorted(self.starts, times, side="right"))
        elif settings.group is not None:
            rows = replace(rows, groups=frame[settings.group].astype(object).map(str).to_numpy())
        if self.complete:
            return rows, ends
        folds, keys = deal(rows.codes, seen, self.n_folds, settings.seed)
        if rows.folds is not None:
            folds = rows.folds
        elif rows.groups is not None:  # which decide alone
            random = uniform(pd.util.hash_array(rows.groups), 0, settings.seed, "group")
            folds = (self.n_folds * random).astype(np.intp)
        # Of all tasks, codes are the positions; a part of a table may lack some.
        labels = sums.labels if sums.n_tasks == len(self.labels) else None
        by_fold, weights = folds if sums.n_folds > 1 else None, rows.weights
        X, y, codes = rows.X, rows.y, rows.codes
        sums.partial_fit(X, y, codes, labels=labels, sample_weight=weights, folds=by_fold)
        task_share, row_share = self._shares
        keep = (keys < row_share) & (rows.row_weights > 0)
        if task_share < 1:
            keep &= uniform(rows.codes, 0, settings.seed, "task") < task_share
        return replace(rows, folds=folds).take(keep), ends

    @property
    def _shares(self) -> tuple[float, float]:
        """Shares of the tasks, and of their rows, to keep; sums replace all rows but a few."""
        n_rows, n_tasks, room = self.survey.n_rows, len(self.labels), self.survey.room
        if self.summed_by_fold:
            return 1.0, _SHOWN * max(n_tasks / COMPARED, 1.0) / n_rows
        share = min(max(room / n_rows, _FEWEST_TASKS / n_tasks), 1.0)
        return share, room / (share * n_rows)

    def rows_of(self, kept: Rows) -> tuple[Rows, Splits, NDArray[np.intp]]:
        """Rows that were kept, their splits, and the tasks that they belong to."""
        settings, classes = self.settings, self.classes
        tasks, codes = np.unique(kept.codes, return_inverse=True)
        y = kept.y if classes is None else classes[kept.y.astype(np.intp)]
        if kept.folds is not None:
            splits = Splits.of(kept.folds, in_time=self.horizon is not None)
        else:
            of_classes = None if classes is None else y
            splits = divide(codes, settings.folds, settings.seed, of_classes, kept.groups)
        if not splits.parts:  # such as one group only
            raise ValueError(f"Testing {self.words} leaves nothing to train on. Hold out others.")
        rows = replace(kept, y=y, codes=codes, n_tasks=len(tasks), folds=None, groups=None)
        return replace(rows, grades=self.target.grades), splits, tasks


def _check_size(survey: Survey) -> None:
    """Refuse few rows, one task, and one row per task."""
    task, labels, n_rows = ", ".join(survey.roles.task), survey.labels, survey.n_rows
    if n_rows < _FEWEST_ROWS:
        raise ValueError(
            f"A fit needs at least {_FEWEST_ROWS} rows with a target; {survey.roles.target!r} "
            f"has a value in {n_rows} of {n_rows + survey.dropped} rows. Add rows."
        )
    if len(labels) < 2:
        raise ValueError(
            f"The task {task!r} must have at least 2 labels; got one, {labels.tolist()[0]!r}. "
            "A single task has nothing to share."
        )
    if len(labels) == n_rows:
        raise ValueError(
            f"The labels of the task {task!r} must repeat; got {n_rows:,} different labels in as "
            "many rows. Choose a column of groups of rows."
        )


def _refuse_in_chunks(settings: FitSettings) -> None:
    """Refuse options that need all rows in memory."""
    families = [name for name in FAMILIES if not _needs_rows(name)]
    possible = {"base": ("auto", "linear"), "jobs": (1,), "quantile": (None,), "family": families}
    for name, values in possible.items():
        if getattr(settings, name) not in values:
            raise ValueError(
                f"Option {name}={getattr(settings, name)} needs all rows in memory, but this table "
                "is read in chunks. Choose another value, or fit a part of the table."
            )


def _needs_rows(family: str) -> bool:
    """Whether models of a family need all rows at once; normal ones need sums alone."""
    by_passes = [name for name, one in REGISTRY.items() if one.by_passes]
    return family not in ("auto", "gaussian", *by_passes)


def _target(settings: FitSettings, survey: Survey) -> Target:
    values = survey.sample[settings.target]
    if survey.targets is not None and not survey.complete:  # rare ones may not be in the sample
        rare = pd.Series(survey.targets, name=settings.target)
        values = pd.concat([values, rare[~rare.isin(values)]])
    target = target_of(values, settings.target_kind, settings.family, settings.metric)
    in_order = target.grades is not None
    if (_needs_rows(target.family) or in_order) and survey.n_rows > survey.room:
        what = f"{len(target.classes)} classes" if target.classes is not None else target.why
        how = "without their order" if in_order else "as normal"
        why = f"{what}; modelled {how} in chunks"
        target = replace(target, family="gaussian", grades=None, why=why)
    return target


def _in_time(survey: Survey, name: str, n_folds: int) -> dict[str, Any]:
    """Moments that rows are divided at, and how far ahead and until when that tests."""
    times = survey.sample[name]
    days = reading.is_date(times)
    day_first = days and reading.has_days_first(times)
    values = reading.time_values(times, day_first=day_first)
    starts = time_starts(values, name, n_folds)
    before = [values[values < start].max() for start in starts]
    reach = float(np.max(np.append(before[1:], values.max()) - before))
    horizon = Horizon(
        column=name,
        date=days,
        reach=f"{reach / _DAY:,.3g} days" if days else f"{reach:.4g}",
        until=float(values.max()) + reach,
        day_first=day_first,
    )
    return {"starts": starts, "horizon": horizon}
