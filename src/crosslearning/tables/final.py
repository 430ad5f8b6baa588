"""The models that are kept, fitted to all rows: from rows in memory, from sums, or by passes."""

from dataclasses import replace
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
from crosslearning.tables.checks import baseline_predictions
from crosslearning.tables.columns.recognition import require_columns
from crosslearning.tables.engines import Engine
from crosslearning.tables.forecast import blend, is_in_fit
from crosslearning.tables.learners.candidates import SEPARATE_TREES, Candidate
from crosslearning.tables.learners.spaces import Spaces
from crosslearning.tables.learners.trials import Choice, Trials, over_tasks
from crosslearning.tables.metrics import Metric, plain_of
from crosslearning.tables.model import TableModel
from crosslearning.tables.rows import bounded, bounds_of, fitted
from crosslearning.tables.schema import Schema
from crosslearning.tables.scoring import predict_targets
from crosslearning.tasks.labels import as_objects

_LEARNED = 2**14  # tasks that are enough for variances


class HeldOutScores(NamedTuple):
    """Trials whose scores decide the verdict; their tasks, rows, score of a guess, and words."""

    trials: Trials
    labels: NDArray[Any]
    counts: NDArray[np.int64]
    baseline: float
    words: str


def unscored(metric: Metric, n_rows: int) -> ValueError:
    """Say that a held-out table has nothing to score by."""
    why, remedy = "", ""
    if n_rows:
        why, remedy = ", and perhaps too few classes", ", or choose another metric"
    return ValueError(
        f"No task of the held-out table can be scored by {metric.words}: it has "
        f"{count(n_rows, 'row')} with a target{why}. Hold out another table{remedy}."
    )


def _state(model: Any) -> dict[str, Any]:
    """Return what predictions need."""
    state = state_of(model)
    state["fitted"].pop("calibration_", None)  # intervals use the errors of held-out rows
    return state


class FromSums:
    """Linear models fitted to sums of all rows, or by passes over them, each once."""

    def __init__(
        self,
        engine: Engine,
        schema: Schema,
        trials: Trials,
        total: Statistics,
        ends: NDArray[np.float64],
        labels: NDArray[Any],
    ) -> None:
        self.engine, self.schema, self.trials = engine, schema, trials
        self.total, self.ends, self.labels = total, ends, labels
        self._fitted: dict[str, Any] = {}

    def model(self, candidate: Candidate) -> Any:
        """Fit on all rows."""
        if candidate.name not in self._fitted:
            model, schema = clone(candidate.estimator), self.schema
            if isinstance(model, CrossBayesianRidge):
                tasks = schema.levels.numbers if schema.levels and candidate.nested else None
                model.fit_statistics(self.total, tasks=tasks, learn_from=_LEARNED)
            else:
                counts = isinstance(model, CrossBayesianGLM)
                about = self.ends.max() if counts else schema.classes
                over = partial(self.engine.pass_over, schema)
                model.fit_passes(self.total, over, about, learn_from=_LEARNED)
            model.tasks_ = self.labels
            if schema.classes is None:
                bounded(model, self.ends)
            self._fitted[candidate.name] = model
        return self._fitted[candidate.name]

    def state(self, weights: dict[str, float]) -> dict[str, Any]:
        """Return what predictions of the one model need."""
        (name,) = weights
        return _state(self.model(self.trials.named(name)))


class FromRows:
    """Models of all learners fitted to all rows in memory, each once."""

    def __init__(self, spaces: Spaces, trials: Trials, labels: NDArray[Any]) -> None:
        self.spaces, self.trials, self.labels = spaces, trials, labels
        self._fitted: dict[str, Any] = {}

    def model(self, candidate: Candidate) -> Any:
        """Fit on all rows."""
        name = candidate.name
        if name not in self._fitted:
            rows = self.spaces.of(candidate.base, None)
            how = {"nested": candidate.nested}
            self._fitted[name] = fitted(candidate.estimator, rows, self.labels, **how)
        return self._fitted[name]

    def _state(self, candidate: Candidate) -> dict[str, Any]:
        if candidate.estimator is not None:
            return _state(self.model(candidate))
        if candidate.name not in self._fitted:
            self._fitted[candidate.name] = self._trees(candidate)
        state: dict[str, Any] = self._fitted[candidate.name]
        return state

    def _trees(self, candidate: Candidate) -> dict[str, Any]:
        """Return trees of all rows, and what predictions by them need."""
        rows, boosting = self.spaces.rows, self.spaces.boosting
        sds, fitted = np.zeros(2), {"tasks_": self.labels, "structure_": "trees"}
        if rows.classes is not None:
            fitted["classes_"] = rows.classes
        else:
            fitted["bounds_"] = bounds_of(rows.counted)
            # Errors of trees that do not know the task are also those of new tasks.
            in_fit, new = (self.trials.sds[name] for name in (candidate.name, "pooled-trees"))
            sds = np.array([np.nanmean(in_fit), np.nanmean(new)])
        fitted["trees_"] = boosting.final(sds, with_task=candidate.end == "cross")
        return {"class": "Trees", "parameters": {"family": self.spaces.family}, "fitted": fitted}

    def state(self, weights: dict[str, float]) -> dict[str, Any]:
        """Return what predictions of a blend of models need."""
        used = [(c, weights[c.name]) for c in self.trials.candidates if c.name in weights]
        states = [self._state(c) for c, _ in used]
        bases = {c.base for c, _ in used if c.estimator is not None} - {"linear"}
        if not bases and len(used) == 1:
            return states[0]
        basis = self.spaces.final(bases) if bases else None
        seen = [basis.seen(c.base) if basis and c.base in bases else None for c, _ in used]
        parts = [(w, columns, one) for (_, w), columns, one in zip(used, seen, states, strict=True)]
        return blend(parts, basis)

    @property
    def _predictable(self) -> Trials:
        """The trials without trees of each task, which are not kept."""
        trials = self.trials
        kept = [c for c in trials.candidates if c is not SEPARATE_TREES]
        names = {c.name for c in kept}
        return replace(
            trials,
            candidates=kept,
            scores=trials.scores.of([c.name for c in kept]),
            plain=trials.plain.of([c.name for c in kept]),
            choices={k: one for k, one in trials.choices.items() if one.weights.keys() <= names},
        )

    def held_out_scores(
        self, model: TableModel, metric: Metric, frame: pd.DataFrame, weighted: str | None
    ) -> HeldOutScores:
        """Score all candidates on rows of another table; the choice stays as it is."""
        require_columns(frame, [model.target], "the target")
        labelled, rows = frame[frame[model.target].notna()].reset_index(drop=True), self.spaces.rows
        plain = plain_of(metric, rows.classes)
        trials = self._predictable
        weights_of = {name: {name: 1.0} for name in trials.names}
        weights_of |= {"blend": trials.choices["all"].weights} if "blend" in weights_of else {}
        weights_of |= {f"{name} choice": choice.weights for name, choice in trials.choices.items()}
        values = {}
        for name, parts in weights_of.items():
            predicting = replace(model, state=self.state(parts))
            y, predictions, codes, scored = predict_targets(predicting, labelled)
            new = ~is_in_fit(model.state, codes)
            names = model.written_labels(scored[new]).astype(object)
            strange, others = pd.factorize(names, use_na_sentinel=False)
            codes[new] = len(self.labels) + strange
            n_tasks = len(self.labels) + len(others)
            rows_scored = model.encoder.weights(scored, weighted), codes, n_tasks
            values[name] = [m.of_tasks(y, predictions, *rows_scored)[:1] for m in (metric, plain)]
        weights = np.bincount(codes, rows_scored[0], n_tasks).astype(np.float64)
        by_metric, by_plain = (
            Scores(trials.names, by_metric, weights[np.newaxis])
            for by_metric in np.stack([values[name] for name in trials.names], axis=1)
        )
        choices = {
            name: Choice(choice.weights, np.asarray(values[f"{name} choice"][0]))
            for name, choice in trials.choices.items()
        }
        if over_tasks(by_metric).max() == -np.inf:
            raise unscored(metric, len(y))
        guess, _ = metric.of_tasks(y, baseline_predictions(rows, len(y), metric), *rows_scored)
        return HeldOutScores(
            replace(trials, scores=by_metric, plain=by_plain, choices=choices, kept=trials.chosen),
            as_objects([*self.labels, *others]),
            np.bincount(codes, minlength=n_tasks),
            metric.reported(float(np.nanmean(guess))),
            f"on the {count(len(y), 'row')} of the held-out table",
        )
