"""The models that were compared, and those that are kept, fitted to all rows."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone

from crosslearning.convex.sums.statistics import Statistics
from crosslearning.evaluation.numbers import count
from crosslearning.evaluation.scores import Scores
from crosslearning.linear import CrossBayesianGLM, CrossBayesianRidge
from crosslearning.linear.persistence import state_of
from crosslearning.tables.checks import Checks, RowSummary, baseline_predictions
from crosslearning.tables.differences import coefficient_table
from crosslearning.tables.engines import Engine
from crosslearning.tables.forecast import blend, is_in_fit, predictions, targets_of
from crosslearning.tables.learners.candidates import Candidate
from crosslearning.tables.learners.features import Rotation
from crosslearning.tables.learners.spaces import Spaces
from crosslearning.tables.learners.trials import Choice, Trials, over_tasks
from crosslearning.tables.metrics import Metric, Predictions, plain_of
from crosslearning.tables.model import TableModel
from crosslearning.tables.rows import bounded, bounds_of, fitted
from crosslearning.tables.schema import Schema
from crosslearning.tasks.labels import as_objects

_LEARNED = 2**14  # tasks that are enough for variances


class Scored(NamedTuple):
    """Trials whose scores decide the verdict; their tasks, rows, score of a guess, and words."""

    trials: Trials
    labels: NDArray[Any]
    counts: NDArray[np.int64]
    baseline: float
    words: str


@dataclass(frozen=True, eq=False, kw_only=True)
class Compared:
    """Models compared on held-out rows, checks of the chosen one, and how to fit any to all rows.

    `fit` remembers what it fitted. `spaces` are there if all rows are in memory, and `rotation` if
    features are so many that models are those of their principal axes.
    """

    schema: Schema
    trials: Trials
    rows: RowSummary
    checks: Checks
    notes: list[str]
    fit: Callable[[Candidate], Any]
    spaces: Spaces | None = None
    rotation: Rotation | None = None

    @property
    def described(self) -> Any:
        """The estimator, linear in the columns, whose tasks are described."""
        return self.fit(self.trials.described)

    @property
    def sharing(self) -> Any:
        """The estimator that says how much tasks differ."""
        return self.fit(self.trials.spreading)

    @property
    def scored(self) -> Scored:
        """Scores on held-out rows."""
        some, rows, schema = self.rows.compared, self.rows, self.schema
        return Scored(
            self.trials, schema.labels[some], rows.counts[some], rows.baseline, schema.words
        )

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
            state=self.state(self.trials.parts),
            residuals=self.checks.residuals,
            coefficients=coefficient_table(self.described, names, self.rotation),
            horizon=schema.horizon,
        )

    def state(self, weights: dict[str, float]) -> dict[str, Any]:
        """Return what predictions of a model, or of a blend of several, need."""
        used = [(c, weights[c.name]) for c in self.trials.candidates if c.name in weights]
        states = [self._state(c) for c, _ in used]
        bases = {c.base for c, _ in used if c.estimator is not None} - {"linear"}
        if not bases and len(used) == 1:
            return states[0]
        assert self.spaces is not None  # which all but single linear models are fitted in
        basis = self.spaces.final(bases) if bases else None
        seen = [basis.seen(c.base) if basis and c.base in bases else None for c, _ in used]
        parts = [(w, columns, one) for (_, w), columns, one in zip(used, seen, states, strict=True)]
        return blend(parts, basis)

    def _state(self, candidate: Candidate) -> dict[str, Any]:
        if candidate.estimator is None:
            trees: dict[str, Any] = self.fit(candidate)
            return trees
        state = state_of(self.fit(candidate))
        state["fitted"].pop("calibration_", None)  # intervals use the errors of held-out rows
        return state

    def score_all(self, model: TableModel, frame: pd.DataFrame) -> Scored:
        """Score all candidates on rows of another table; the choice stays as it is."""
        assert self.spaces is not None
        rows, metric, trials = self.spaces.rows, self.schema.metric, self.trials
        y, X, codes, frame = targets_of(model, frame)
        new, tasks = ~is_in_fit(model.state, codes), codes.copy()
        names = model.written_labels(frame[new]).astype(object)
        numbers, others = pd.factorize(names, use_na_sentinel=False)
        labels = as_objects([*self.schema.labels, *others])
        tasks[new] = len(self.schema.labels) + numbers
        weights = model.encoder.weights(frame, self.schema.settings.weights)
        metrics = (metric, plain_of(metric, rows.classes))

        def scores(parts: dict[str, float]) -> list[NDArray[np.float64]]:
            shares = predictions(self.state(parts), X, codes)
            predicted = Predictions.of(shares, rows.classes)
            return [m.of_tasks(y, predicted, weights, tasks, len(labels))[0] for m in metrics]

        choices = {
            name: Choice(choice.weights, np.asarray(scores(choice.weights)[:1]))
            for name, choice in trials.choices.items()
        }
        blended = {"blend": trials.choices["all"].weights}
        values = np.stack([scores(blended.get(name, {name: 1.0})) for name in trials.names], axis=1)
        weight = np.bincount(tasks, weights, len(labels)).astype(np.float64)[np.newaxis]
        by_metric, plain = (Scores(trials.names, one[:, np.newaxis], weight) for one in values)
        if over_tasks(by_metric).max() == -np.inf:
            raise unscored(metric, len(y))
        guessed = baseline_predictions(rows, len(y), metric)
        guess, _ = metric.of_tasks(y, guessed, weights, tasks, len(labels))
        return Scored(
            replace(trials, scores=by_metric, plain=plain, choices=choices, kept=trials.chosen),
            labels,
            np.bincount(tasks, minlength=len(labels)),
            metric.reported(float(np.nanmean(guess))),
            f"on the {count(len(y), 'row')} of the held-out table",
        )


def unscored(metric: Metric, n_rows: int) -> ValueError:
    """Say that a held-out table has nothing to score by."""
    why, remedy = "", ""
    if n_rows:
        why, remedy = ", and perhaps too few classes", ", or choose another metric"
    return ValueError(
        f"No task of the held-out table can be scored by {metric.words}: it has "
        f"{count(n_rows, 'row')} with a target{why}. Hold out another table{remedy}."
    )


def fit_to_sums(
    engine: Engine, schema: Schema, total: Statistics, ends: NDArray[Any], candidate: Candidate
) -> Any:
    """Fit a linear model to sums of all rows, or by passes over them."""
    model = clone(candidate.estimator)
    if isinstance(model, CrossBayesianRidge):
        tasks = schema.levels.numbers if schema.levels and candidate.nested else None
        model.fit_statistics(total, tasks=tasks, learn_from=_LEARNED)
    else:
        about = ends.max() if isinstance(model, CrossBayesianGLM) else schema.classes
        model.fit_passes(total, partial(engine.pass_over, schema), about, learn_from=_LEARNED)
    model.tasks_ = schema.labels
    return model if schema.classes is not None else bounded(model, ends)


def fit_to_rows(spaces: Spaces, trials: Trials, labels: NDArray[Any], candidate: Candidate) -> Any:
    """Fit a linear model to all rows in memory; of trees, return what predictions need."""
    if candidate.estimator is not None:
        rows = spaces.of(candidate.base, None)
        return fitted(candidate.estimator, rows, labels, nested=candidate.nested)
    sds, attributes = np.zeros(2), {"tasks_": labels, "structure_": "trees"}
    if spaces.rows.classes is not None:
        attributes["classes_"] = spaces.rows.classes
    else:
        attributes["bounds_"] = bounds_of(spaces.rows.counted)
        # Errors of trees that do not know the task are also those of new tasks.
        in_fit, new = (trials.sds[name] for name in (candidate.name, "pooled-trees"))
        sds = np.array([np.nanmean(in_fit), np.nanmean(new)])
    attributes["trees_"] = spaces.boosting.final(sds, with_task=candidate.end == "cross")
    return {"class": "Trees", "parameters": {"family": spaces.family}, "fitted": attributes}
