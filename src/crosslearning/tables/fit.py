"""What a fit leaves to be described."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from crosslearning.evaluation.sentences import Measure
from crosslearning.tables.checks import Checks
from crosslearning.tables.columns.features import Features
from crosslearning.tables.columns.target import Target
from crosslearning.tables.facts import Facts
from crosslearning.tables.final import Judge
from crosslearning.tables.findings import Holdout
from crosslearning.tables.learners.trials import Trials
from crosslearning.tables.metrics import Metric, metric_of
from crosslearning.tables.model import TableModel
from crosslearning.tables.model_findings import PartialEffect


@dataclass(frozen=True, eq=False, kw_only=True)
class Fit:
    """A fit of a table; `estimator`, linear in the columns, is the one whose tasks are described.

    `words` say which rows models were scored on; `sharing` is the estimator that says how much
    tasks differ, if there is one; `held_out` has the scores of all models on another table,
    `holdout` those of some if it was read in chunks.
    """

    model: TableModel
    estimator: Any
    target: Target
    features: Features
    trials: Trials
    words: str
    facts: Facts
    settings: Mapping[str, Any]
    checks: Checks
    effects: tuple[PartialEffect, ...]
    sharing: Any = None
    held_out: Judge | None = None
    holdout: Holdout | None = None

    @property
    def judge(self) -> Judge:
        """The scores that decide the verdict: those on another table, or on held-out rows."""
        if self.held_out:
            return self.held_out
        among, counts = self.facts.compared, self.facts.counts
        labels = self.estimator.tasks_[among]
        return Judge(self.trials, labels, counts[among], self.facts.baseline, self.words)

    @property
    def metric(self) -> Metric:
        """What models were chosen by."""
        return metric_of(self.model.metric, self.target.kind, self.model.quantile)

    @property
    def measure(self) -> Measure:
        """Its name in sentences."""
        return Measure(self.metric.words, percent=self.metric.name == "accuracy")

    @property
    def goal(self) -> str:
        """What is predicted, within a sentence."""
        predicts = self.model.predicts
        return predicts if self.model.quantile is None else f"the {predicts}"
