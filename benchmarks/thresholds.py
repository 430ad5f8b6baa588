"""What is each rule of `crosslearning fit` worth? It is taken away, and the errors are compared.

Run it with ``OMP_NUM_THREADS=1 python benchmarks/thresholds.py``, or try it out with ``--quick``.
Runs that are in the cache are not repeated; ``--again`` forgets them.
"""

from __future__ import annotations

import argparse
import time
import warnings
from importlib import import_module
from math import inf
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
from accuracy_tables import CLASSES, COUNTS, REGRESSION, columns, divide, error

from crosslearning.tables import fit_table

RESULTS = Path(__file__).parent / "results"
CACHE, PAGE = RESULTS / "thresholds.csv", RESULTS / "thresholds.md"
TABLES = [table.name for table in (*REGRESSION, *CLASSES, *COUNTS)][::3]
SPLITS = ("30%", "80%")
BUDGET = 600.0  # seconds by the clock, so that a busy machine tries the same models
LEARNERS = "crosslearning.tables.learners."
AS_IT_IS = "as it is"
# Rule in words, where its number is, and the value that takes it away.
RULES = {
    AS_IT_IS: ("", "", None),
    "one variance per block beyond 60 coefficients": (LEARNERS + "candidates", "_WIDE", inf),
    "gamma models up to 8 features only": (LEARNERS + "candidates", "_SLOW", inf),
    "looser tolerance for wide models": (LEARNERS + "candidates", "_ROUGH", 1e-6),
    "linear models only beyond 100 features": (LEARNERS + "spaces", "_WIDEST", inf),
    "no costly bases of iterated fits": (LEARNERS + "spaces", "_COSTLY", inf),
    "screen of means by evidence": (LEARNERS + "spaces", "_WORTH", -inf),
    "trees of up to 2,000 rows averaged over folds": (LEARNERS + "boosting", "_MOST_AVERAGED", 0),
    "smallest weight of a blend 0.05": (LEARNERS + "blend", "_LEAST", 0.0),
    "weights from 0.9 are 1": (LEARNERS + "blend", "_MOST", inf),
    "squared errors shrink to the best model": (LEARNERS + "blend", "_SHRINKAGE", 1e-9),
    "classes shrink to the best cross-learned model": (LEARNERS + "blend", "_PRIOR", 0.0),
    "counts shrink to all cross-learned models": (LEARNERS + "blend", "_PRIOR_OF_COUNTS", 1e-6),
    "predictions within the range and half of it": ("crosslearning.tables.rows", "_MARGIN", inf),
}
INTRODUCTION = (
    "`OMP_NUM_THREADS=1 python benchmarks/thresholds.py`. Every third table of the accuracy "
    "benchmark, a rule taken away at a time: mean and largest change of the error (its logarithm, "
    "in per cent; positive if the rule is worth something) and of the processor time. A rule stays "
    "if it is worth 1 % of the mean error, 5 % on a table, or 20 % of the time."
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="three tables, nothing is written")
    parser.add_argument("--again", action="store_true", help="forget the cache")
    parser.add_argument("--split", action="append", choices=SPLITS, help="both by default")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    cached = pd.read_csv(CACHE) if CACHE.exists() and not options.again else pd.DataFrame()
    rows = cached.to_dict("records")
    done = {(row["rule"], row["table"], row["split"]) for row in rows}
    for rule in RULES:
        for split in options.split or SPLITS:
            for table in TABLES[:3] if options.quick else TABLES:
                if (rule, table, split) not in done:
                    rows.append(
                        {"rule": rule, "table": table, "split": split, **run(rule, table, split)}
                    )
        print(page(pd.DataFrame(rows)), flush=True)
        if not options.quick:
            pd.DataFrame(rows).to_csv(CACHE, index=False)
            PAGE.write_text(page(pd.DataFrame(rows)))


def run(rule: str, table: str, split: str) -> dict[str, float]:
    """Fit a table without a rule: error on the other rows, and seconds."""
    data, (module, name, value) = divide(table, split, seed=0), RULES[rule]
    train, test = (
        part.features.assign(_task=part.tasks, _target=part.y) for part in (data.train, data.test)
    )
    kind = "classification" if data.kind == "classes" else "regression"
    metric = {"metric": "poisson-deviance"} if data.kind == "counts" else {}
    began = time.process_time()
    with patch.object(import_module(module), name, value) if module else patch.dict({}):
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
    by_rule = {rule: part.set_index(["table", "split"]) for rule, part in runs.groupby("rule")}
    base = by_rule[AS_IT_IS]
    lines = [
        f"# Rules of a fit\n\n{INTRODUCTION}\n",
        f"{len(base)} divisions of {base.index.get_level_values(0).nunique()} tables.\n",
    ]
    lines += ["| without | error, mean | largest | smallest | time |", "|---|---|---|---|---|"]
    for rule in RULES:
        if rule == AS_IT_IS or rule not in by_rule:
            continue
        other = by_rule[rule].reindex(base.index)
        change = 100 * np.log(other["error"] / base["error"])
        spent = 100 * (other["seconds"].sum() / base["seconds"].sum() - 1)
        lines.append(
            f"| {rule} | {change.mean():+.2f} % | {change.max():+.1f} % ({change.idxmax()[0]}) | "
            f"{change.min():+.1f} % ({change.idxmin()[0]}) | {spent:+.0f} % |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    columns.cache_clear()
    main()
