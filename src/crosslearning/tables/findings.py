"""What was found in a table: records of what ``results.json`` holds.

Errors are positive, but in a comparison greater is better. None stands for what is undefined.
"""

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
    """The metric, by which models are chosen, and its value for a baseline and for the choice.

    `error` says what the errors of models are: in units of the target, or the percentage correct.
    """

    metric: str
    name: str
    greater_is_better: bool
    baseline: float | None
    nested: float | None
    explanation: str
    error: str


@dataclass(frozen=True, kw_only=True)
class ModelScore:
    """A model that was tried, its typical error, and how much worse it is than the chosen one.

    `kind` is an end. A model that is not `kept`, since it obeys no bound, is only compared with.
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
    """The model that is kept, its parts if it is a blend, and whether one knows `task_means`."""

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
    """What the comparison says of sharing: its gain over the choice at the end `against`.

    The gain is paired over `n_tasks`: it is positive for `helped`, negative for `hurt` of them.
    `labels` name the choices by method.
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
    """A standard deviation between tasks with its 95 % interval, of their level or of effects.

    Effects are those of one standard deviation of each of some columns; `center` is the first's.
    """

    what: str
    columns: tuple[str, ...] = ()
    sd: float
    low: float | None
    high: float | None
    center: float | None = None


@dataclass(frozen=True, kw_only=True)
class LevelDifferences:
    """How much tasks or groups, by a column of this name, differ in their `level` and elsewhere.

    `shown` are the differences that are not 0, the largest first after that of the level.
    """

    name: str
    units: int
    level: Difference
    shown: tuple[Difference, ...]


@dataclass(frozen=True, kw_only=True)
class TaskDifferences:
    """How much groups of tasks, outermost first, and tasks differ, in `unit`.

    `noise` is the standard deviation within tasks. If the unit is a logarithm, `factor` is that of
    one standard deviation of the level of tasks.
    """

    levels: tuple[LevelDifferences, ...]
    noise: float | None
    unit: str
    factor: float | None


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
    """A coefficient of the centre, its standard error and 95 % interval, in units of the table.

    `between` has a standard deviation and its 95 % interval by level, as in `differences`.
    """

    feature: str
    class_: Label = None
    estimate: float | None
    std_error: float | None
    low: float | None
    high: float | None
    between: tuple[tuple[float | None, ...], ...]


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
    """How findings came about, from rows of which some were `dropped`: without task or target."""

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
    `epsilon`. The `center` is that of the model whose `differences` are described, its intercept
    last. `python` repeats the fit.
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
    center: tuple[CenterCoefficient, ...] = ()
    constant_within_tasks: tuple[str, ...]
    epsilon: float | None = None
    effects: tuple[PartialEffect, ...]
    calibration: tuple[Coverage, ...] = ()
    predicted: tuple[Prediction, ...] = ()
    reliability: Reliability | None = None
