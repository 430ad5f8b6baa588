"""The only order of work: settings and an engine in, a fitted model and its comparison out."""

from __future__ import annotations

import os
import time as clock
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone

from crosslearning.convex.sums.columns import Rotation
from crosslearning.convex.sums.statistics import Statistics
from crosslearning.coupling._members import level_of_caller
from crosslearning.evaluation.metrics import Metric
from crosslearning.evaluation.numbers import count
from crosslearning.evaluation.scores import mean
from crosslearning.frames.columns import require_columns
from crosslearning.frames.reading import Files
from crosslearning.linear import CrossBayesianGLM, CrossBayesianRidge
from crosslearning.linear._estimator import state_of
from crosslearning.tables.checks import Checks, RowSummary, check_intervals, check_trials
from crosslearning.tables.differences import coefficient_table
from crosslearning.tables.engines import Collected, Engine, FrameTable, Table
from crosslearning.tables.forecast import BLOCKS, blend
from crosslearning.tables.learners import candidates as learners
from crosslearning.tables.learners.candidates import Candidate, Trials
from crosslearning.tables.learners.search import Bases, CandidateSearch, compare_by_sums
from crosslearning.tables.model import Score, Scorer, TableModel
from crosslearning.tables.rows import Rows, bounded, bounds_of, fitted
from crosslearning.tables.schema import COMPARED, Schema
from crosslearning.tables.settings import FitSettings
from crosslearning.tasks.folds import Splits

_LEARNED = 2**14  # tasks that are enough for variances
Progress = Callable[[str, float], object]
HeldOut = pd.DataFrame | str | os.PathLike[str]


@dataclass(frozen=True, eq=False, kw_only=True)
class Fit:
    """A fit to be described; `held_out` is the score of the model on another table."""

    compared: Compared
    model: TableModel
    held_out: Score | None
    notes: Sequence[str]
    messages: tuple[str, ...]
    python: str
    started: float


def fit(engine: Engine, settings: FitSettings, held_out: HeldOut | None, progress: Progress) -> Fit:
    """Fit the table that an engine goes over."""
    started, table = clock.monotonic(), engine.table
    progress("Looking at the columns", 0.0)
    schema = Schema.of(settings, engine.survey(settings), text_labels=table.text_labels)
    if held_out is not None:
        _check_held_out(held_out, schema)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about models that may not be chosen
        compared = _Comparison(engine, schema, progress).compared()
    trials = compared.trials
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        progress(f"Fitting the best model, {trials.chosen.label}, on all rows", 1.0)
        model = compared.model()
        score, notes = _scored(model, compared, held_out) if held_out is not None else (None, [])
        _ = compared.sharing  # which may warn, too
    categories = {" ".join(str(w.message).split()): w.category for w in caught}
    for message, category in categories.items():
        warnings.warn(message, category, stacklevel=level_of_caller())
    return Fit(
        compared=compared,
        model=model,
        held_out=score,
        notes=[*schema.notes, *compared.notes, *notes],
        messages=tuple(categories),
        python=settings.python(engine.function, table.source, held_out, trials.described.label),
        started=started,
    )


@dataclass(frozen=True, eq=False)
class _Comparison:
    """How models of a table are compared: by its rows in memory, or by sums of all rows."""

    engine: Engine
    schema: Schema
    progress: Progress

    def compared(self) -> Compared:
        """Compare all models that there is time for."""
        collected = self.engine.collect(self.schema)
        if not len(collected.ends):
            weights = self.schema.settings.weights
            raise ValueError(f"The weights in {weights!r} must not all be 0.")
        compare = self._by_sums if self.schema.summed_by_fold else self._by_rows
        return compare(collected, clock.monotonic() + self.schema.settings.time_budget)

    def _by_sums(self, collected: Collected, moment: float) -> Compared:
        schema, kept, ends, sums = self.schema, *collected
        models, parts, say = self._linear(), schema.parts, lambda text: self.progress(text, 0.5)
        trials, predictions, tasks = compare_by_sums(
            models, sums, kept, ends, parts, COMPARED, say, moment
        )
        labels, chosen = schema.labels[tasks].tolist(), predictions[trials.chosen.name]
        checks = check_intervals(chosen, labels, schema.settings.seed)
        return self._fitted_to_sums(collected, trials, tasks, checks, trials.notes)

    def _by_rows(self, collected: Collected, moment: float) -> Compared:
        """Compare models on rows in memory: linear ones unless these are all rows."""
        schema, settings = self.schema, self.schema.settings
        rows, splits, tasks = schema.rows_of(collected.kept)
        rotation = Rotation.of(rows.X, rows.row_weights) if schema.complete else None
        if rotation is not None:
            rows = replace(rows, X=rotation.apply(rows.X))
        trials, bases = self._searched(rows, splits, moment, rotated=rotation is not None)
        labels = schema.labels[tasks]
        checks = check_trials(trials, rows, splits, labels.tolist(), settings.seed)
        notes = [*bases.notes, *trials.notes, *checks.notes]
        if not schema.complete:
            return self._fitted_to_sums(collected, trials, tasks, checks, notes)
        if rotation is not None and settings.base != "linear":
            notes.append("only linear models of principal axes were tried: features are many")
        names = schema.encoder.feature_names if rotation is None else []
        return Compared(
            schema=schema,
            trials=trials,
            rows=RowSummary.of_rows(rows, names),
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
        tasks: NDArray[np.intp],
        checks: Checks,
        notes: Sequence[str],
    ) -> Compared:
        """Models compared on the rows of some tasks, to be fitted to sums of all rows."""
        schema, total = self.schema, collected.sums.total()
        some, of = len(tasks), total.n_tasks
        decided = [f"models were compared on {some:,} of {of:,} tasks"] if some < of else []
        summary = RowSummary.of_sums(total, schema.encoder.feature_names, tasks)
        fit_all = partial(fit_to_sums, schema, total, collected.ends, self.engine.pass_over)
        return Compared(
            schema=schema,
            trials=trials,
            rows=summary,
            checks=checks,
            notes=[*notes, *decided],
            fit=cache(fit_all),
        )

    def _searched(
        self, rows: Rows, splits: Splits, moment: float, *, rotated: bool
    ) -> tuple[Trials, Bases]:
        """Try linear models, then others whose features help, or that are wanted."""
        schema, settings = self.schema, self.schema.settings
        kind, family, epsilon = schema.target.kind, schema.target.family, settings.epsilon
        if family == "gamma" and not settings.single_family:
            family = "gaussian"  # gamma models are slow
        base = settings.base if schema.complete and not rotated else "linear"
        bases = Bases(rows, splits, base, family, settings.seed)
        search = CandidateSearch(
            bases,
            schema.metric,
            # A bound applies to a single model, and weights of a blend are those of means.
            blend=schema.complete and epsilon == np.inf and settings.level is None,
            moment=moment,
            jobs=settings.jobs,
            progress=self.progress,
        )
        first, *linear = self._linear(rotated=rotated)
        robust = [c for c in linear if c.family == "robust" != first.family]
        linear = [c for c in linear if c not in robust]
        search.first(first)
        # Normal models need sums alone; others may take longer than the first of other learners.
        cheap = [c for c in linear if kind == "regression" and not c.family]
        slow = [c for c in linear if c not in cheap]
        others = learners.with_own_fits(bases.learners, epsilon)
        early = [c for c in others if c.base == next(iter(bases.learners))]
        late = [c for c in others if c not in early]
        search.more([*cheap, *early, *slow, *late], share=(0.1, 0.4))
        if robust and search.heavy_tails:
            search.more(robust, share=(0.4, 0.5))
        others = self._completed(learners.based(kind, family, bases.blocks, epsilon))
        on_means = [c for c in others if "means" in BLOCKS[c.base]]
        if on_means and not search.worth(on_means, bases.means_help):
            others = [c for c in others if c not in on_means]
        search.more(others, share=(0.5, 1.0))
        return search.finish(), bases

    def _linear(self, *, rotated: bool = False) -> list[Candidate]:
        """Linear models at their ends, cheapest first."""
        schema, settings = self.schema, self.schema.settings
        models = learners.candidates(
            schema.target.kind,
            schema.target.family,
            only=settings.single_family,
            also=schema.target.also if settings.family == "auto" and schema.complete else (),
            epsilon=settings.epsilon,
            rotated=rotated,
        )
        return self._completed(models)

    def _completed(self, tried: list[Candidate]) -> list[Candidate]:
        """Add models that know groups of tasks; let all predict the quantile that is wanted."""
        level = self.schema.settings.level
        tried = tried if self.schema.levels is None else learners.with_nested(tried)
        for candidate in tried if level is not None else ():
            candidate.estimator.set_params(quantile=level)
        return tried


@dataclass(frozen=True, eq=False, kw_only=True)
class Compared:
    """Models compared on held-out rows, checks of the chosen one, and how to fit any of them."""

    schema: Schema
    trials: Trials
    rows: RowSummary
    checks: Checks
    notes: list[str]
    fit: Callable[[Candidate], Any]
    bases: Bases | None = None  # of rows that are all in memory
    rotation: Rotation | None = None  # if features are principal axes

    @property
    def described(self) -> Any:
        """The estimator, linear in the columns, whose tasks are described."""
        return self.fit(self.trials.described)

    @property
    def sharing(self) -> Any:
        """The estimator that says how much tasks differ."""
        return self.fit(self.trials.spreading)

    def model(self) -> TableModel:
        """Fit the chosen model to all rows."""
        schema, names = self.schema, self.schema.encoder.feature_names
        return TableModel(
            task=schema.settings.task[-1],
            levels=schema.levels,
            target=schema.target.name,
            metric=schema.metric.name,
            encoder=schema.encoder,
            rotation=self.rotation,
            state=self._state(),
            residuals=self.checks.residuals,
            coefficients=coefficient_table(self.described, names, self.rotation),
            horizon=schema.horizon,
        )

    def _state(self) -> dict[str, Any]:
        """Return what predictions of the chosen model need, which may be a blend of several."""
        weights = self.trials.parts
        used = [c for c in self.trials.candidates if c.name in weights]
        bases = {c.base for c in used if c.estimator is not None} - {"linear"}
        if not bases and not self.trials.choices["all"].blends:
            return _state_of(self.fit(used[0]))
        basis = self.bases.final(bases) if self.bases and bases else None
        columns = {base: basis.columns_of(base) for base in bases} if basis else {}
        parts = [(weights[c.name], columns.get(c.base), _state_of(self.fit(c))) for c in used]
        return blend(parts, basis, self.bases.rows.by_class if self.bases else None)


def _state_of(model: Any) -> dict[str, Any]:
    if isinstance(model, dict):  # of other learners
        return model
    state = state_of(model)
    state["fitted"].pop("calibration_", None)  # intervals use the errors of held-out rows
    return state


def fit_to_sums(
    schema: Schema,
    total: Statistics,
    ends: NDArray[Any],
    pass_over: Callable[..., Any],
    candidate: Candidate,
) -> Any:
    """Fit a linear model to sums of all rows, or by passes over them."""
    model = clone(candidate.estimator)
    if isinstance(model, CrossBayesianRidge):
        tasks = schema.levels.numbers if schema.levels and candidate.nested else None
        model.fit_statistics(total, tasks=tasks, learn_from=_LEARNED)
    else:
        about = ends.max() if isinstance(model, CrossBayesianGLM) else schema.classes
        model.fit_passes(total, partial(pass_over, schema), about, learn_from=_LEARNED)
    model.tasks_ = schema.labels
    return model if schema.classes is not None else bounded(model, ends)


def fit_to_rows(bases: Bases, trials: Trials, labels: NDArray[Any], candidate: Candidate) -> Any:
    """Fit a linear model to all rows in memory; of others, return what predictions need."""
    if candidate.estimator is not None:
        rows = bases.of(candidate.base, None)
        return fitted(candidate.estimator, rows, labels, nested=candidate.nested)
    sds, attributes = np.zeros(2), {"tasks_": labels, "structure_": "learned"}
    if bases.rows.classes is not None:
        attributes["classes_"] = bases.rows.classes
    else:
        attributes["bounds_"] = bounds_of(bases.rows.counted)
        # Errors of models that do not know the task are also those of new tasks.
        each = np.stack([trials.sds[n] for n in (candidate.name, f"pooled-{candidate.base}")])
        sds = mean(each, bases.rows.row_weights, axis=1)
    learner, parameters = bases.learners[candidate.base], {"family": bases.family}
    attributes["learned_"] = learner.final(sds, with_task=candidate.end == "cross")
    return {"class": type(learner).__name__, "parameters": parameters, "fitted": attributes}


def _check_held_out(held_out: HeldOut, schema: Schema) -> None:
    """Refuse a held-out table before anything is fitted."""
    settings, encoder = schema.settings, schema.encoder
    other = _opened(held_out, [*encoder.levels, *encoder.marks])
    if isinstance(other, Files) and not schema.metric.adds_up:
        raise ValueError(
            f"A held-out table in chunks has no {schema.metric.words}. Use another metric."
        )
    require_columns(other.columns, [settings.target], "the target", "The held-out table")
    columns = [*settings.task, *encoder.columns]
    require_columns(other.columns, columns, "the model", "The held-out table")
    about = settings.target, schema.classes, settings.weights
    named = [name for name in (settings.target, settings.weights) if name in other.columns]
    try:
        rows = sum(other.each(named, lambda _, frame: len(encoder.labelled(frame, *about)[0])))
    except ValueError as error:
        raise ValueError(f"Held-out table: {error}") from error
    if not rows:
        raise _unscored(schema.metric, rows)


def _opened(held_out: HeldOut, text: Sequence[str] = ()) -> Table:
    if isinstance(held_out, pd.DataFrame):
        return FrameTable(held_out)
    return Files.of(str(held_out), text=text)


def _scored(model: TableModel, compared: Compared, held_out: HeldOut) -> tuple[Score, list[str]]:
    """Score the chosen model on another table, chunk by chunk if it is read from files."""
    weights, notes = compared.schema.settings.weights, []
    table = _opened(held_out, model.text_columns)
    columns = [*model.task_columns, model.target, *model.encoder.columns]
    if weights in table.columns:
        columns.append(weights)
    elif weights is not None:
        notes.append(f"the held-out table has no column {weights}: its rows have equal weights")
    scorer = Scorer(model, weights)
    for _ in table.each(list(dict.fromkeys(columns)), lambda _, frame: scorer.add(frame)):
        pass
    if scorer.score is None or not scorer.totals[1].any():
        raise _unscored(scorer.metric, scorer.rows)
    return scorer.score, notes


def _unscored(metric: Metric, rows: int) -> ValueError:
    return ValueError(
        f"No task of the held-out table can be scored by {metric.words}: it has "
        f"{count(rows, 'row')} with a target. Hold out another table, or choose another metric."
    )
