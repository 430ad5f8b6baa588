"""What was found in a table, as in ``results.json``: errors are positive, None is undefined."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from crosslearning.convex.predict import Coverage
from crosslearning.evaluation.comparison import Comparison, Effect, Remark
from crosslearning.evaluation.scores import Reliability

VERSION = 6
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
    """The metric, by which models are chosen, and its value for a baseline."""

    name: str
    greater_is_better: bool
    baseline: float | None
    explanation: str
    error: str  # what those of models are: in units of the target, or the percentage correct


@dataclass(frozen=True, kw_only=True)
class ModelScore:
    """A model that was tried, its typical error, and how much worse it is than the chosen one."""

    name: str
    label: str
    kind: str  # pooled, levels, cross or separate
    score: float | None
    error: float | None
    standard_error: float | None
    difference: float | None
    difference_error: float | None
    seconds: float
    chosen: bool
    kept: bool = True  # or only compared with, since it obeys no bound


@dataclass(frozen=True)
class Part:
    """A model in a blend."""

    name: str
    label: str
    weight: float


@dataclass(frozen=True, kw_only=True)
class ChosenModel:
    """The model that is kept, its parts, and whether one knows the means of columns in tasks."""

    name: str
    label: str
    why: str
    parts: tuple[Part, ...]  # of a blend, or the model itself
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
    """What the comparison says of sharing, by its gain over the choice at the end `against`."""

    effect: Effect
    against: str
    gain: float | None
    standard_error: float | None
    helped: int
    hurt: int
    n_tasks: int
    labels: Mapping[str, str]  # of the choices, by method


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
    """A standard deviation between tasks with its 95 % interval, of their level or of effects."""

    what: str
    columns: tuple[str, ...] = ()  # whose standardised effects differ alike
    sd: float
    low: float | None
    high: float | None
    center: float | None = None  # effect of the first column


@dataclass(frozen=True, kw_only=True)
class LevelDifferences:
    """How much tasks, or groups of tasks, differ, by a column of this name."""

    name: str
    units: int
    level: Difference
    shown: tuple[Difference, ...]  # those that are not 0, the largest first after the level


@dataclass(frozen=True, kw_only=True)
class TaskDifferences:
    """How much groups of tasks, outermost first, and tasks differ."""

    levels: tuple[LevelDifferences, ...]
    noise: float | None  # standard deviation within tasks
    unit: str
    factor: float | None  # of one standard deviation of the level, if the unit is a logarithm


@dataclass(frozen=True, kw_only=True)
class Predictor:
    """Standardised coefficients by feature, in the centre and each task, perhaps of a class."""

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
    """A coefficient of the centre, its standard error and 95 % interval, in units of the table."""

    feature: str
    class_: Label = None
    estimate: float | None
    std_error: float | None
    low: float | None
    high: float | None
    between: tuple[tuple[float | None, ...], ...]  # standard deviation and interval, by level


@dataclass(frozen=True, kw_only=True)
class PartialEffect:
    """Mean predictions of `what` for a grid of values of a column, in the centre and some tasks."""

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

    The `comparison` is of the choice among all models, "cross", with those among some. Of very many
    tasks, it lists some, as do `tasks` and `coefficients` of the described model, whose bound is
    `epsilon`. The `center` is that of the model whose `differences` are described.
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
    comparison: Comparison  # in which greater scores are better
    holdout: Holdout | None = None
    differences: TaskDifferences
    tasks: tuple[TaskRow, ...]
    coefficients: Coefficients
    center: tuple[CenterCoefficient, ...] = ()
    constant_within_tasks: tuple[str, ...]
    epsilon: float | None = None
    effects: tuple[PartialEffect, ...]
    calibration: tuple[Coverage, ...] = ()
    predicted: tuple[Prediction, ...] = ()
    reliability: Reliability | None = None
