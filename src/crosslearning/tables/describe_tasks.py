"""Which tasks are listed one by one, and what is found about them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning.evaluation.comparison import Comparison
from crosslearning.tables.facts import Facts
from crosslearning.tables.findings import (
    ComparisonSummary,
    GainCount,
    MethodScore,
    Size,
    TaskFindings,
    TaskScores,
    Verdict,
)
from crosslearning.tables.fit import Fit
from crosslearning.tables.learners.trials import Trials
from crosslearning.tables.metrics import Metric
from crosslearning.tables.model_findings import Bound, TaskRow
from crosslearning.tables.parameters import coefficients, map_of, standardised
from crosslearning.tables.spread import spread
from crosslearning.tables.verdict import labels_of

MOST_TASKS = 2000  # that are listed one by one
_ENDS = (slice(None, 40), slice(-40, None))


def to_list(gains: NDArray[np.float64], distances: NDArray[np.float64]) -> NDArray[np.intp]:
    """Tasks to list one by one: all, or of many those at the ends and some of the others."""
    n_tasks = len(distances)
    if n_tasks <= MOST_TASKS:
        return np.arange(n_tasks)
    ends = [np.argsort(values)[at] for values in (gains, distances) for at in _ENDS]
    evenly = np.linspace(0, n_tasks - 1, MOST_TASKS - sum(map(len, ends))).astype(np.intp)
    return np.unique(np.concatenate([*ends, evenly]))


def gains_over(comparison: Comparison, rival: str) -> NDArray[np.float64]:
    """Gain of each task over a rival, 0 where it has no scores."""
    gains = comparison.scores[-1] - comparison.scores[comparison.methods.index(rival)]
    return np.where(np.isfinite(gains), gains, 0.0)


def gain_counts(gains: NDArray[np.float64]) -> tuple[GainCount, ...]:
    """Histogram of gains without its tails, whose tasks are listed."""
    low, high = np.quantile(gains, [0.005, 0.995])
    counts, edges = np.histogram(gains, bins=60, range=(low, high))
    return tuple(
        GainCount(low=a, high=b, gain=a + b, count=count)
        for a, b, count in zip(edges[:-1], edges[1:], counts.tolist(), strict=True)
    )


def comparison_summary(
    verdict: Verdict,
    comparison: Comparison,
    trials: Trials,
    metric: Metric,
    some: NDArray[np.intp],
) -> ComparisonSummary:
    """Scores over all tasks, and those of some tasks."""
    overall = comparison.summary.assign(score=lambda table: table["score"].map(metric.shown))
    tasks = comparison.tasks.iloc[some]
    tasks = tasks.assign(**{m: tasks[m].map(metric.shown) for m in comparison.methods})
    methods: list[Any] = overall.reset_index(names="method").to_dict("records")
    rows: list[Any] = tasks.reset_index().to_dict("records")
    return ComparisonSummary(
        **vars(verdict),
        overall=tuple(MethodScore(**row) for row in methods),
        tasks=tuple(TaskScores(**row) for row in rows),
        labels=labels_of(trials),
    )


def task_findings(fit: Fit, some: NDArray[np.intp]) -> TaskFindings:
    """How tasks differ; some of them are listed."""
    model, facts, names = fit.estimator, fit.facts, fit.model.encoder.feature_names
    axes = getattr(fit.model.rotation, "axes", None)
    coef, intercept = standardised(model, axes)
    with_center = np.append(some, len(coef) - 1)
    differences = None
    if fit.sharing is not None:
        differences = spread(fit.sharing, names, axes, fit.goal, facts.constant)
    return TaskFindings(
        size=_size(facts),
        tasks=_rows(model, facts.counts, some),
        spread=differences,
        coefficients=coefficients(model, coef[with_center], intercept[with_center], names),
        constant_within_tasks=tuple(facts.constant),
        map=map_of(coef, intercept, some),
        chosen={"all": Bound(epsilon=model.epsilon_)} if np.isfinite(model.epsilon_) else None,
    )


def _size(facts: Facts) -> Size:
    counts = facts.counts
    return Size(
        tasks=len(counts),
        compared=len(facts.compared),
        rows=counts.sum(),
        smallest=counts.min(),
        largest=counts.max(),
    )


def _rows(model: Any, counts: NDArray[np.int64], some: NDArray[np.intp]) -> tuple[TaskRow, ...]:
    """Sizes, distances and forces of tasks."""
    values = (model.tasks_[some], counts[some], model.distances_[some], model.forces_[some])
    return tuple(
        TaskRow(task=label, rows=rows, distance={"all": distance}, force={"all": force})
        for label, rows, distance, force in zip(*values, strict=True)
    )
