"""A table larger than memory in, a fitted model out: one pass to look, one to sum."""

from __future__ import annotations

import os
import time as clock
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone

from crosslearning.convex.statistics import Statistics
from crosslearning.tables._files import Files, located
from crosslearning.tables._final import state_to_keep
from crosslearning.tables._lines import lines
from crosslearning.tables._prepared import check_rows, check_settings
from crosslearning.tables._sums import COMPARED, deal, try_sums
from crosslearning.tables._survey import Survey, usable
from crosslearning.tables.candidates import candidates
from crosslearning.tables.columns import ROW_NUMBER, as_numbers
from crosslearning.tables.findings import effects, summary
from crosslearning.tables.metrics import METRICS
from crosslearning.tables.model import TableModel
from crosslearning.tables.parameters import coefficient_table
from crosslearning.tables.plain import plain
from crosslearning.tables.results import Fit, results_of
from crosslearning.tables.rows import Rows
from crosslearning.tables.schema import (
    Features,
    check_task_count,
    features_of,
    looks_like_time,
    require_columns,
)
from crosslearning.tables.target import Target, target_of
from crosslearning.tasks.estimators import as_objects

if TYPE_CHECKING:
    from crosslearning.tables._facts import Facts
    from crosslearning.tables.encoding import TableEncoder


_LEARNED = 2**14  # tasks that are enough for variances
_SHOWN = 20_000  # rows to look at predictions of


class Shown(NamedTuple):
    """Rows to look at predictions of: features, targets, tasks and folds."""

    X: NDArray[np.float64]
    y: NDArray[np.float64]
    codes: NDArray[np.intp]
    folds: NDArray[np.intp]


class Plan(NamedTuple):
    """How to turn rows of a table into sums."""

    task: str
    target: str
    weights: str | None
    drop: bool
    encoder: TableEncoder
    labels: pd.Index[Any]
    n_folds: int
    seed: int
    share: float

    @property
    def columns(self) -> list[str]:
        """The columns that are needed."""
        weights = [] if self.weights is None else [self.weights]
        return list(dict.fromkeys([self.task, self.target, *self.encoder.columns, *weights]))


class Engine(Protocol):
    """What goes over the rows of a table."""

    columns: list[str]

    def survey(self, start: Survey, columns: list[str], types: dict[str, str], seed: int) -> Survey:
        """Look at all rows."""

    def sums(self, plan: Plan) -> tuple[Statistics, Shown]:
        """Sum all rows; and draw some."""


def fit_files(
    source: str | os.PathLike[str],
    *,
    task: str,
    target: str,
    features: Sequence[str] | None = None,
    numbers: Sequence[str] = (),
    categories: Sequence[str] = (),
    epsilon: float = np.inf,
    weights: str | None = None,
    folds: int = 5,
    drop_unlabelled: bool = False,
    seed: int = 0,
    command: str = "",
    progress: Callable[[str], object] | None = None,
) -> TableModel:
    """Fit a table that is read by pieces, as :func:`fit_table` does one in memory.

    It is read twice: to learn labels, levels and gaps and to draw a sample, from which columns are
    recognised; and to sum up the rows of each task and fold. Linear models and their scores follow
    from the sums. Memory holds those, and two pieces of the table. Medians, which stand in for
    gaps, are those of the sample.

    Parameters
    ----------
    source : path
        A file, a folder of files, or a pattern such as ``"part-*.parquet"``: Parquet, or CSV.
    task, target, features, numbers, categories, epsilon, weights, folds, drop_unlabelled, seed
        As in :func:`fit_table`; the target must be a number.
    command : str, optional
        As in :func:`fit_table`.
    progress : callable, optional
        Called with what is being done.

    Returns
    -------
    TableModel
    """
    files = Files.of(str(source), text=[task, *categories])
    return fit_engine(
        _Reader(files, progress or (lambda _: None)),
        task=task,
        target=target,
        features=features,
        types=dict.fromkeys(numbers, "number") | dict.fromkeys(categories, "category"),
        epsilon=epsilon,
        weights=weights,
        folds=folds,
        drop=drop_unlabelled,
        seed=seed,
        command=command,
        say=progress or (lambda _: None),
    )


def fit_engine(
    engine: Engine,
    *,
    task: str,
    target: str,
    features: Sequence[str] | None,
    types: dict[str, str],
    epsilon: float,
    weights: str | None,
    folds: int,
    drop: bool,
    seed: int,
    command: str,
    say: Callable[[str], object],
) -> TableModel:
    """Fit what an engine goes over."""
    started = clock.perf_counter()
    header = pd.DataFrame(columns=engine.columns)
    check_settings(header, task, target, epsilon, seed, folds)
    require_columns(header, [weights] if weights else [], "the weights")
    require_columns(header, features or [], "the features")
    wanted = engine.columns if features is None else [*features, *([weights] if weights else [])]
    columns = list(dict.fromkeys([task, target, *wanted]))
    survey = engine.survey(Survey(task, target, drop), columns, types, seed)
    sample = survey.sample.reset_index(drop=True)
    goal, chosen = _recognised(survey, sample, task, target, features, weights, types)
    encoder = survey.encoder(chosen.of("number"), chosen.of("category"), chosen.of("date"))
    written, labels = survey.tasks()
    share = _SHOWN * max(len(labels) / COMPARED, 1.0) / survey.n_rows
    plan = Plan(task, target, weights, drop, encoder, written, folds, seed, share)
    sums, shown = engine.sums(plan)
    total = sums.total()
    rows = Rows(shown.X, shown.y, shown.codes, len(labels))
    names = encoder.feature_names
    tried = candidates(
        "regression", "gaussian", only=True, epsilon=epsilon, rotated=False,
        n_features=len(names), n_rows=max(survey.n_rows, 10**6),
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is not chosen does not matter
        trials, said, facts = try_sums(tried, sums, total, rows, shown.folds, names, say)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        say(f"Fitting the best of them, {trials.chosen.label}, on all rows")
        del sums  # of many tasks they are large
        model = clone(trials.chosen.estimator).fit_statistics(total, learn_from=_LEARNED)
        model.tasks_ = as_objects(labels.tolist())
    rng = np.random.default_rng(seed)
    errors, findings = summary(said[trials.chosen.name], model.tasks_[facts.compared], rng)
    state = state_to_keep(model)
    result = TableModel(task, target, "mse", encoder, None, state, errors)
    findings["effects"] = effects(result, sample)
    messages = list(dict.fromkeys(" ".join(str(w.message).split()) for w in caught))
    settings = {
        "command": command,
        "seed": seed,
        "seconds": round(clock.perf_counter() - started, 3),
        "dropped": survey.dropped,
        "notes": _notes(survey, sample, chosen, encoder) + _compared(facts),
    }
    fit = Fit(
        model, None, names, task, goal, chosen, trials, METRICS["mse"], "on rows not seen", facts,
        settings,
    )  # fmt: skip
    given = {
        "task": task, "target": target, "features": features, "epsilon": epsilon,
        "weights": weights, "folds": folds, "drop_unlabelled": drop, "seed": seed,
        "numbers": [name for name, wanted in types.items() if wanted == "number"],
        "categories": [name for name, wanted in types.items() if wanted == "category"],
    }  # fmt: skip
    python = lines(fit_files, given, trials.chosen.label)
    more = {"command": command, "python": python, "warnings": messages}
    results = results_of(fit) | plain(findings | more)
    for message in messages:
        warnings.warn(message, stacklevel=3)
    return replace(result, results=results, coefficients=coefficient_table(model, names))


def numbers_of(
    plan: Plan, frame: pd.DataFrame
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.intp], Any]:
    """Features, targets, tasks and weights of the rows to learn from."""
    rows, codes, labels = usable(frame, plan.task, plan.target, drop=plan.drop)
    X = plan.encoder.encode(rows)
    y = as_numbers(rows[plan.target])
    weights = None if plan.weights is None else as_numbers(rows[plan.weights])
    return X, y, plan.labels.get_indexer(pd.Index(labels))[codes], weights


class _Reader:
    """Goes over files, one piece after the other."""

    def __init__(self, files: Files, say: Callable[[str], object]) -> None:
        self.files, self.say = files, say
        self.columns = list(files.types)

    def survey(self, start: Survey, columns: list[str], types: dict[str, str], seed: int) -> Survey:
        """Look at all rows."""
        for piece in self._pieces(columns, "Looking at"):
            with located(piece.path):
                start.look(piece.frame, self.files.paths.index(piece.path), types, seed)
        return start

    def sums(self, plan: Plan) -> tuple[Statistics, Shown]:
        """Sum all rows; and draw some."""
        sums = Statistics.empty(
            np.arange(len(plan.labels)), len(plan.encoder.feature_names), plan.n_folds
        )
        seen = np.zeros(len(plan.labels), dtype=np.int64)
        shown = []
        for piece in self._pieces(plan.columns, "Adding up"):
            with located(piece.path):
                X, y, codes, weights = numbers_of(plan, piece.frame)
                folds, keys = deal(codes, seen, plan.n_folds, plan.seed)
                sums.partial_fit(X, y, codes, sample_weight=weights, folds=folds)
            few = keys < plan.share
            shown.append(Shown(X[few], y[few], codes[few], folds[few]))
        return sums, Shown(*(np.concatenate(part) for part in zip(*shown, strict=True)))

    def _pieces(self, columns: list[str], doing: str) -> Any:
        done, of = 0, f" of {self.files.n_rows:,}" if self.files.n_rows else ""
        for piece in self.files.pieces(columns):
            self.say(f"{doing} rows: {done:,}{of}")
            yield piece
            done += len(piece.frame)


def _recognised(
    survey: Survey,
    sample: pd.DataFrame,
    task: str,
    target: str,
    features: Sequence[str] | None,
    weights: str | None,
    types: dict[str, str],
) -> tuple[Target, Features]:
    """Recognise target and columns from a sample, and refuse what sums cannot do."""
    check_rows(survey.n_rows, survey.n_rows + survey.dropped, target)
    check_task_count(task, survey.labels, survey.n_rows)
    goal = target_of(sample[target])
    if goal.kind == "classification":
        raise ValueError(
            f"The target {target!r} is a class ({goal.why}); in a table that is read by pieces it "
            "must be a number. Fit a part of the table that fits into memory."
        )
    found = features_of(sample, task, target, features, excluded=(weights,), types=types)
    columns = [
        replace(column, missing=survey.missing.get(column.name, column.missing))
        for column in found.used
    ]
    numbered = [
        replace(column, reason=ROW_NUMBER)
        for column in columns
        if features is None
        and column.type == "number"
        and _numbers_rows(sample[column.name], survey)
    ]
    names = {column.name for column in numbered}
    used = tuple(column for column in columns if column.name not in names)
    return replace(goal, family="gaussian"), Features(used, (*found.ignored, *numbered))


def _numbers_rows(values: pd.Series[Any], survey: Survey) -> bool:
    """Whether a column seems to number the rows of the table that a sample was drawn from."""
    if len(values) == survey.n_rows or values.isna().any() or not values.is_unique:
        return False
    numbers = as_numbers(values)
    return not np.any(numbers % 1) and bool(np.ptp(numbers) < 2 * survey.n_rows)


def _notes(
    survey: Survey, sample: pd.DataFrame, chosen: Features, encoder: TableEncoder
) -> list[str]:
    notes = looks_like_time(sample, [column.name for column in chosen.used])
    if len(sample) < survey.n_rows:
        gaps = ", and medians in place of gaps" if encoder.flagged else ""
        notes.insert(0, f"columns were recognised from {len(sample):,} rows drawn at random{gaps}")
    return notes


def _compared(facts: Facts) -> list[str]:
    some, of = len(facts.compared), len(facts.counts)
    return [f"models were compared on {some:,} of {of:,} tasks"] if some < of else []
