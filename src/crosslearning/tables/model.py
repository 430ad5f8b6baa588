"""A fitted table that can be saved, and its predictions of rows, of tables and of files."""

import io
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Self, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crosslearning.archive import read_archive, to_json, write_archive
from crosslearning.convex.predict import Residuals
from crosslearning.convex.sums.columns import Curves, Rotation
from crosslearning.evaluation.metrics import Predictions, metric_of
from crosslearning.files import replacing, write_json
from crosslearning.frames import reading
from crosslearning.frames.columns import (
    as_text,
    check_names,
    free_name,
    require_columns,
    time_values,
)
from crosslearning.frames.encoder import BETWEEN, TableEncoder, TaskLevels, recognised, tidy
from crosslearning.tables import forecast
from crosslearning.tables.findings import Findings, Horizon
from crosslearning.tasks import TaskIndex
from crosslearning.tasks.labels import as_objects, groups_of

_MODEL, _RESULTS, _COEFFICIENTS = "model.npz", "results.json", "coefficients.csv"
_KIND = "table model"
_BESIDE = ("findings", "coefficients")  # the archive


class Untested(NamedTuple):
    """Number of rows that are later, by a column, than any that models were tested on."""

    rows: int
    column: str
    until: str


class Score(NamedTuple):
    """Name of a metric, score, and number of rows that were scored."""

    metric: str
    score: float
    rows: int


@dataclass(frozen=True, eq=False, repr=False)
class TableModel:
    """What :func:`fit_table` returns.

    Attributes
    ----------
    task, target, metric : str
        Columns of tasks (the innermost) and of the target; what predictions are scored by.
    encoder, rotation, state : TableEncoder, Rotation or None, dict
        How columns become numbers, and these fewer; the fitted parameters.
    residuals : Residuals, optional
        Errors of held-out rows, which intervals are based on; None for classes and quantiles.
    findings : Findings, optional
        What was found: the records of ``results.json``. None after :meth:`load`.
    coefficients : DataFrame, optional
        Coefficients in the units of the table, the centre last: ``task``, ``class`` (of classes),
        ``feature``, ``coefficient``, and its posterior ``standard_deviation`` if there is one. They
        are those of the chosen model if it is linear in the columns, else of the best cross-learned
        model that is; None after :meth:`load`, or if there are more than a million.
    horizon, levels, wrapper : optional
        How far ahead models were tested, the labels of groups within groups, and what saved it.
    """

    task: str
    target: str
    metric: str
    encoder: TableEncoder
    rotation: Rotation | None
    state: dict[str, Any]
    residuals: Residuals | None
    findings: Findings | None = None
    coefficients: pd.DataFrame | None = None
    horizon: Horizon | None = None
    levels: TaskLevels | None = None
    wrapper: dict[str, Any] | None = None

    def __repr__(self) -> str:
        task = self.task if self.levels is None else self.task_columns
        named = f"target={self.target!r}, task={task!r}, class={self.state['class']!r}"
        size = f"n_tasks={len(self._tasks.labels)}, n_columns={len(self.encoder.columns)}"
        return f"TableModel({named}, {size})"

    def plot_tasks(self) -> Any:
        """Draw the coefficients of every task around the centre; needs the extra ``app``."""
        from crosslearning.report import plots

        return plots.table_tasks(self.findings)

    def _repr_html_(self) -> str | None:
        from crosslearning.report import plots

        return plots.table(self.findings) if self.findings else None

    @property
    def results(self) -> dict[str, Any]:
        """What was found as plain data: the contents of ``results.json``; empty after a load."""
        return {} if self.findings is None else to_json(self.findings)

    @cached_property
    def estimator(self) -> Any:
        """The fitted estimator, such as a CrossBayesianRidge, of a blend the heaviest."""
        from crosslearning.linear._estimator import model_of  # needs scikit-learn, which is slow

        part = forecast.main_part(self.state)
        if "learned_" in part["fitted"]:
            raise AttributeError(f"{part['class']} is no estimator. Use `predict` of this model.")
        model = model_of(part)
        if self.levels is not None:
            model.tasks_ = self.tasks
            if len(model.groups_):
                model.groups_ = [as_objects(groups) for groups in groups_of(self.levels.paths)]
        return model

    @property
    def task_columns(self) -> list[str]:
        """The columns of task labels, outermost first."""
        return [self.task] if self.levels is None else list(self.levels.columns)

    @property
    def tasks(self) -> NDArray[Any]:
        """Labels of the tasks; those of groups within groups are tuples."""
        labels = self._tasks.labels if self.levels is None else self.levels.paths
        return as_objects(labels)

    @cached_property
    def _tasks(self) -> TaskIndex:
        return TaskIndex(tuple(self.state["fitted"]["tasks_"]))

    @property
    def classes(self) -> NDArray[Any] | None:
        """The classes, if the target is one of them."""
        return cast("NDArray[Any] | None", self.state["fitted"].get("classes_"))

    @property
    def quantile(self) -> float | None:
        """Level of the quantile that is predicted; None for means and classes."""
        parameters = forecast.main_part(self.state)["parameters"]
        return parameters["quantile"] if parameters.get("family") == "quantile" else None

    @property
    def predicts(self) -> str:
        """The target, or which quantile of it is predicted."""
        level = self.quantile
        return self.target if level is None else f"{level:g} quantile of {self.target}"

    @property
    def text_columns(self) -> list[str]:
        """Columns to read as text, since one odd or missing label would change the type of all."""
        each: list[Any] = [self._tasks.labels] if self.levels is None else self.levels.labels
        columns = zip(self.task_columns, each, strict=True)
        # Decimals and booleans are left to the reader, which knows decimal commas and "TRUE".
        texts = [name for name, labels in columns if {*map(type, labels)} <= {str, int}]
        return [*self.encoder.levels, *self.encoder.marks, *texts]

    def predict(self, frame: pd.DataFrame, *, coverage: float = 0.9) -> pd.DataFrame:
        """Predict the target for the rows of a table.

        Parameters
        ----------
        frame : DataFrame
            A table with the task column and the columns of the fit. A label stands for the task
            that it equals as a value or else as text: "1" is the task 1, and 1.0 the task "1". Rows
            without a label and of new tasks are predicted by the centre, or by the smallest group
            that is in the fit.
        coverage : float, default=0.9
            Probability that a number, large or small, lies between ``lower`` and ``upper``.
            Quantiles have no intervals: two of them are the ends of one.

        Returns
        -------
        DataFrame
            With the index of `frame`: ``prediction``; for numbers ``lower``, ``upper`` and ``std``,
            for quantiles their ``std`` alone, for classes a column ``probability_<class>`` each.

        Notes
        -----
        Intervals and ``std`` are quantiles and the root mean square of the same errors: those of
        held-out rows with similar predictions. Both are wider for new tasks, by how much tasks
        differ. If no target of the fit is negative, no prediction and no end of an interval is.
        """
        if not 0.0 < coverage < 1.0:
            raise ValueError(f"`coverage` must lie between 0 and 1; got {coverage}.")
        X, codes = self.encode(frame)
        if self.classes is None:
            columns = forecast.with_intervals(self.state, self.residuals, X, codes, coverage)
        else:
            shares = forecast.predictions(self.state, X, codes)
            names = [f"probability_{name}" for name in self.classes]
            columns = {"prediction": self.classes[shares.argmax(axis=1)]}
            columns |= dict(zip(names, shares.T, strict=True))
        return pd.DataFrame(columns, index=frame.index)

    def encode(self, frame: pd.DataFrame) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return features and task numbers: -1 is a new task, large ones new in known groups."""
        check_names(frame)
        require_columns(frame, [*self.task_columns, *self.encoder.columns], "the model")
        numbered = frame.reset_index(drop=True)
        X = self.encoder.encode(numbered)
        return X if self.rotation is None else self.rotation.apply(X), self._codes(numbered)

    def _codes(self, frame: pd.DataFrame) -> NDArray[np.int64]:
        levels = self.levels
        return recognised(frame[self.task], self._tasks) if levels is None else levels.codes(frame)

    def written_labels(self, frame: pd.DataFrame) -> "pd.Series[Any]":
        """Labels of the tasks of rows as written, of several columns in one text."""
        columns = [tidy(frame[name]) for name in self.task_columns]
        if len(columns) == 1:
            return columns[0]
        texts = [column.astype(object).map(as_text, na_action="ignore") for column in columns]
        first, *others = (text.fillna("no label") for text in texts)
        return first.str.cat(pd.concat(others, axis=1), sep=BETWEEN).where(texts[0].notna(), None)

    def unknown_tasks(self, frame: pd.DataFrame) -> dict[Any, int]:
        """Count the rows of each new task; None stands for no label."""
        labels = self.written_labels(frame)
        new = labels[~forecast.is_in_fit(self.state, self._codes(frame))].astype(object)
        return dict(Counter(new.where(new.notna(), None)).most_common())

    def untested(self, frame: pd.DataFrame) -> Untested | None:
        """Count the rows that are later than any that models were tested on; None if none are."""
        horizon = self.horizon
        if horizon is None or horizon.column not in frame or frame[horizon.column].isna().all():
            return None
        times = time_values(frame[horizon.column].dropna(), day_first=horizon.day_first)
        last = f"{horizon.until:.10g}"
        if horizon.date:
            last = str(pd.Timestamp(int(horizon.until)).date())
        rows = int(np.sum(times > horizon.until))
        return Untested(rows, horizon.column, last) if rows else None

    def score(self, frame: pd.DataFrame) -> Score | None:
        """Score predictions of a table with targets by the metric of the fit; else None."""
        scorer = Scorer(self)
        scorer.add(frame.reset_index(drop=True))
        return scorer.score

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write ``model.npz``, ``results.json`` and ``coefficients.csv`` to a folder, unpickled.

        An earlier fit in the folder is replaced; a folder with anything else is refused.
        """
        path = Path(folder)
        check_folder(path)
        content = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in _BESIDE}
        path.mkdir(parents=True, exist_ok=True)
        before = (path / _MODEL).read_bytes() if (path / _MODEL).is_file() else None
        write_archive(path / _MODEL, _KIND, content, _classes())
        if before != (path / _MODEL).read_bytes():
            for name in (_RESULTS, _COEFFICIENTS, "report.html"):  # of an earlier fit
                (path / name).unlink(missing_ok=True)
        if self.findings is not None:
            write_json(path / _RESULTS, self.results)
        if self.coefficients is not None:
            with replacing(path / _COEFFICIENTS) as temporary:
                self.coefficients.to_csv(temporary, index=False)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Self:
        """Read a model from its folder or its file, without unpickling."""
        path = Path(folder)
        file = path / _MODEL if path.is_dir() else path
        if not file.is_file():
            raise ValueError(
                f"{path} holds no fit of a table: it has no file {_MODEL}. Choose another folder."
            )
        return cls(**read_archive(file, _KIND, _classes()))


def _classes() -> tuple[type, ...]:
    """Classes of the records that a model consists of."""
    return TableEncoder, TaskLevels, Horizon, Residuals, Curves, *forecast.records()


def check_folder(folder: str | os.PathLike[str]) -> None:
    """Refuse a folder that holds anything but an earlier fit."""
    path = Path(folder)
    if path.exists() and not path.is_dir():
        raise ValueError(f"{path} is a file. Choose a folder.")
    if path.is_dir() and any(path.iterdir()) and not (path / _MODEL).is_file():
        raise ValueError(
            f"{path} is not empty and holds no fit of a table. Choose another folder, or empty it."
        )


@dataclass(eq=False, kw_only=True)
class Predicted:
    """A table with predictions, and what is remarkable about its rows.

    Attributes
    ----------
    table : DataFrame, optional
        Columns of the input, then of :meth:`TableModel.predict`, with an underscore if the model
        needs a column of this name; None if written in chunks.
    score : Score, optional
        Metric, score and number of rows, if the table has the target.
    rows, unknown, fallback : int, Counter, str
        Number of rows, in all and by new task (None: no label), and what predicts the latter.
    categories : dict of Counter
        Number of rows of each new category, by column.
    outside_rows, outside : int, Counter
        Number of rows with a number or date outside the range of the fit: in all, and by column.
    unread : Counter
        Number of values that are not numbers and count as missing, by column of numbers.
    untested : Untested, optional
        Number of rows that are later than any that models were tested on.
    """

    table: pd.DataFrame | None = None
    score: Score | None = None
    rows: int = 0
    unknown: Counter[Any] = field(default_factory=Counter)
    fallback: str = "the centre"
    categories: dict[str, Counter[str]] = field(default_factory=dict)
    outside_rows: int = 0
    outside: Counter[str] = field(default_factory=Counter)
    unread: Counter[str] = field(default_factory=Counter)
    untested: Untested | None = None

    def add(self, model: TableModel, frame: pd.DataFrame, coverage: float) -> pd.DataFrame:
        """Predict some rows, and count them."""
        needed = [*model.task_columns, model.target, *model.encoder.columns]
        predictions = model.predict(frame, coverage=coverage)
        predictions.columns = [free_name(name, needed) for name in predictions.columns]
        if twice := [name for name in predictions.columns if name in frame.columns]:
            raise ValueError(f"The table has a column {twice[0]!r}, as predictions do. Rename it.")
        self.rows += len(frame)
        if model.levels is not None:
            self.fallback = "their group or the centre"
        self.unknown.update(model.unknown_tasks(frame))
        for name, counts in model.encoder.unknown(frame).items():
            self.categories.setdefault(name, Counter()).update(counts)
        outside_rows, outside = model.encoder.outside(frame)
        self.outside_rows += outside_rows
        self.outside.update(outside)
        self.unread.update(model.encoder.unread(frame))
        if late := model.untested(frame):
            before = self.untested.rows if self.untested else 0
            self.untested = late._replace(rows=before + late.rows)
        return predictions


def predict_table(
    model: TableModel, source: reading.Source, *, coverage: float = 0.9, verbatim: bool = False
) -> Predicted:
    """Read a table and add predictions to it, in the order of its rows.

    Parameters
    ----------
    model, source, coverage : TableModel, path or binary stream, float
        The fit, the table, and the coverage of intervals.
    verbatim : bool, default=False
        Whether to keep the fields of a text file as written, so that they can be written again.
    """
    again: Any = io.BytesIO(source.read()) if hasattr(source, "read") else source
    frame, predicted = reading.read_table(again, text=model.text_columns), Predicted()
    predictions = predicted.add(model, frame, coverage)
    predicted.score = model.score(frame)
    if verbatim and "dialect" in frame.attrs:
        if again is not source:
            again.seek(0)
        frame = reading.read_verbatim(again, frame.attrs["dialect"])
    predicted.table = _beside(frame, predictions)
    return predicted


def _beside(frame: pd.DataFrame, predictions: pd.DataFrame) -> pd.DataFrame:
    """Add columns to a table, which is written in the dialect that it was read in."""
    both = pd.concat([frame, predictions], axis=1)
    both.attrs = frame.attrs
    return both


def predict_files(
    model: TableModel,
    source: str | os.PathLike[str],
    out: reading.Source,
    *,
    coverage: float = 0.9,
    progress: Callable[[str], object] | None = None,
) -> Predicted:
    """Add predictions to a table that is read and written in chunks, in the order of its rows.

    Parameters
    ----------
    model, coverage
        As in :func:`predict_table`.
    source, out : path, path or binary stream
        A file, a folder of files, or a pattern, of Parquet or CSV, to read; what to write, as in
        :func:`write_table`. Fields of text files are copied as written.
    progress : callable, optional
        Called with a description of the current step.
    """
    say = progress or (lambda _: None)
    files = reading.Files.of(str(source), text=model.text_columns)
    reading.refuse_overwriting(out, files.paths)
    verbatim = reading.separator_of(out) is not None and files.dialect is not None
    as_written = replace(files, text=None).each(files.columns, lambda _, frame: frame)
    predicted, scorer = Predicted(), Scorer(model)

    def predict(_: int, frame: pd.DataFrame) -> pd.DataFrame:
        say(f"Predicting rows: {predicted.rows:,}")
        predictions = predicted.add(model, frame, coverage)
        if scorer.metric.adds_up:
            scorer.add(frame)
        return _beside(next(as_written) if verbatim else frame, predictions)

    with reading.writer(out) as write:
        for table in files.each(files.columns, predict):
            write(table)
    predicted.score = scorer.score
    return predicted


class Scorer:
    """Scores rows with a target, also in chunks: mean over tasks, also new ones.

    Rows without a label are a task, too. `weighted` is a column of weights, if the table has it.
    """

    def __init__(self, model: TableModel, weighted: str | None = None) -> None:
        self.model, self.weighted = model, weighted
        kind = "regression" if model.classes is None else "classification"
        self.metric = metric_of(model.metric, kind, model.quantile)
        self.new: dict[str, int] = {}  # numbers of new tasks
        self.n_tasks, self.rows = len(model.state["fitted"]["tasks_"]), 0
        self.totals = np.zeros((2, self.n_tasks))  # of weighted scores, and of weights

    def add(self, frame: pd.DataFrame) -> None:
        """Score some rows; chunks of rows need a metric that adds up."""
        model = self.model
        if model.target not in frame or frame[model.target].isna().all():
            return
        about = model.target, model.classes, self.weighted
        rows, y, row_weights = model.encoder.labelled(frame, *about)
        X, codes = model.encode(rows)
        predicted = Predictions.of(forecast.predictions(model.state, X, codes), model.classes)
        new = ~forecast.is_in_fit(model.state, codes)
        names = model.written_labels(rows[new]).astype(object).map(str)  # or "None"
        codes[new] = [self.new.setdefault(n, self.n_tasks + len(self.new)) for n in names]
        n_tasks = self.n_tasks + len(self.new)
        scores, weights = self.metric.of_tasks(y, predicted, row_weights, codes, n_tasks)
        before = np.pad(self.totals, ((0, 0), (0, n_tasks - self.totals.shape[1])))
        self.totals = before + np.where(np.isfinite(scores), [scores * weights, weights], 0.0)
        self.rows += len(y)

    @property
    def score(self) -> Score | None:
        """Score of all rows, if one has a target."""
        if not self.rows:
            return None
        sums, weights = self.totals[:, self.totals[1] > 0]
        score = float(np.mean(sums / weights)) if len(sums) else np.nan
        return Score(self.metric.words, self.metric.reported(score), self.rows)
