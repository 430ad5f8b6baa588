"""A table larger than memory in, a fitted model out: one pass to look, one to sum."""

from __future__ import annotations

import os
import time as clock
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone

from crosslearning.convex.statistics import Statistics
from crosslearning.tables._effects import effects
from crosslearning.tables._facts import Facts
from crosslearning.tables._files import Files, located
from crosslearning.tables._final import state_to_keep
from crosslearning.tables._lines import lines
from crosslearning.tables._prepared import check_settings
from crosslearning.tables._sums import COMPARED, deal, try_sums
from crosslearning.tables._survey import Survey, recognised, usable
from crosslearning.tables.candidates import candidates
from crosslearning.tables.columns import as_numbers
from crosslearning.tables.encoding import TableEncoder
from crosslearning.tables.findings import summary
from crosslearning.tables.model import TableModel
from crosslearning.tables.parameters import coefficient_table
from crosslearning.tables.results import Fit, with_results
from crosslearning.tables.rows import Rows
from crosslearning.tables.schema import Features, looks_like_time, require_columns
from crosslearning.tables.trials import Trials
from crosslearning.tasks.estimators import as_objects

_LEARNED = 2**14  # tasks that are enough for variances
_SHOWN = 20_000  # rows to look at predictions of


class Shown(NamedTuple):
    """Rows to look at predictions of: features, targets, tasks and folds."""

    X: NDArray[np.float64]
    y: NDArray[np.float64]
    codes: NDArray[np.intp]
    folds: NDArray[np.intp]

    @classmethod
    def of(cls, parts: Sequence[Shown]) -> Shown:
        """Put parts together."""
        return cls(*(np.concatenate(part) for part in zip(*parts, strict=True)))


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
    say = progress or (lambda _: None)
    engine = _Reader(Files.of(str(source), text=[task, *categories]), say)
    return fit_engine(
        engine, task, target, say, features=features, numbers=numbers, categories=categories,
        epsilon=epsilon, weights=weights, folds=folds, drop_unlabelled=drop_unlabelled, seed=seed,
        command=command,
    )  # fmt: skip


def fit_engine(
    engine: Any,
    task: str,
    target: str,
    say: Callable[[str], object],
    *,
    features: Sequence[str] | None = None,
    numbers: Sequence[str] = (),
    categories: Sequence[str] = (),
    epsilon: float = np.inf,
    weights: str | None = None,
    folds: int = 5,
    drop_unlabelled: bool = False,
    seed: int = 0,
    command: str = "",
) -> TableModel:
    """Fit what an engine, which knows `columns`, goes over: its `survey`, then its `sums`."""
    given, started = dict(locals()), clock.perf_counter()
    types = dict.fromkeys(numbers, "number") | dict.fromkeys(categories, "category")
    header, extra = pd.DataFrame(columns=engine.columns), [weights] if weights else []
    check_settings(header, task, target, epsilon, seed, folds)
    require_columns(header, extra, "the weights")
    require_columns(header, features or [], "the features")
    wanted = engine.columns if features is None else [*features, *extra]
    columns = list(dict.fromkeys([task, target, *wanted]))
    survey = engine.survey(Survey(task, target, drop_unlabelled), columns, types, seed)
    sample = survey.sample.reset_index(drop=True)
    goal, used = recognised(survey, sample, task, target, features, weights, types)
    encoder = survey.encoder(used.of("number"), used.of("category"), used.of("date"))
    written, labels = survey.tasks()
    share = _SHOWN * max(len(labels) / COMPARED, 1.0) / survey.n_rows
    plan = Plan(task, target, weights, drop_unlabelled, encoder, written, folds, seed, share)
    model, trials, said, facts, caught = _chosen(engine, plan, labels, epsilon, say)
    errors, findings = summary(said, model.tasks_[facts.compared], np.random.default_rng(seed))
    listed, state = coefficient_table(model, encoder.feature_names), state_to_keep(model)
    result = TableModel(task, target, "mse", encoder, None, state, errors, coefficients=listed)
    findings["effects"] = effects(result, sample)
    settings = {
        "command": command,
        "seed": seed,
        "seconds": round(clock.perf_counter() - started, 3),
        "dropped": survey.dropped,
        "notes": _notes(survey, sample, used, encoder, facts),
    }
    fit = Fit(result, model, goal, used, trials, "on held-out rows", facts, settings)
    return with_results(fit, findings, caught, lines(fit_files, given, trials.chosen.label))


def _chosen(
    engine: Any, plan: Plan, labels: NDArray[Any], epsilon: float, say: Callable[[str], object]
) -> tuple[Any, Trials, Any, Facts, list[Any]]:
    """Sum rows, and fit the best model: it, trials, what it said of some rows, facts, warnings."""
    sums, shown = engine.sums(plan)
    total, names = sums.total(), plan.encoder.feature_names
    rows = Rows(shown.X, shown.y, shown.codes, len(labels))
    tried = candidates("regression", "gaussian", rows.X.shape, only=True, epsilon=epsilon)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is not chosen does not matter
        trials, said, facts = try_sums(tried, sums, total, rows, shown.folds, names, say)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        say(f"Fitting the best of them, {trials.chosen.label}, on all rows")
        del sums  # of many tasks they are large
        model = clone(trials.chosen.estimator).fit_statistics(total, learn_from=_LEARNED)
        model.tasks_ = as_objects(labels.tolist())
    return model, trials, said[trials.chosen.name], facts, caught


def add_up(plan: Plan, frame: pd.DataFrame, seen: NDArray[np.int64], sums: Statistics) -> Shown:
    """Add rows to sums, having seen so many rows of each task; and draw some of them."""
    rows, own, labels = usable(frame, plan.task, plan.target, drop=plan.drop)
    X, y = plan.encoder.encode(rows), as_numbers(rows[plan.target])
    codes = plan.labels.get_indexer(pd.Index(labels))[own]
    weights = None if plan.weights is None else as_numbers(rows[plan.weights])
    folds, keys = deal(codes, seen, plan.n_folds, plan.seed)
    sums.partial_fit(X, y, codes, sample_weight=weights, folds=folds)
    few = keys < plan.share
    return Shown(X[few], y[few], codes[few], folds[few])


class _Reader:
    """Goes over files, one piece after the other."""

    def __init__(self, files: Files, say: Callable[[str], object]) -> None:
        self.files, self.say = files, say
        self.columns = list(files.types)

    def survey(self, start: Survey, columns: list[str], types: dict[str, str], seed: int) -> Survey:
        """Look at all rows."""
        for path, frame in self._pieces(columns, "Looking at"):
            with located(path):
                start.look(frame, self.files.paths.index(path), types, seed)
        return start

    def sums(self, plan: Plan) -> tuple[Statistics, Shown]:
        """Sum all rows; and draw some."""
        n_tasks, width = len(plan.labels), len(plan.encoder.feature_names)
        sums = Statistics.empty(np.arange(n_tasks), width, plan.n_folds)
        seen, shown = np.zeros(n_tasks, dtype=np.int64), []
        for path, frame in self._pieces(plan.columns, "Adding up"):
            with located(path):
                shown.append(add_up(plan, frame, seen, sums))
        return sums, Shown.of(shown)

    def _pieces(self, columns: list[str], doing: str) -> Any:
        done, of = 0, f" of {self.files.n_rows:,}" if self.files.n_rows else ""
        for path, frame in self.files.pieces(columns):
            self.say(f"{doing} rows: {done:,}{of}")
            yield path, frame
            done += len(frame)


def _notes(
    survey: Survey, sample: pd.DataFrame, chosen: Features, encoder: TableEncoder, facts: Facts
) -> list[str]:
    notes = looks_like_time(sample, [column.name for column in chosen.used])
    if len(sample) < survey.n_rows:
        gaps = ", and medians in place of gaps" if encoder.flagged else ""
        notes.insert(0, f"columns were recognised from {len(sample):,} rows drawn at random{gaps}")
    some, of = len(facts.compared), len(facts.counts)
    return notes + [f"models were compared on {some:,} of {of:,} tasks"] * (some < of)
