"""The only order of work: settings and an engine in, a fitted and described model out."""

from __future__ import annotations

import os
import time as clock
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial, reduce
from operator import add
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone

from crosslearning.convex.families import REGISTRY
from crosslearning.convex.sums.cells import Cells
from crosslearning.convex.sums.statistics import Statistics
from crosslearning.evaluation.numbers import count
from crosslearning.evaluation.scores import Scores
from crosslearning.tables.columns import require_columns
from crosslearning.tables.describe import Fit, describe
from crosslearning.tables.engines import Collected, Engine, FrameTable
from crosslearning.tables.final import (
    Checks,
    Compared,
    RowSummary,
    baseline_score,
    check_intervals,
    check_trials,
    fit_to_rows,
    fit_to_sums,
)
from crosslearning.tables.forecast import BLOCKS, Rotation, Score, Scorer, forecast
from crosslearning.tables.learners.candidates import (
    Candidate,
    Choice,
    Trials,
    based,
    best_choice,
    candidates,
    choices,
    trees,
    with_nested,
)
from crosslearning.tables.learners.search import Bases, CandidateSearch
from crosslearning.tables.model import TableModel
from crosslearning.tables.reading import Files
from crosslearning.tables.rows import Rows, Splits, bounded
from crosslearning.tables.schema import COMPARED, Schema
from crosslearning.tables.settings import FitSettings

Array = NDArray[np.float64]
OfRows = list[tuple[Rows, Array, Array]]  # with means and standard deviations
_FEWEST = 2_000  # tasks to compare models by sums,
_NUMBERS = 10**7  # in which there are at most so many numbers, unless they are the fewest
_LEARNED = 2**10  # tasks that are enough for variances to compare models by
Progress = Callable[[str, float], object]
HeldOut = pd.DataFrame | str | os.PathLike[str]


def fit(
    engine: Engine,
    settings: FitSettings,
    *,
    held_out: HeldOut | None = None,
    command: str = "",
    progress: Progress = lambda *_: None,
) -> TableModel:
    """Fit the table that an engine goes over."""
    started = clock.monotonic()
    progress("Looking at the columns", 0.0)
    schema = Schema.of(engine.survey(settings), text_labels=engine.table.text_labels)
    if held_out is not None:
        _check_held_out(held_out, schema)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about models that may not be chosen
        compared = _Comparison(engine, schema, progress).made(started + settings.time_budget)
    trials = compared.trials
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        progress(f"Fitting the best model, {trials.chosen.label}, on all rows", 1.0)
        model = compared.model()
        score, notes = _scored(model, compared, held_out) if held_out is not None else (None, [])
        _ = compared.sharing  # which may warn, too
    table = engine.table
    outcome = Fit(
        compared=compared,
        model=model,
        held_out=score,
        notes=[*schema.notes, *compared.notes, *notes],
        messages=tuple(dict.fromkeys(" ".join(str(w.message).split()) for w in caught)),
        command=command,
        python=settings.python(engine.function, table.source, held_out, trials.described.label),
        started=started,
    )
    for message in outcome.messages:
        warnings.warn(message, stacklevel=2)
    return replace(model, findings=describe(outcome))


@dataclass(frozen=True, eq=False)
class _Comparison:
    """How models of a table are compared: by its rows in memory, or by sums of all rows."""

    engine: Engine
    schema: Schema
    progress: Progress

    def made(self, moment: float) -> Compared:
        """Compare all models that there is time for until a moment."""
        collected = self.engine.collect(self.schema)
        if not len(collected.ends):
            weights = self.schema.settings.weights
            raise ValueError(f"The weights in {weights!r} must not all be 0.")
        if self.schema.summed_by_fold:
            return self._by_sums(collected)
        return self._by_rows(collected, moment if self.schema.complete else np.inf)

    def _by_sums(self, collected: Collected) -> Compared:
        """Compare linear models of normal targets by sums of all rows."""
        schema = self.schema
        trials, predictions, baseline, tasks = compare_by_sums(
            self._linear(schema.n_features),
            collected,
            schema.parts,
            lambda text: self.progress(text, 0.5),
        )
        labels, chosen = schema.labels[tasks].tolist(), predictions[trials.chosen.name]
        checks = check_intervals(chosen, labels, schema.settings.seed)
        return self._fitted_to_sums(collected, trials, baseline, tasks, checks)

    def _by_rows(self, collected: Collected, moment: float) -> Compared:
        """Compare models on rows in memory: linear ones unless these are all rows."""
        schema, settings = self.schema, self.schema.settings
        rows, splits, tasks = schema.rows_of(collected.kept)
        rotation = Rotation.of(rows.X) if schema.complete else None
        if rotation is not None:
            rows = replace(rows, X=rotation.apply(rows.X))
        trials, bases = self._searched(rows, splits, moment, rotated=rotation is not None)
        labels = schema.labels[tasks]
        checks = check_trials(trials, rows, splits, labels.tolist(), settings.seed)
        notes = [*bases.notes, *trials.notes, *checks.notes]
        if not schema.complete:
            baseline = baseline_score(rows, splits, schema.metric)
            return self._fitted_to_sums(collected, trials, baseline, tasks, checks, notes)
        if rotation is not None and settings.base != "linear":
            notes.append("only linear models of principal axes were tried: features are many")
        names = schema.encoder.feature_names if rotation is None else []
        return Compared(
            schema=schema,
            trials=trials,
            rows=RowSummary.of_rows(rows, splits, schema.metric, names),
            checks=checks,
            notes=notes,
            fit=cache(partial(fit_to_rows, bases, trials, labels)),
            bases=bases,
            rotation=rotation,
        )

    def _fitted_to_sums(
        self,
        collected: Collected,
        trials: Trials,
        baseline: float,
        tasks: NDArray[np.intp],
        checks: Checks,
        notes: Sequence[str] = (),
    ) -> Compared:
        """Models compared on the rows of some tasks, to be fitted to sums of all rows."""
        schema, total = self.schema, collected.sums.total()
        rows = RowSummary.of_sums(total, schema.encoder.feature_names, baseline, tasks)
        return Compared(
            schema=schema,
            trials=trials,
            rows=rows,
            checks=checks,
            notes=[*notes, *rows.notes],
            fit=cache(partial(fit_to_sums, schema, total, collected.ends, self.engine.pass_over)),
        )

    def _searched(
        self, rows: Rows, splits: Splits, moment: float, *, rotated: bool
    ) -> tuple[Trials, Bases]:
        """Try linear models, then others whose features help, or that are wanted."""
        schema, settings = self.schema, self.schema.settings
        slow = schema.target.family == "gamma" and not settings.single_family
        family = "gaussian" if slow else schema.target.family
        base = settings.base if schema.complete and not rotated else "linear"
        bases = Bases(rows, splits, base, family, settings.seed)
        search = CandidateSearch(
            bases,
            schema.metric,
            # A bound applies to a single model, and weights of a blend are those of means.
            blend=schema.complete and settings.epsilon == np.inf and settings.level is None,
            moment=moment,
            jobs=settings.jobs,
            progress=self.progress,
        )
        first, *linear = self._linear(rows.X.shape[1], rotated=rotated)
        search.first(first)
        robust = [c for c in linear if c.family == "robust" and not settings.single_family]
        plain = [c for c in linear if c not in robust]
        search.more([*(trees(settings.epsilon) if bases.trees else []), *plain], share=(0.1, 0.4))
        if robust and search.has_outliers():
            search.more(robust, share=(0.4, 0.5))
        others = self._completed(
            based(schema.target.kind, family, bases.blocks, settings.epsilon, bases.n_scores)
        )
        on_means = [c for c in others if "means" in BLOCKS[c.base]]
        if on_means and not search.worth(on_means, bases.means_help):
            others = [c for c in others if c not in on_means]
        search.more(others, share=(0.5, 1.0))
        return search.finish(), bases

    def _linear(self, n_features: int, *, rotated: bool = False) -> list[Candidate]:
        """Linear models at their ends, cheapest first."""
        schema, settings = self.schema, self.schema.settings
        family, open_to_more = schema.target.family, settings.family == "auto" and schema.complete
        models = candidates(
            schema.target.kind,
            family,
            (schema.survey.n_rows, n_features),
            only=settings.single_family,
            also=REGISTRY[family].also if open_to_more and schema.classes is None else (),
            epsilon=settings.epsilon,
            n_scores=1 if schema.classes is None else len(schema.classes) - 1,
            rotated=rotated,
        )
        return self._completed(models)

    def _completed(self, tried: list[Candidate]) -> list[Candidate]:
        """Add models that know groups of tasks; let all predict the quantile that is wanted."""
        level = self.schema.settings.level
        tried = tried if self.schema.levels is None else with_nested(tried)
        for candidate in tried if level is not None else ():
            candidate.estimator.set_params(quantile=level)
        return tried


def compare_by_sums(
    candidates: Sequence[Candidate],
    collected: Collected,
    parts: list[tuple[list[int], int]],
    say: Callable[[str], object],
) -> tuple[Trials, dict[str, OfRows], float, NDArray[np.intp]]:
    """Fit candidates on all folds of a part but one, and score them on that by squared errors.

    If tasks are very many, some decide. No model is kept, since models of many tasks are large.

    Returns
    -------
    tuple
        Trials; rows that were kept, with means and standard deviations, by candidate; the mean
        squared error of predicting the mean; and the tasks that decide.
    """
    sums, kept = collected.sums, collected.kept
    most = np.clip(_NUMBERS // sums.cells.scatters[:1].size, _FEWEST, COMPARED)
    tasks = np.arange(0, sums.n_tasks, -(-sums.n_tasks // most))
    some, levels = sums.take(tasks), kept.levels.numbers.iloc[tasks] if kept.levels else None
    sample, folds = _of_tasks(kept, tasks, sums.n_tasks)
    values = np.full((len(candidates), len(parts), len(tasks)), np.nan)
    guesses, weights = np.empty((1, *values.shape[1:])), np.empty(values.shape[1:])
    predictions: dict[str, OfRows] = {candidate.name: [] for candidate in candidates}
    seconds = dict.fromkeys(predictions, 0.0)
    for s, (learned, tested) in enumerate(parts):
        # A difference would leave rounding errors in columns of zeros.
        train, test = reduce(add, [some.fold(k) for k in learned]), some.cells[:, tested]
        nothing, weights[s] = np.zeros((len(tasks), sums.n_features)), test.weights
        guesses[0, s] = _scores(nothing, np.full(len(tasks), train.pooled_means()[-1]), test)
        part = sample.take(np.flatnonzero(folds == tested))
        for m, candidate in enumerate(candidates):
            say(f"Trying {candidate.label}, part {s + 1} of {len(parts)}")
            started = clock.perf_counter()
            groups = levels if candidate.nested else None
            values[m, s], predicted = _tried(candidate, train, groups, test, part, collected.ends)
            predictions[candidate.name] += predicted
            seconds[candidate.name] += clock.perf_counter() - started
    scores = Scores(list(predictions), values, weights)

    def choice(some: Sequence[Candidate]) -> Choice:
        return best_choice(some, scores.of([c.name for c in some]))

    baseline = -float(np.nanmean(Scores(["guess"], guesses, weights).by_task[0]))
    trials = Trials(candidates, scores, scores, choices(candidates, choice), seconds=seconds)
    return trials, predictions, baseline, tasks


def _tried(
    candidate: Candidate, train: Statistics, groups: Any, test: Cells, part: Rows, ends: Array
) -> tuple[Array, OfRows]:
    """Scores of the tasks, and predictions of rows if there are any."""
    model = clone(candidate.estimator).fit_statistics(train, tasks=groups, learn_from=_LEARNED)
    bounded(model, ends)
    state = {"fitted": vars(model), "parameters": model.get_params()}
    predicted = [(part, *forecast(state, part.X, part.codes))] if len(part.y) else []
    return _scores(model.coef_, model.intercept_, test), predicted


def _of_tasks(kept: Rows, tasks: NDArray[np.intp], n_tasks: int) -> tuple[Rows, NDArray[np.intp]]:
    """Rows of some tasks, under the numbers that these have among themselves; and their folds."""
    position = np.full(n_tasks, -1)
    position[tasks] = np.arange(len(tasks))
    codes = position[kept.codes]
    at = np.flatnonzero(codes >= 0)
    folds = np.asarray(kept.folds)[at]
    return Rows(kept.X[at], kept.y[at], codes[at], len(tasks)), folds


def _scores(coef: Array, intercept: Array, cells: Cells) -> Array:
    """Minus the mean squared error of each task; NaN where it has no rows."""
    v = np.column_stack([-coef, np.ones(len(coef))])
    squares = np.einsum("nj,nj->n", (cells.scatters @ v[:, :, None])[:, :, 0], v)
    gap = np.einsum("nj,nj->n", v, cells.means) - intercept
    total = np.maximum(squares, 0.0) + cells.weights * gap**2
    scores = np.full(len(v), np.nan)
    np.divide(-total, cells.weights, out=scores, where=cells.weights > 0)
    return scores


def _check_held_out(held_out: HeldOut, schema: Schema) -> None:
    """Refuse a held-out table before anything is fitted."""
    if isinstance(held_out, pd.DataFrame):
        header = held_out.head(0)
    else:
        header = pd.DataFrame(columns=Files.of(str(held_out)).columns)
        if schema.metric.name == "auc":
            raise ValueError(
                "A held-out table that is read in chunks has no area under a curve. Use another "
                "metric."
            )
    tasks, table = schema.settings.task, "The held-out table"
    require_columns(header, [schema.settings.target], "the target", table)
    require_columns(header, [*tasks, *schema.encoder.columns], "the model", table)


def _scored(model: TableModel, compared: Compared, held_out: HeldOut) -> tuple[Score, list[str]]:
    """Score the chosen model on another table, chunk by chunk if it is read from files."""
    weights, notes = compared.schema.settings.weights, []
    table: Files | FrameTable
    if isinstance(held_out, pd.DataFrame):
        table = FrameTable(held_out)
    else:
        table = Files.of(str(held_out), text=model.text_columns)
    columns = [*model.task_columns, model.target, *model.encoder.columns]
    if weights in table.columns:
        columns.append(weights)
    elif weights is not None:
        notes.append(f"the held-out table has no column {weights}: its rows have equal weights")
    scorer = Scorer(model, weights)
    for _ in table.each(list(dict.fromkeys(columns)), lambda _, frame: scorer.add(frame)):
        pass
    if scorer.score is None or not scorer.weights.any():
        why, remedy = "", ""
        if scorer.rows:
            why, remedy = ", and perhaps too few classes", ", or choose another metric"
        raise ValueError(
            f"No task of the held-out table can be scored by {scorer.metric.words}: it has "
            f"{count(scorer.rows, 'row')} with a target{why}. Hold out another table{remedy}."
        )
    return scorer.score, notes
