"""The models of all rows, and what is kept of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone

from crosslearning.linear import CrossBayesianRidge
from crosslearning.linear.persistence import state_of
from crosslearning.tables._basis import BLOCKS
from crosslearning.tables._spaces import Spaces
from crosslearning.tables.candidates import Candidate
from crosslearning.tables.forecast import blend
from crosslearning.tables.metrics import Scorer
from crosslearning.tables.model import TableModel
from crosslearning.tables.rows import Rows, fitted
from crosslearning.tables.schema import require_columns
from crosslearning.tables.trials import Trials

_MANY_ROWS = 200_000  # beyond which sums stand for the rows


def state_to_keep(model: Any) -> dict[str, Any]:
    """Return what predictions need."""
    state = state_of(model)
    state["fitted"].pop("calibration_", None)  # errors of rows left out serve for all models
    return state


class Final:
    """Models of all rows, each fitted once."""

    def __init__(self, spaces: Spaces, trials: Trials, labels: NDArray[Any]) -> None:
        self.spaces, self.trials, self.labels = spaces, trials, labels
        self._known: dict[str, Any] = {}

    def model(self, candidate: Candidate) -> Any:
        """Fit on all rows; from sums where rows are many."""
        if candidate.name not in self._known:
            rows = self.spaces.of(candidate.base, None)
            self._known[candidate.name] = self._fitted(candidate.estimator, rows)
        return self._known[candidate.name]

    def _fitted(self, estimator: Any, rows: Rows) -> Any:
        if not isinstance(estimator, CrossBayesianRidge) or len(rows.y) <= _MANY_ROWS:
            return fitted(estimator, rows, self.labels[rows.codes])
        model = clone(estimator).fit_statistics(rows.sums())
        model.tasks_ = self.labels
        return model

    def state(self, weights: dict[str, float]) -> dict[str, Any]:
        """Return what predictions of a blend of models need."""
        by_name = {c.name: c for c in self.trials.candidates}
        used = {by_name[name]: weight for name, weight in weights.items()}
        if [c.base for c in used] == ["linear"]:
            return state_to_keep(self.model(next(iter(used))))
        trees = any("stacked" in BLOCKS.get(c.base, ()) for c in used)
        curved = any(c.base != "linear" for c in used)
        basis = self.spaces.final(trees=trees) if curved else None
        parts = [
            (
                weight,
                None if c.base == "linear" or basis is None else basis.seen(c.base),
                state_to_keep(self.model(c)),
            )
            for c, weight in used.items()
        ]
        return blend(parts, basis)

    def scored(self, model: TableModel, frame: pd.DataFrame) -> dict[str, Any]:
        """Score all candidates on rows of another table."""
        require_columns(frame, [model.target], "the target")
        known = frame[frame[model.target].notna()]
        scores = {}
        for name in self.trials.names:
            state = self.state(self.trials.weights if name == "blend" else {name: 1.0})
            scorer = Scorer(replace(model, state=state))
            scorer.add(known)
            scores[name] = scorer.score["score"]
        return {"rows": len(known), "scores": scores}
