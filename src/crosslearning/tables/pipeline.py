"""The only order of work: settings and an engine in, a fitted and described model out."""

from __future__ import annotations

import os
import time as clock
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crosslearning.convex.families import REGISTRY
from crosslearning.tables.checks import (
    Checks,
    RowSummary,
    baseline_score,
    check_intervals,
    check_trials,
)
from crosslearning.tables.columns import require_columns
from crosslearning.tables.describe import Fit, describe
from crosslearning.tables.engines import Collected, Engine
from crosslearning.tables.final import Compared, Scored, fit_to_rows, fit_to_sums, unscored
from crosslearning.tables.findings import Holdout
from crosslearning.tables.forecast import Score, Scorer
from crosslearning.tables.learners.candidates import (
    Candidate,
    based,
    candidates,
    trees,
    with_nested,
)
from crosslearning.tables.learners.features import BLOCKS, Rotation
from crosslearning.tables.learners.search import CandidateSearch
from crosslearning.tables.learners.spaces import Spaces
from crosslearning.tables.learners.sums import compare_by_sums
from crosslearning.tables.learners.trials import Trials
from crosslearning.tables.model import TableModel
from crosslearning.tables.reading import Files
from crosslearning.tables.rows import Rows, Splits
from crosslearning.tables.schema import Schema
from crosslearning.tables.settings import FitSettings

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
    _check_held_out(held_out, schema)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about models that may not be chosen
        compared = _Work(engine, schema, progress).compared(started + settings.time_budget)
    trials = compared.trials
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        progress(f"Fitting the best model, {trials.chosen.label}, on all rows", 1.0)
        model = compared.model()
        scores, notes = _held_out_scores(model, compared, held_out)
        _ = compared.sharing  # which may warn, too
    table = engine.table
    outcome = Fit(
        compared=compared,
        model=model,
        held_out=scores,
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
class _Work:
    """What a table holds, who goes over its rows, and what to do with them."""

    engine: Engine
    schema: Schema
    progress: Progress

    def compared(self, moment: float) -> Compared:
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
        return self._fitted_to_sums(collected, trials, baseline, tasks, checks, [])

    def _by_rows(self, collected: Collected, moment: float) -> Compared:
        """Compare models on rows in memory: linear ones unless these are all rows."""
        schema, settings = self.schema, self.schema.settings
        rows, splits, tasks = schema.rows_of(collected.kept)
        rotation = Rotation.of(rows.X) if schema.complete else None
        if rotation is not None:
            rows = replace(rows, X=rotation.apply(rows.X))
        search = self._searched(rows, splits, moment, rotated=rotation is not None)
        trials, spaces, labels = search.finish(), search.validation.spaces, schema.labels[tasks]
        checks = check_trials(trials, rows, search.splits, labels.tolist(), settings.seed)
        notes = [*splits.notes(settings.folds), *spaces.notes, *search.notes]
        notes += [*trials.notes, *checks.notes]
        if not schema.complete:
            baseline = baseline_score(rows, splits, schema.metric)
            return self._fitted_to_sums(collected, trials, baseline, tasks, checks, notes)
        if rotation is not None and settings.base != "linear":
            notes.append("only linear models of principal axes were tried: features are many")
        names = schema.encoder.feature_names if rotation is None else []
        return Compared(
            schema=schema,
            trials=trials,
            rows=RowSummary.of_rows(rows, search.splits, schema.metric, names),
            checks=checks,
            notes=notes,
            fit=cache(partial(fit_to_rows, spaces, trials, labels)),
            spaces=spaces,
            rotation=rotation,
        )

    def _fitted_to_sums(
        self,
        collected: Collected,
        trials: Trials,
        baseline: float,
        tasks: NDArray[np.intp],
        checks: Checks,
        notes: list[str],
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
            fit=cache(partial(fit_to_sums, self.engine, schema, total, collected.ends)),
        )

    def _searched(
        self, rows: Rows, splits: Splits, moment: float, *, rotated: bool
    ) -> CandidateSearch:
        """Try linear models, then others whose features help, or that are wanted."""
        schema, settings = self.schema, self.schema.settings
        slow = schema.target.family == "gamma" and not settings.single_family
        family = "gaussian" if slow else schema.target.family
        base = settings.base if schema.complete and not rotated else "linear"
        spaces = Spaces(rows, splits, base, family, settings.seed)
        search = CandidateSearch(
            spaces,
            splits,
            schema.metric,
            seed=settings.seed,
            # A bound applies to a single model, and weights of a blend are those of means.
            blend=schema.complete and settings.epsilon == np.inf and settings.level is None,
            moment=moment,
            jobs=settings.jobs,
            progress=self.progress,
        )
        first, *linear = self._linear(rows.X.shape[1], rotated=rotated)
        search.first(first)
        alone = trees(settings.epsilon) if spaces.trees else []
        search.more([*alone, *linear], share=(0.1, 0.5))
        others = self._completed(
            based(schema.target.kind, family, spaces.blocks, settings.epsilon, spaces.n_scores)
        )
        on_means = [c for c in others if "means" in BLOCKS[c.base]]
        if on_means and not search.worth(on_means, spaces.means_help):
            others = [c for c in others if c not in on_means]
        search.more(others, share=(0.5, 1.0))
        return search

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


def _check_held_out(held_out: HeldOut | None, schema: Schema) -> None:
    """Refuse a held-out table before anything is fitted."""
    if held_out is None:
        return
    if isinstance(held_out, pd.DataFrame):
        columns = held_out.columns
        if not schema.complete:
            raise ValueError("A table that is read in chunks needs a path as its held-out table.")
    else:
        columns = pd.Index(Files.of(str(held_out)).columns)
        if schema.metric.name == "auc":
            raise ValueError(
                "A held-out table that is read in chunks has no area under a curve. Use another "
                "metric."
            )
    header = pd.DataFrame(columns=columns)
    tasks, table = schema.settings.task, "The held-out table"
    require_columns(header, [schema.settings.target], "the target", table)
    require_columns(header, [*tasks, *schema.encoder.columns], "the model", table)


def _held_out_scores(
    model: TableModel, compared: Compared, held_out: HeldOut | None
) -> tuple[Scored | Holdout | None, list[str]]:
    """Score models on another table: all of them, or the chosen one if it is read in chunks."""
    if held_out is None:
        return None, []
    weights = compared.schema.settings.weights
    scores: Scored | Holdout
    if isinstance(held_out, pd.DataFrame):
        columns, scores = list(held_out.columns), compared.score_all(model, held_out)
    else:
        files = Files.of(str(held_out), text=model.text_columns)
        columns, score = files.columns, _scored(model, files, weights)
        scores = Holdout(rows=score.rows, scores={compared.trials.chosen.name: score.score})
    lacking = weights is not None and weights not in columns
    note = f"the held-out table has no column {weights}: its rows have equal weights"
    return scores, [note] if lacking else []


def _scored(model: TableModel, files: Files, weights: str | None) -> Score:
    """Score a model on files, chunk by chunk."""
    columns = [*model.task_columns, model.target, *model.encoder.columns]
    scorer = Scorer(model, weights)
    columns += [weights] if weights in files.columns else []
    for _ in files.each(columns, lambda _, frame: scorer.add(frame)):
        pass
    if scorer.score is None or not scorer.weights.any():
        raise unscored(scorer.metric, scorer.rows)
    return scorer.score
