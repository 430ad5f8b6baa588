"""What was found in a table: records of what ``results.json`` holds.

Errors are positive, but in a comparison, where greater is better. None stands for what is
undefined, such as the score of a task without held-out rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from crosslearning.convex.predict import Coverage
from crosslearning.evaluation.comparison import Comparison, Effect, Remark
from crosslearning.evaluation.scores import Reliability

VERSION = 5
Label: TypeAlias = Any  # of a task, class or level: text, a number or a boolean
Numbers: TypeAlias = tuple[float, ...]


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
    """The metric, by which models are chosen, and its value for a baseline and for the choice.

    `rows` says on which rows, and `error` what the errors of models are: in units of the target, or
    the percentage that is correct.
    """

    metric: str
    name: str
    greater_is_better: bool
    baseline: float | None
    nested: float | None
    rows: str
    explanation: str
    error: str


@dataclass(frozen=True, kw_only=True)
class ModelScore:
    """A model that was tried, its typical error, and how much worse it is than the chosen one.

    `kind` is one of pooled, levels, cross and separate. One that is not `kept`, since it obeys no
    bound, is for comparison only.
    """

    name: str
    label: str
    kind: str
    score: float | None
    error: float | None
    standard_error: float | None
    difference: float | None
    difference_error: float | None
    seconds: float
    chosen: bool
    kept: bool = True


@dataclass(frozen=True)
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
    count the tasks, of `n_tasks`, for which the choice is better and worse. `labels` name the
    choices by method.
    """

    effect: Effect
    against: str
    gain: float | None
    standard_error: float | None
    helped: int
    hurt: int
    n_tasks: int
    labels: Mapping[str, str]


@dataclass(frozen=True)
class Holdout:
    """Rows of the held-out table, and the score of the chosen model on it."""

    rows: int
    score: float | None


@dataclass(frozen=True)
class TaskRow:
    """A task of the described model: rows, distance to the centre, and force of the bound."""

    task: Label
    rows: int
    distance: float | None
    force: float | None


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A standard deviation between tasks, and its 95 % interval if there is one.

    Of their level, or of the coefficient of each of some columns per standard deviation of the
    column; `center` is the coefficient of the first.
    """

    what: str
    columns: tuple[str, ...] = ()
    sd: float
    low: float | None
    high: float | None
    center: float | None = None


@dataclass(frozen=True, kw_only=True)
class LevelDifferences:
    """How much tasks, or groups of tasks, differ, by a column of this name.

    `shown` are the differences that are not 0, the largest first, after that of the level.
    """

    name: str
    units: int
    level: Difference
    shown: tuple[Difference, ...]


@dataclass(frozen=True, kw_only=True)
class TaskDifferences:
    """How much tasks differ, in `unit`: groups within groups, outermost first, and tasks last.

    `noise` is the standard deviation within tasks, if the target has one. `factor` is that of one
    standard deviation of the level of tasks if the unit is a logarithm.
    """

    levels: tuple[LevelDifferences, ...]
    noise: float | None
    unit: str
    factor: float | None


@dataclass(frozen=True, kw_only=True)
class Predictor:
    """Standardised coefficients by feature, in the centre and in each task; those of a class.

    Intercepts are those at the means of the features.
    """

    class_: Label = None
    center: Numbers
    tasks: tuple[Numbers, ...]
    center_intercept: float
    intercepts: Numbers


@dataclass(frozen=True, kw_only=True)
class Coefficients:
    """Parameters of the described model: of numbers and of two classes, there is one predictor."""

    features: tuple[str, ...]
    predictors: tuple[Predictor, ...]


@dataclass(frozen=True, kw_only=True)
class CenterCoefficient:
    """A coefficient of the centre, its standard error and 95 % interval, in units of the table.

    `between` has a standard deviation and its 95 % interval for each level, None if unknown.
    """

    feature: str
    class_: Label = None
    estimate: float | None
    std_error: float | None
    low: float | None
    high: float | None
    between: tuple[tuple[float | None, ...], ...]


@dataclass(frozen=True, kw_only=True)
class CenterSummary:
    """Coefficients of the centre of the model whose differences are described, the intercept last.

    `levels` are what tasks differ by: their column, or those of groups within groups.
    """

    levels: tuple[str, ...]
    coefficients: tuple[CenterCoefficient, ...]


@dataclass(frozen=True, kw_only=True)
class PartialEffect:
    """Mean predictions for a grid of values of a column, in the centre and in some tasks.

    `what` is predicted; `probability` says whether it is one. `lines` are those of the tasks.
    """

    feature: str
    what: str
    probability: bool
    grid: tuple[Label, ...]
    center: Numbers
    tasks: tuple[Label, ...]
    lines: tuple[Numbers, ...]


@dataclass(frozen=True)
class Prediction:
    """A held-out row."""

    actual: float
    predicted: float
    task: Label


@dataclass(frozen=True)
class UsedColumn:
    """A column that is learned from."""

    name: str
    type: str
    levels: int
    missing: int


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """How findings came about; rows without a task or target were `dropped`."""

    command: str
    seed: int
    seconds: float
    dropped: int
    versions: Mapping[str, str]
    fingerprint: str
    columns: tuple[UsedColumn, ...]


@dataclass(frozen=True, kw_only=True)
class Findings:
    """All that was found in a table.

    `comparison` has the choice among all models as "cross", and those among pooled and among
    separate models; of very many tasks it lists some, as `tasks` and `coefficients` do, which are
    those of the described model. `epsilon` is its bound, if there is one. `python` repeats the fit.
    """

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
    python: str
    provenance: Provenance
    sentence: str
    beyond_linear: str | None
    remarks: tuple[Remark, ...]
    size: Size
    score: Score
    models: tuple[ModelScore, ...]
    chosen_model: ChosenModel
    described_model: str
    verdict: Verdict
    comparison: Comparison
    holdout: Holdout | None = None
    differences: TaskDifferences
    tasks: tuple[TaskRow, ...]
    coefficients: Coefficients
    center: CenterSummary | None = None
    constant_within_tasks: tuple[str, ...]
    epsilon: float | None = None
    effects: tuple[PartialEffect, ...]
    calibration: tuple[Coverage, ...] = ()
    predicted: tuple[Prediction, ...] = ()
    reliability: Reliability | None = None
