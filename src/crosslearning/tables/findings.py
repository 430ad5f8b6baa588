"""What was found in a table: records of what ``results.json`` holds.

Errors are positive. None stands for what is undefined, such as the score of a task without
held-out rows. Only the standard library is imported, so that stored models predict at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from crosslearning.evaluation.effect import Effect
from crosslearning.tables.model_findings import (
    Bound,
    Coefficients,
    Coverage,
    Label,
    Map,
    PartialEffect,
    Prediction,
    Reliability,
    Spread,
    TaskRow,
)

VERSION = 3


@dataclass(frozen=True, kw_only=True)
class Remark:
    """A sentence with a lead."""

    lead: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Size:
    """Numbers of tasks, of those that were scored, and of rows; rows of a task."""

    tasks: int
    compared: int
    rows: int
    smallest: int
    largest: int


@dataclass(frozen=True, kw_only=True)
class Score:
    """The metric, by which models are chosen, and its value for a guess and for the choice.

    `rows` says on which rows.
    """

    metric: str
    name: str
    greater_is_better: bool
    baseline: float | None
    nested: float | None
    rows: str
    explanation: str


@dataclass(frozen=True, kw_only=True)
class ModelScore:
    """A model that was tried, and how much worse it is than the chosen one.

    `kind` is one of pooled, levels, cross and separate. If scores are those on another table,
    `folds` is the score in the folds.
    """

    name: str
    label: str
    kind: str
    score: float | None
    folds: float | None = None
    standard_error: float | None
    difference: float | None
    difference_error: float | None
    seconds: float
    chosen: bool


@dataclass(frozen=True, kw_only=True)
class Part:
    """A model in a blend."""

    name: str
    label: str
    weight: float


@dataclass(frozen=True, kw_only=True)
class ChosenModel:
    """The model that is kept, and its parts: itself, or those of a blend.

    `task_means` says whether a part knows the means that columns have in every task.
    """

    name: str
    label: str
    why: str
    parts: tuple[Part, ...]
    task_means: bool


@dataclass(frozen=True, kw_only=True)
class ModelError:
    """Typical error of a model."""

    name: str
    label: str
    value: float | None


@dataclass(frozen=True, kw_only=True)
class TypicalError:
    """Error of the chosen model, which comes first, and of the others, in units of the target.

    If `percent_correct`, values are percentages of predictions that are correct.
    """

    value: float | None
    unit: str
    rows: tuple[ModelError, ...]
    what: str
    percent_correct: bool


@dataclass(frozen=True, kw_only=True)
class Horizon:
    """How far ahead models were tested: column of times, reach, last moment, and kind of dates."""

    column: str
    date: bool
    reach: str
    until: float
    day_first: bool


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What comparing the choice among all models with that among models at one end says of sharing.

    `gain` is over the end `against`, with its standard error paired over tasks; `helped` and `hurt`
    count the tasks, of `n_tasks`, for which the choice is better and worse.
    """

    effect: Effect
    against: str
    gain: float | None
    standard_error: float | None
    helped: int
    hurt: int
    n_tasks: int


@dataclass(frozen=True, kw_only=True)
class MethodScore:
    """Score of a choice, and what the choice among all models gains over it."""

    method: str
    score: float | None
    gain: float | None
    standard_error: float | None
    helped: int
    hurt: int


@dataclass(frozen=True, kw_only=True)
class TaskScores:
    """Scores of a task: the choices among pooled, among separate and among all models."""

    task: Label
    rows: int
    pooled: float | None = None
    separate: float | None = None
    cross: float | None


@dataclass(frozen=True, kw_only=True)
class ComparisonSummary(Verdict):
    """A verdict, and the scores that it rests on; `labels` name the choices by method."""

    overall: tuple[MethodScore, ...]
    tasks: tuple[TaskScores, ...]
    labels: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class GainCount:
    """A bin of a histogram of gains; `gain` has the sign of its middle."""

    low: float
    high: float
    gain: float
    count: int


@dataclass(frozen=True, kw_only=True)
class Holdout:
    """Rows of the held-out table, and scores on it by name of the model."""

    rows: int
    scores: Mapping[str, float | None]


@dataclass(frozen=True, kw_only=True)
class UsedColumn:
    """A column that is learned from."""

    name: str
    type: str
    levels: int
    missing: int


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """How findings came about; `rows` without a task or target were `dropped`."""

    command: str
    seed: int
    seconds: float
    dropped: int
    versions: Mapping[str, str]
    fingerprint: str
    rows: int
    columns: tuple[UsedColumn, ...]


@dataclass(frozen=True, kw_only=True)
class About:
    """What was fitted, how, and what was noticed on the way."""

    kind: str
    version: int
    created: str
    title: str
    target: str
    task: str
    estimator: str
    target_kind: str
    target_rule: str
    family: str | None
    horizon: Horizon | None
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    command: str
    python: str
    provenance: Provenance


@dataclass(frozen=True, kw_only=True)
class TaskFindings:
    """The tasks of the described model; `chosen` has the bound by block, if there is one."""

    size: Size
    tasks: tuple[TaskRow, ...]
    spread: Spread | None
    coefficients: Coefficients
    constant_within_tasks: tuple[str, ...]
    map: Map
    chosen: Mapping[str, Bound] | None = None


@dataclass(frozen=True, kw_only=True)
class Findings(About, TaskFindings):
    """All that was found.

    Of very many tasks, `gain_counts` are those of all, and other records list some.
    """

    sentence: str
    beyond_linear: str | None
    remarks: tuple[Remark, ...]
    score: Score
    models: tuple[ModelScore, ...]
    chosen_model: ChosenModel
    described_model: str
    typical_error: TypicalError
    comparison: ComparisonSummary
    gain_counts: tuple[GainCount, ...] | None = None
    holdout: Holdout | None = None
    effects: tuple[PartialEffect, ...]
    calibration: tuple[Coverage, ...] = ()
    predicted: tuple[Prediction, ...] = ()
    reliability: Reliability | None = None

    @property
    def scored_on_holdout(self) -> bool:
        """Whether scores are those on another table; if that was read in chunks, they are not."""
        return self.models[0].folds is not None
