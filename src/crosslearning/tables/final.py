"""The models of all rows, and what is kept of them."""

from collections.abc import Container
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crosslearning.evaluation.numbers import count
from crosslearning.evaluation.scores import Scores
from crosslearning.linear.persistence import state_of
from crosslearning.tables.columns.labels import tidy
from crosslearning.tables.columns.schema import require_columns
from crosslearning.tables.facts import guessed
from crosslearning.tables.forecast import blend
from crosslearning.tables.learners.candidates import SEPARATE_TREES, Candidate
from crosslearning.tables.learners.spaces import Spaces
from crosslearning.tables.learners.trials import Choice, Trials, over_tasks
from crosslearning.tables.metrics import Metric, plain_of, said_of, weights_of
from crosslearning.tables.model import TableModel
from crosslearning.tables.rows import fitted
from crosslearning.tasks.estimators import as_objects


def state_to_keep(model: Any) -> dict[str, Any]:
    """Return what predictions need."""
    state = state_of(model)
    state["fitted"].pop("calibration_", None)  # intervals use the errors of held-out rows
    return state


def unweighted(weights: str | None, held_out: Container[str] | None) -> list[str]:
    """Say that a held-out table, or its columns, lacks the weights."""
    if weights is None or held_out is None or weights in held_out:
        return []
    return [f"the held-out table has no column {weights}: its rows have equal weights"]


def unscored(metric: Metric, n_rows: int) -> ValueError:
    """Say that a held-out table has nothing to score by."""
    return ValueError(
        f"No task of the held-out table can be scored by {metric.words}: it has "
        f"{count(n_rows, 'row')} with a target{', and perhaps too few classes' * bool(n_rows)}. "
        f"Hold out another table{', or choose another metric' * bool(n_rows)}."
    )


class Judge(NamedTuple):
    """Trials whose scores decide what is said; their tasks, rows, score of a guess, and words."""

    trials: Trials
    labels: NDArray[Any]
    counts: NDArray[np.int64]
    baseline: float
    words: str


class Final:
    """Models of all rows, each fitted once."""

    def __init__(self, spaces: Spaces, trials: Trials, labels: NDArray[Any]) -> None:
        self.spaces, self.trials, self.labels = spaces, trials, labels
        self._known: dict[str, Any] = {}

    def model(self, candidate: Candidate) -> Any:
        """Fit on all rows."""
        name = candidate.name
        if name not in self._known:
            rows = self.spaces.of(candidate.base, None)
            self._known[name] = fitted(candidate.estimator, rows, self.labels)
        return self._known[name]

    def state(self, weights: dict[str, float]) -> dict[str, Any]:
        """Return what predictions of a blend of models need."""
        used = [(c, weights[c.name]) for c in self.trials.candidates if c.name in weights]
        states = [state_to_keep(self.model(c)) for c, _ in used]
        bases = {c.base for c, _ in used} - {"linear"}
        if not bases and len(used) == 1:
            return states[0]
        basis = self.spaces.final(bases) if bases else None
        seen = [None if c.base == "linear" else basis and basis.seen(c.base) for c, _ in used]
        parts = [(w, columns, own) for (_, w), columns, own in zip(used, seen, states, strict=True)]
        return blend(parts, basis)

    @property
    def _predictable(self) -> Trials:
        """The trials without trees of each task, which are not kept."""
        trials = self.trials
        kept = [c for c in trials.candidates if c.base != SEPARATE_TREES.base]
        names = {c.name for c in kept}
        return replace(
            trials,
            candidates=kept,
            scores=trials.scores.of([c.name for c in kept]),
            plain=trials.plain.of([c.name for c in kept]),
            choices={k: one for k, one in trials.choices.items() if one.weights.keys() <= names},
        )

    def judged(
        self, model: TableModel, metric: Metric, frame: pd.DataFrame, weighted: str | None
    ) -> Judge:
        """Score all candidates on rows of another table; the choice stays as it is."""
        require_columns(frame, [model.target], "the target")
        known, rows = frame[frame[model.target].notna()].reset_index(drop=True), self.spaces.rows
        plain = plain_of(metric, rows.classes)
        trials = self._predictable
        asked = {name: {name: 1.0} for name in trials.names}
        asked |= {"blend": trials.choices["all"].weights} if "blend" in asked else {}
        asked |= {f"{name} choice": choice.weights for name, choice in trials.choices.items()}
        values = {}
        for name, parts in asked.items():
            predicting = replace(model, state=self.state(parts))
            y, said, codes, scored = said_of(predicting, known)
            new = tidy(scored.loc[codes < 0, model.task]).astype(object)
            strange, others = pd.factorize(new, use_na_sentinel=False)
            codes[codes < 0] = len(self.labels) + strange
            n_tasks = len(self.labels) + len(others)
            given = weights_of(scored, weighted, model.encoder.marks), codes, n_tasks
            values[name] = [own.of_tasks(y, said, *given)[:1] for own in (metric, plain)]
        weights = np.bincount(codes, given[0], n_tasks).astype(np.float64)
        by_metric, by_plain = (
            Scores(trials.names, own, weights[np.newaxis])
            for own in np.stack([values[name] for name in trials.names], axis=1)
        )
        choices = {
            name: Choice(choice.weights, np.asarray(values[f"{name} choice"][0]))
            for name, choice in trials.choices.items()
        }
        if over_tasks(by_metric).max() == -np.inf:
            raise unscored(metric, len(y))
        guess, _ = metric.of_tasks(y, guessed(rows, len(y), metric), *given)
        return Judge(
            replace(trials, scores=by_metric, plain=by_plain, choices=choices, kept=trials.chosen),
            as_objects([*self.labels, *others]),
            np.bincount(codes, minlength=n_tasks),
            metric.shown(float(np.nanmean(guess))),
            f"on the {count(len(y), 'row')} of the held-out table",
        )
