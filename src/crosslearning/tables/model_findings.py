"""What a fitted model says of tasks, columns and held-out rows: parts of the findings.

Only the standard library is imported, so that stored models predict at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

Label: TypeAlias = Any  # of a task, class or level: text, a number or a boolean
Numbers: TypeAlias = tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class TaskRow:
    """A task: rows, distance to the centre and force of the bound, by block of parameters."""

    task: Label
    rows: int
    distance: Mapping[str, float | None]
    force: Mapping[str, float | None]


@dataclass(frozen=True, kw_only=True)
class Bound:
    """The largest distance to the centre."""

    epsilon: float


@dataclass(frozen=True, kw_only=True)
class Deviation:
    """A standard deviation between tasks, and its 95 % interval if there is one."""

    sd: float
    low: float | None
    high: float | None


@dataclass(frozen=True, kw_only=True)
class Noise:
    """The standard deviation within tasks, if the target has one."""

    sd: float | None


@dataclass(frozen=True, kw_only=True)
class FeatureSpread:
    """How much tasks differ in the coefficient of a feature."""

    feature: str
    sd: float
    low: float | None
    high: float | None
    center: float
    unit: str


@dataclass(frozen=True, kw_only=True)
class SpreadRow:
    """How much tasks differ in their level, or in the coefficient of each of some columns.

    Of columns, it repeats the record of the first feature.
    """

    what: str
    columns: tuple[str, ...]
    feature: str | None = None
    sd: float
    low: float | None
    high: float | None
    center: float | None = None
    unit: str | None = None


@dataclass(frozen=True, kw_only=True)
class Spread:
    """How much tasks differ, in `unit`; `shown` has the largest differences first.

    `factor` is that of one standard deviation of the level if the unit is a logarithm.
    """

    level: Deviation
    noise: Noise
    features: tuple[FeatureSpread, ...]
    shown: tuple[SpreadRow, ...]
    unit: str
    factor: float | None
    epsilon: float | None


@dataclass(frozen=True, kw_only=True)
class Intercept:
    """Intercepts at the means of the features, in the centre and in each task."""

    center: float
    tasks: Numbers


@dataclass(frozen=True, kw_only=True)
class Predictor:
    """Standardised coefficients by feature, in the centre and in each task; those of a class."""

    class_: Label = None
    center: Numbers
    tasks: tuple[Numbers, ...]
    intercept: Intercept


@dataclass(frozen=True, kw_only=True)
class Coefficients:
    """Parameters of the described model: of numbers and of two classes, there is one predictor."""

    features: tuple[str, ...]
    predictors: tuple[Predictor, ...]


@dataclass(frozen=True, kw_only=True)
class Map:
    """Places of tasks in a plane around the centre, and the share of distances that it shows."""

    tasks: tuple[Numbers, ...]
    explained: float


@dataclass(frozen=True, kw_only=True)
class TaskEffect:
    """Mean predictions of a task for the values of a grid."""

    task: Label
    values: Numbers


@dataclass(frozen=True, kw_only=True)
class PartialEffect:
    """Mean predictions for the values of a column, in the centre and in some tasks.

    `what` is predicted; `probability` says whether it is one.
    """

    feature: str
    what: str
    probability: bool
    grid: tuple[Label, ...]
    center: Numbers
    tasks: tuple[TaskEffect, ...]


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """Nominal and observed coverage of intervals on held-out rows."""

    nominal: float
    observed: float


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """A held-out row."""

    actual: float
    predicted: float
    task: Label


@dataclass(frozen=True, kw_only=True)
class ReliabilityBin:
    """Predicted probabilities and observed frequency, with its 95 % interval, of `count` rows."""

    predicted: float
    observed: float
    low: float
    high: float
    count: int


@dataclass(frozen=True, kw_only=True)
class Reliability:
    """Probabilities of a class, or of the predicted one, and their mean error, `off`."""

    class_: Label
    bins: tuple[ReliabilityBin, ...]
    off: float
