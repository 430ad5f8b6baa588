"""The only order of work: settings and an engine in, a fitted and described model out."""

from __future__ import annotations

import os
import time as clock
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from crosslearning.convex.families import REGISTRY
from crosslearning.convex.residuals import Residuals
from crosslearning.tables.checks import (
    Checks,
    RowSummary,
    baseline_score,
    check_intervals,
    check_trials,
)
from crosslearning.tables.columns.recognition import require_columns
from crosslearning.tables.describe import with_findings
from crosslearning.tables.describe_models import Fit
from crosslearning.tables.differences import coefficient_table
from crosslearning.tables.effects import effects
from crosslearning.tables.engines import Collected, Engine
from crosslearning.tables.final import FromRows, FromSums, HeldOutScores, unscored
from crosslearning.tables.findings import Holdout, PartialEffect
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
from crosslearning.tables.reading.files import Files
from crosslearning.tables.rows import Rows, Splits
from crosslearning.tables.schema import Schema
from crosslearning.tables.scoring import Score, Scorer
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
    work = _Work(engine, schema, progress)
    _check_held_out(held_out, schema)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about models that may not be chosen
        compared = work.compared(started + settings.time_budget)
    trials, final = compared.trials, compared.final
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        progress(f"Fitting the best model, {trials.chosen.label}, on all rows", 1.0)
        model = work.model(compared)
        scores, holdout, notes = _held_out_scores(model, compared, schema, held_out)
        described, sharing = final.model(trials.described), final.model(trials.spreading)
    record = Fit(
        model=model,
        schema=schema,
        trials=trials,
        words=schema.words,
        rows=compared.rows,
        checks=compared.checks,
        effects=compared.effects(model, schema.survey.sample),
        estimator=described,
        sharing=sharing,
        held_out=scores,
        holdout=holdout,
        notes=[*engine.table.notes, *schema.notes, *compared.notes, *notes],
        command=command,
        python=settings.python(
            engine.function, engine.table.source, held_out, trials.described.label
        ),
        seconds=clock.monotonic() - started,
    )
    return with_findings(record, caught)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Compared:
    """Models compared on held-out rows, how the best are fitted to all rows, and checks of it."""

    trials: Trials
    final: FromRows | FromSums
    rows: RowSummary
    residuals: Residuals | None
    checks: Checks
    notes: list[str]
    rotation: Rotation | None = None

    def effects(self, model: TableModel, sample: pd.DataFrame) -> tuple[PartialEffect, ...]:
        """Return partial effects of columns, unless these are too many."""
        return () if self.rotation else effects(model, sample, self.rows.constant)


@dataclass(frozen=True, eq=False)
class _Work:
    """What a table holds, who goes over its rows, and what to do with them."""

    engine: Engine
    schema: Schema
    progress: Progress

    def compared(self, moment: float) -> _Compared:
        """Compare all models that there is time for until a moment."""
        collected = self.engine.collect(self.schema)
        if not len(collected.ends):
            weights = self.schema.settings.weights
            raise ValueError(f"The weights in {weights!r} must not all be 0.")
        if self.schema.summed_by_fold:
            return self._by_sums(collected)
        return self._by_rows(collected, moment if self.schema.complete else np.inf)

    def _by_sums(self, collected: Collected) -> _Compared:
        """Compare linear models of normal targets by sums of all rows."""
        schema, names = self.schema, self.schema.encoder.feature_names
        linear = self._linear(schema.n_features)
        trials, predictions, baseline, tasks = compare_by_sums(
            linear, collected, schema.parts, lambda text: self.progress(text, 0.5)
        )
        labels, rng = schema.labels[tasks].tolist(), np.random.default_rng(schema.settings.seed)
        residuals, checks = check_intervals(predictions[trials.chosen.name], labels, rng)
        total = collected.sums.total()
        rows = RowSummary.of_sums(total, names, baseline, tasks)
        return _Compared(
            trials=trials,
            final=FromSums(self.engine, schema, trials, total, collected.ends, schema.labels),
            rows=rows,
            residuals=residuals,
            checks=checks,
            notes=rows.notes,
        )

    def _by_rows(self, collected: Collected, moment: float) -> _Compared:
        """Compare models on rows in memory: linear ones unless these are all rows."""
        schema, settings = self.schema, self.schema.settings
        rows, splits, tasks = schema.rows_of(collected.kept)
        rotation = Rotation.of(rows.X) if schema.complete else None
        if rotation is not None:
            rows = replace(rows, X=rotation.apply(rows.X))
        base = settings.base if schema.complete and rotation is None else "linear"
        search = self._search(rows, splits, base, moment)
        self._try(search, self._linear(rows.X.shape[1], rotated=rotation is not None))
        trials, spaces = search.finish(), search.validation.spaces
        labels = schema.labels[tasks]
        residuals, checks = check_trials(
            trials, rows, search.splits, labels.tolist(), settings.seed
        )
        notes = [*splits.notes(settings.folds), *spaces.notes, *search.notes]
        notes += [*trials.notes, *checks.notes]
        if schema.complete:
            if rotation is not None and settings.base != "linear":
                notes.append("only linear models of principal axes were tried: features are many")
            names = schema.encoder.feature_names if rotation is None else []
            summary = RowSummary.of_rows(rows, search.splits, schema.metric, names)
            final: FromRows | FromSums = FromRows(spaces, trials, labels)
        else:
            total, baseline = collected.sums.total(), baseline_score(rows, splits, schema.metric)
            names = schema.encoder.feature_names
            summary = RowSummary.of_sums(total, names, baseline, tasks)
            final = FromSums(self.engine, schema, trials, total, collected.ends, schema.labels)
            notes += summary.notes
        return _Compared(
            trials=trials,
            final=final,
            rows=summary,
            residuals=residuals,
            checks=checks,
            notes=notes,
            rotation=rotation,
        )

    def _search(self, rows: Rows, splits: Splits, base: str, moment: float) -> CandidateSearch:
        schema, settings = self.schema, self.schema.settings
        slow = schema.target.family == "gamma" and not settings.single_family
        family = "gaussian" if slow else schema.target.family
        return CandidateSearch(
            Spaces(rows, splits, base, family, settings.seed),
            splits,
            schema.metric,
            seed=settings.seed,
            # A bound applies to a single model, and weights of a blend are those of means.
            blend=self.schema.complete and settings.epsilon == np.inf and settings.level is None,
            moment=moment,
            jobs=settings.jobs,
            progress=self.progress,
        )

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

    def _try(self, search: CandidateSearch, linear: list[Candidate]) -> None:
        """Try linear models, then others whose features help, or that are wanted."""
        settings, spaces = self.schema.settings, search.validation.spaces
        n_scores = spaces.n_scores
        others = self._completed(
            based(self.schema.target.kind, spaces.family, spaces.blocks, settings.epsilon, n_scores)
        )
        alone = trees(settings.epsilon) if spaces.trees else []
        search.first(linear[0])
        search.more([*alone, *linear[1:]], share=(0.1, 0.5))
        on_means = [c for c in others if "means" in BLOCKS[c.base]]
        if on_means and not search.worth(on_means, spaces.means_help):
            others = [c for c in others if c not in on_means]
        search.more(others, share=(0.5, 1.0))

    def model(self, compared: _Compared) -> TableModel:
        """Fit the chosen model to all rows."""
        schema, trials = self.schema, compared.trials
        described = compared.final.model(trials.described)
        return TableModel(
            task=schema.settings.task[-1],
            levels=schema.levels,
            target=schema.target.name,
            metric=schema.metric.name,
            encoder=schema.encoder,
            rotation=compared.rotation,
            state=compared.final.state(trials.parts),
            residuals=compared.residuals,
            coefficients=coefficient_table(
                described, schema.encoder.feature_names, compared.rotation
            ),
            horizon=schema.horizon,
        )


def _check_held_out(held_out: HeldOut | None, schema: Schema) -> None:
    """Refuse a held-out table before anything is fitted."""
    if held_out is None:
        return
    if isinstance(held_out, pd.DataFrame):
        columns = held_out.columns
        if not schema.complete:
            raise ValueError("A table that is read in chunks needs a path as its held-out table.")
    else:
        columns = pd.Index(Files.of(str(held_out)).types)
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
    model: TableModel, compared: _Compared, schema: Schema, held_out: HeldOut | None
) -> tuple[HeldOutScores | None, Holdout | None, list[str]]:
    """Score models on another table: all of them, or the chosen one if it is read in chunks."""
    if held_out is None:
        return None, None, []
    weights, scores, holdout = schema.settings.weights, None, None
    if isinstance(held_out, pd.DataFrame):
        assert isinstance(compared.final, FromRows)
        columns = list(held_out.columns)
        scores = compared.final.held_out_scores(model, schema.metric, held_out, weights)
    else:
        files = Files.of(str(held_out), text=model.text_columns)
        columns, score = list(files.types), _scored(model, files, weights)
        holdout = Holdout(rows=score.rows, scores={compared.trials.chosen.name: score.score})
    lacking = weights is not None and weights not in columns
    note = f"the held-out table has no column {weights}: its rows have equal weights"
    return scores, holdout, [note] if lacking else []


def _scored(model: TableModel, files: Files, weights: str | None) -> Score:
    """Score a model on files, chunk by chunk."""
    columns = [*model.task_columns, model.target, *model.encoder.columns]
    scorer = Scorer(model, weights)
    columns += [weights] if weights in files.types else []
    for _ in files.each(columns, lambda _, frame: scorer.add(frame)):
        pass
    if scorer.score is None or not scorer.weights.any():
        raise unscored(scorer.metric, scorer.rows)
    return scorer.score
