"""A table larger than memory in, a fitted model out: a pass to look, one to sum, and more."""

from __future__ import annotations

import os
import time as clock
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from inspect import signature
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone

from crosslearning.convex.statistics import Statistics
from crosslearning.linear import CrossBayesianGLM, CrossBayesianRidge
from crosslearning.tables.checks import Checks, left_out, summary
from crosslearning.tables.columns.schema import Features, remarks, require_columns
from crosslearning.tables.columns.target import Target, only_family
from crosslearning.tables.describe import with_findings
from crosslearning.tables.effects import effects
from crosslearning.tables.engines.files import Reader
from crosslearning.tables.engines.plan import Plan
from crosslearning.tables.engines.survey import Survey, recognised
from crosslearning.tables.facts import Facts, baseline_of
from crosslearning.tables.final import state_to_keep, unscored, unweighted
from crosslearning.tables.findings import Holdout
from crosslearning.tables.fit import Fit
from crosslearning.tables.learners.candidates import Candidate, candidates
from crosslearning.tables.learners.sums import COMPARED, facts_of, try_rows, try_sums
from crosslearning.tables.learners.trials import Trials
from crosslearning.tables.lines import lines
from crosslearning.tables.metrics import Metric, Scorer, metric_of
from crosslearning.tables.model import TableModel
from crosslearning.tables.options import option
from crosslearning.tables.parameters import coefficient_table
from crosslearning.tables.prepared import check_settings, weightless
from crosslearning.tables.reading.files import Files, located
from crosslearning.tables.residuals import Residuals
from crosslearning.tables.rows import bounded, fitted
from crosslearning.tables.splits import horizon, time_starts, time_values
from crosslearning.tasks.estimators import as_objects

_LEARNED = 2**14  # tasks that are enough for variances
_SHOWN = 20_000  # rows to look at predictions of
_KEPT, _FEWEST_TASKS = 2**16, 50  # rows, and tasks, to compare models on that need rows


def fit_files(
    source: str | os.PathLike[str],
    *,
    task: str,
    target: str,
    features: Sequence[str] | None = None,
    numbers: Sequence[str] = (),
    categories: Sequence[str] = (),
    kind: str = "auto",
    family: str = "auto",
    epsilon: float = np.inf,
    metric: str | None = None,
    weights: str | None = None,
    time: str | None = None,
    group: str | None = None,
    held_out: str | os.PathLike[str] | None = None,
    folds: int = 5,
    drop_unlabelled: bool = False,
    seed: int = 0,
    command: str = "",
    progress: Callable[[str], object] | None = None,
) -> TableModel:
    """Fit a table that is read in chunks, as :func:`fit_table` does one in memory.

    It is read twice: to learn labels, levels and gaps and to draw a sample, from which columns are
    recognised; and to sum the rows of each task and fold. Memory holds the sums and two chunks.
    Linear models of numbers, and their mean squared errors, follow from the sums. Classes and
    counts, and other metrics, are compared on the rows of some tasks, kept in memory; unless these
    are all rows, the best model of them takes some 10 more passes. Medians, which replace missing
    values, and moments that rows are divided at are those of the sample.

    Parameters
    ----------
    source : path
        A file, a folder of files, or a pattern such as ``"part-*.parquet"``: Parquet, or CSV.
    task, target, features, numbers, categories, kind, epsilon, metric, weights, time, group
        As in :func:`fit_table`.
    family : {"auto", "gaussian", "poisson", "tweedie"}, default="auto"
        Distribution of a target that is a number.
    held_out : path, optional
        Another table, on which the model is scored.
    folds, drop_unlabelled, seed, command
        As in :func:`fit_table`.
    progress : callable, optional
        Called with what is being done.

    Returns
    -------
    TableModel
    """
    given = dict(locals())
    goal = None if kind == "classification" else target
    files = Files.of(str(given.pop("source")), text=[task, *categories], target=goal)
    return fit_engine(Reader(files, progress or (lambda _: None)), given)


def fit_engine(engine: Any, given: dict[str, Any]) -> TableModel:
    """Fit what an engine, which knows `columns`, goes over, given the settings of `fit_files`.

    It has a `survey` of all rows, `sums` of them, and sums at parameters (`passed`).
    """
    bound = signature(fit_files).bind(None, **given)
    bound.apply_defaults()
    settings, started = SimpleNamespace(**bound.arguments), clock.perf_counter()
    survey, sample, goal, used, metric = _looked(engine, settings)
    plan, labels = _plan(survey, sample, settings, goal, used, metric)
    encoder = plan.encoder
    only = only_family(settings.family, settings.metric) or goal.family == "gaussian"
    shape = survey.n_rows, len(encoder.feature_names)
    n_scores = 1 if plan.classes is None else len(plan.classes) - 1
    tried = candidates(
        goal.kind, goal.family, shape, only=only, epsilon=settings.epsilon, n_scores=n_scores
    )
    model, trials, facts, (residuals, checks), caught = _chosen(engine, plan, labels, tried, metric)
    result = TableModel(
        plan.task, plan.target, metric.name, encoder, None, state_to_keep(model), residuals,
        coefficients=coefficient_table(model, encoder.feature_names), horizon=plan.horizon,
    )  # fmt: skip
    holdout, more = None, list[str]()
    if settings.held_out is not None:
        holdout, more = _held_out(result, settings, trials.chosen.name)
    provenance = {
        "command": settings.command,
        "seed": settings.seed,
        "seconds": round(clock.perf_counter() - started, 3),
        "dropped": survey.dropped,
        "unlabelled": survey.unlabelled,
        "notes": [
            *engine.notes,
            *_notes(survey, sample, plan, facts),
            *remarks(sample, used, plan.task, labels, timed=plan.time is not None),
            *more,
        ],
    }
    fit = Fit(
        model=result,
        estimator=model,
        target=goal,
        features=used,
        trials=trials,
        words=plan.words,
        facts=facts,
        settings=provenance,
        checks=checks,
        effects=effects(result, sample),
        sharing=None if trials.chosen.end == "separate" else model,
        holdout=holdout,
    )
    return with_findings(fit, caught, lines(fit_files, vars(settings), trials.chosen.label))


def _looked(
    engine: Any, settings: SimpleNamespace
) -> tuple[Survey, pd.DataFrame, Target, Features, Metric]:
    """Look at all rows: a survey, a sample, the target, the columns to use, and the metric."""
    types = dict.fromkeys(settings.numbers, "number")
    types |= dict.fromkeys(settings.categories, "category")
    columns = _wanted(engine.columns, settings)
    start = Survey(settings.task, settings.target, settings.drop_unlabelled)
    survey = engine.survey(start, columns, types, settings.seed)
    sample = survey.sample.reset_index(drop=True)
    goal, used = recognised(survey, sample, settings, types)
    metric = metric_of(settings.metric, goal.kind)
    if settings.held_out is not None and metric.name == "auc":
        raise ValueError(
            f"{option('held_out')} is scored in chunks, from which no area under a curve follows. "
            "Use another metric."
        )
    return survey, sample, goal, used, metric


def _wanted(columns: list[str], settings: SimpleNamespace) -> list[str]:
    """Check the settings against the names of the columns; and which of these to read."""
    header, extra = pd.DataFrame(columns=columns), []
    check_settings(
        header, settings.task, settings.target, settings.epsilon, settings.seed, settings.folds
    )
    for role in ("weights", "time", "group"):
        extra += [getattr(settings, role)] * bool(getattr(settings, role))
        require_columns(header, extra, f"the {role}")
    require_columns(header, settings.features or [], "the features")
    if settings.time and settings.group:
        raise ValueError(
            f"Rows can be left out by time or by group; got {settings.time!r} and "
            f"{settings.group!r}. Choose one of the two."
        )
    wanted = columns if settings.features is None else [*settings.features, *extra]
    return list(dict.fromkeys([settings.task, settings.target, *wanted]))


def _plan(
    survey: Survey,
    sample: pd.DataFrame,
    settings: SimpleNamespace,
    goal: Target,
    used: Features,
    metric: Metric,
) -> tuple[Plan, NDArray[Any]]:
    """How to go on, and the labels of the tasks."""
    written, labels = survey.tasks()
    encoder = survey.encoder(used.of("number"), used.of("category"), used.of("date"))
    encoder = encoder.knowing(sample, goal, settings.weights)
    classes = np.unique(goal.y) if goal.kind == "classification" else None
    plan = Plan(
        settings.task, settings.target, settings.weights, settings.drop_unlabelled, encoder,
        written, classes, settings.folds, settings.seed, settings.group, settings.time,
    )  # fmt: skip
    if settings.time:
        first = settings.time in survey.day_first
        values = time_values(sample[settings.time], day_first=first)
        starts = time_starts(values, settings.time, settings.folds)
        plan = plan._replace(
            starts=starts,
            horizon=horizon(sample[settings.time], values, starts),
            day_first=first,
            n_folds=len(starts) + 1,
        )
    n, n_rows = len(labels), survey.n_rows
    if classes is None and goal.family == "gaussian" and metric.name == "mse":
        return plan._replace(row_share=_SHOWN * max(n / COMPARED, 1.0) / n_rows), labels
    share = min(max(_KEPT / n_rows, _FEWEST_TASKS / n), 1.0)
    return plan._replace(by_rows=True, task_share=share, row_share=_KEPT / (share * n_rows)), labels


def _chosen(
    engine: Any,
    plan: Plan,
    labels: NDArray[Any],
    tried: list[Candidate],
    metric: Metric,
) -> tuple[Any, Trials, Facts, tuple[Residuals | None, Checks], list[Any]]:
    """Sum rows, and fit the best model: it, trials, facts, findings on some rows, and warnings."""
    found: tuple[Residuals | None, Checks]
    sums, shown = engine.sums(plan)
    total, names, ends = sums.total(), plan.encoder.feature_names, shown.ends
    if not len(ends):
        raise weightless(plan.weights)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is not chosen does not matter
        if plan.by_rows:
            trials, rows, splits, among = try_rows(tried, shown, plan, metric, engine.say)
            found = left_out(trials, rows, splits, labels[among].tolist(), plan.seed)
            facts = facts_of(total, names, baseline_of(rows, splits, metric), among)
        else:
            trials, said, facts = try_sums(tried, sums, total, shown, plan.parts, names, engine.say)
            rng, among = np.random.default_rng(plan.seed), facts.compared
            found = summary(said[trials.chosen.name], labels[among].tolist(), rng)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        engine.say(f"Fitting the best of them, {trials.chosen.label}, on all rows")
        del sums, shown  # of many tasks they are large
        estimator, tasks = trials.chosen.estimator, as_objects(labels.tolist())
        if plan.keeps_all:
            model = fitted(estimator, rows, tasks)
        else:
            model = _passed(engine, plan, clone(estimator), total, ends)
            model.tasks_ = tasks
    return model, trials, facts, found, caught


def _passed(engine: Any, plan: Plan, model: Any, total: Statistics, ends: NDArray[Any]) -> Any:
    """Fit all rows from sums, or from passes over them; `ends` are those of the targets."""
    if isinstance(model, CrossBayesianRidge):
        model.fit_statistics(total, learn_from=_LEARNED)
    else:
        known = ends.max() if isinstance(model, CrossBayesianGLM) else plan.classes
        model.fit_passes(total, partial(engine.passed, plan), known, learn_from=_LEARNED)
    return model if plan.classes is not None else bounded(model, ends)


def _held_out(model: TableModel, settings: SimpleNamespace, name: str) -> tuple[Holdout, list[str]]:
    """Score the chosen model on another table, chunk by chunk; and notes."""
    files = Files.of(str(settings.held_out), text=model.text_columns)
    columns, weights = [model.task, model.target, *model.encoder.columns], settings.weights
    require_columns(pd.DataFrame(columns=list(files.types)), columns, "the model")
    scorer, notes = Scorer(model, weights), unweighted(weights, files.types)
    for path, frame in files.chunks([*columns, *([weights] if weights in files.types else [])]):
        with located(path):
            scorer.add(frame)
    if not scorer.weights.any():
        raise unscored(scorer.metric, scorer.rows)
    return Holdout(rows=scorer.rows, scores={name: scorer.score["score"]}), notes


def _notes(survey: Survey, sample: pd.DataFrame, plan: Plan, facts: Facts) -> list[str]:
    """Say what was learned from a part of the table."""
    notes = []
    if len(sample) < survey.n_rows:
        gaps = ", and medians in place of gaps" if plan.encoder.flagged else ""
        notes.append(f"columns were recognised from {len(sample):,} rows drawn at random{gaps}")
    some, of = len(facts.compared), len(facts.counts)
    if some < of:
        notes.append(f"models were compared on {some:,} of {of:,} tasks")
    return notes
