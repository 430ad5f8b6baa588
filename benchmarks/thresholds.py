"""What is each rule of `crosslearning fit` worth? It is taken away, and the errors are compared.

Run it with ``OMP_NUM_THREADS=1 python benchmarks/thresholds.py --jobs 2``. Every third table of the
accuracy benchmark, small ones first.
"""

from __future__ import annotations

import argparse
import time
import warnings
from importlib import import_module
from math import inf
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pandas as pd
from accuracy_tables import CLASSES, COUNTS, REGRESSION, divide, error
from joblib import Parallel, delayed

from crosslearning.tables import fit_table

PAGE = Path(__file__).parent / "results" / "thresholds.md"
TABLES = [table.name for table in (*REGRESSION, *CLASSES, *COUNTS)][::3]
SPLIT = "30%"  # for training
ALL = ("regression", "classes", "counts")
AS_IT_IS = "as it is"
BUDGET = 60.0  # seconds by the clock, as by default: rules may keep fits from taking hours


class Rule(NamedTuple):
    """Where the number of a rule is, the value that takes it away, and what it is kept for."""

    module: str
    name: str
    value: float
    reason: str
    kinds: tuple[str, ...] = ALL  # of targets that it concerns


SEARCH, BLEND = "tables.learners.search", "evaluation.blending"
RULES = {
    "linear models only beyond 100 features": Rule(
        SEARCH, "_WIDEST", inf, "memory: curves have four times as many columns; no table here"
    ),
    "robust models for heavy tails only": Rule(
        SEARCH, "_NORMAL", -inf, "time: hsb82 takes 60 % more without it", ALL[:1]
    ),
    "no costly bases of iterated fits": Rule(
        SEARCH, "_COSTLY", inf, "time: attrition takes 75 % more without it", ALL[1:]
    ),
    "task means where the evidence favours them": Rule(
        SEARCH, "_WORTH", -inf, "time: guImmun takes twice as long without it"
    ),
    "a model with 0.9 of the weight has all of it": Rule(
        BLEND, "_MOST", inf, "a model that can be described, instead of a blend"
    ),
    "models with less than 0.05 of the weight are dropped": Rule(
        BLEND, "_LEAST", 0.0, "fewer models to fit and to predict with"
    ),
    "weights of classes shrink to all cross-learned models": Rule(
        BLEND, "_PRIOR_OF_CLASSES", 1e-6, "small tables: bacteria, Greene", ("classes",)
    ),
    "weights of counts, and the sum of those of classes, shrink": Rule(
        BLEND, "_PRIOR", 1e-6, "small tables: epil, Cormorants", ALL[1:]
    ),
    "predictions within the range and half of it": Rule(
        "tables.rows", "_MARGIN", inf, "rare extremes, as on Parity", ALL[::2]
    ),
}
INTRODUCTION = (
    "`OMP_NUM_THREADS=1 python benchmarks/thresholds.py --jobs 2`. Every third table of the "
    "accuracy benchmark, 30 % of the rows for training, one division, a rule taken away at a time: "
    "mean and extremes of the change of the error (its logarithm, in per cent; positive if the "
    "rule is worth something) and geometric mean of the change of the processor time.\n\n"
    "Rules that were worth less than 1 % of the error and 20 % of the time have gone: one variance "
    "per block and a looser tolerance beyond 60 coefficients, boosted trees averaged over folds "
    "of small tables, and the shrinkage of weights towards the model with the smallest squared "
    "error. What is kept for another reason says so."
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1, help="processes, one table in each")
    parser.add_argument("--quick", action="store_true", help="three tables, nothing is written")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    sizes = {table: len(divide(table, SPLIT, seed=0).train.y) for table in TABLES}
    tables = sorted(TABLES, key=sizes.__getitem__)[: 3 if options.quick else None]
    parallel = Parallel(n_jobs=options.jobs, return_as="generator")
    for more in parallel(delayed(without_each)(table) for table in tables):
        rows += more
        print(page(pd.DataFrame(rows)), flush=True)
        if not options.quick:
            PAGE.write_text(page(pd.DataFrame(rows)))


def without_each(table: str) -> list[dict[str, Any]]:
    """Fit a table as it is, and without each of the rules that concern it."""
    warnings.simplefilter("ignore")
    run(None, table)  # imports, which take time once
    kind = divide(table, SPLIT, seed=0).kind
    concerned = {rule: where for rule, where in RULES.items() if kind in where.kinds}
    each = {AS_IT_IS: None, **concerned}
    return [{"rule": rule, "table": table, **run(where, table)} for rule, where in each.items()]


def run(rule: Rule | None, table: str) -> dict[str, float]:
    """Fit a table without a rule: error on the other rows, and seconds."""
    data = divide(table, SPLIT, seed=0)
    train, test = (
        part.features.assign(_task=part.tasks, _target=part.y) for part in (data.train, data.test)
    )
    kind = "classification" if data.kind == "classes" else "regression"
    metric = {"metric": "poisson-deviance"} if data.kind == "counts" else {}
    if rule is None:
        without = patch.dict({})
    else:
        module = import_module(f"crosslearning.{rule.module}")
        without = patch.object(module, rule.name, rule.value)
    began = time.process_time()
    with without:
        model = fit_table(
            train, task="_task", target="_target", kind=kind, time_budget=BUDGET, **metric
        )
    seconds = time.process_time() - began
    predictions = model.predict(test)
    predicted = predictions["prediction"].to_numpy()
    if kind == "classification":
        predicted = np.zeros((len(test), data.n_classes))
        for label in model.classes:
            predicted[:, int(label)] = predictions[f"probability_{label}"]
    return {"error": error(data, predicted), "seconds": seconds}


def page(runs: pd.DataFrame) -> str:
    """The table of all rules."""
    by_rule = {rule: part.set_index("table") for rule, part in runs.groupby("rule")}
    base = by_rule[AS_IT_IS]
    lines = [
        f"# Rules of a fit\n\n{INTRODUCTION}\n",
        "| without | tables | error, mean | largest | smallest | time | kept for |",
        "|---|---|---|---|---|---|---|",
    ]
    for rule in RULES:
        if rule not in by_rule:
            continue
        other = by_rule[rule]
        plain = base.loc[other.index]
        change = 100 * np.log(other["error"] / plain["error"])
        spent = 100 * np.expm1(np.log(other["seconds"] / plain["seconds"]).mean())
        lines.append(
            f"| {rule} | {len(other)} | {change.mean():+.2f} % | "
            f"{change.max():+.1f} % ({change.idxmax()}) | "
            f"{change.min():+.1f} % ({change.idxmin()}) | {spent:+.0f} % | {RULES[rule].reason} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
