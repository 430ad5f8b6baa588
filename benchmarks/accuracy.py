"""How accurate is cross-learned ridge regression? Beside its two ends and mixed models.

Run it with ``OMP_NUM_THREADS=1 python benchmarks/accuracy.py``, or try it out with ``--quick``.
"""

from __future__ import annotations

import argparse
import platform
import signal
import sys
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from statsmodels.regression.mixed_linear_model import MixedLM

from crosslearning.datasets import load_ames, load_hsb82
from crosslearning.linear import CrossRidgeCV
from crosslearning.tasks import within_task_folds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from crosslearning.datasets import TableData

    Array = NDArray[np.float64]
    Fit = tuple[Array, str, int]  # predictions, a remark, number of warnings

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("crosslearning", "numpy", "scipy", "scikit-learn", "statsmodels")
N_SPLITS, SHARES = 10, (0.8, 0.3)
UNITS = ("error", "common")
SEARCH = {"hsb82": {"n_epsilons": 12}, "ames": {"n_epsilons": 12, "cv": 4}}
SEPARATE, POOLED = "separate ridge", "pooled ridge"
TWO, AUTO_ONE, AUTO_TWO = "ball, two blocks", "auto, one block", "auto, two blocks"
CROSS = {
    "ball, one block": {},
    TWO: {"per_block": True},
    AUTO_ONE: {"tether": "auto"},
    AUTO_TWO: {"tether": "auto", "per_block": True},
}
INTERCEPT, SLOPES = "MixedLM, random intercept", "MixedLM, random slopes"
RIDGES = np.geomspace(1e-5, 1e2, 15)  # strengths for the two ends, in rows
N_SLOPES, SECONDS = 3, 20  # random slopes of a mixed model, and its limit of CPU time
CLOSE = 1.01  # `auto` may be this much worse than the best mixed model
PROTOCOL = f"""\
- Splits divide every task: of ten folds within tasks the first 8, or 3, are for training.
- *error*: test mean squared error of a task over the variance of its targets (all rows), then the
  mean over tasks. *common*: over the variance of all training targets instead, one unit for all
  tasks, which is what `CrossRidgeCV` minimises in its folds.
- *− two balls*: minus the error of *{TWO}*, paired by split, ± a standard error.
- All is tuned inside the training part: the two ends choose among {len(RIDGES)} ridge strengths;
  `CrossRidgeCV` has its defaults but for {SEARCH}.
- Mixed models: REML, default optimisers, {SECONDS} s of CPU time each; all features have fixed
  effects, the {N_SLOPES} with the largest pooled coefficients (all of hsb82) random slopes with a
  full covariance. Predictions add the task's predicted random effects, converged or not."""


@dataclass(frozen=True, eq=False)
class Data:
    """Rows of a data set, some of them for training; features standardised by those."""

    X: Array
    y: Array
    tasks: NDArray[np.int64]
    train: NDArray[np.bool_]

    @classmethod
    def split(cls, table: TableData, share: float, seed: int) -> Data:
        tasks = np.unique(table.tasks, return_inverse=True)[1]
        train = within_task_folds(tasks, 10, seed) < round(10 * share)
        X = table.X.to_numpy(dtype=float)
        X = (X - X[train].mean(axis=0)) / X[train].std(axis=0)
        return cls(X, table.y.to_numpy(dtype=float), tasks, train)

    def errors(self, predicted: Array) -> dict[str, float]:
        test = ~self.train
        squares = (self.y - predicted)[test] ** 2
        mse = np.bincount(self.tasks[test], squares) / np.bincount(self.tasks[test])
        own = pd.Series(self.y).groupby(self.tasks).var(ddof=0).to_numpy()
        common = self.y[self.train].var()
        return {"error": float(np.mean(mse / own)), "common": float(np.mean(mse / common))}


def cross_ridge(data: Data, **parameters: object) -> Fit:
    rows = data.train
    model = CrossRidgeCV(**parameters).fit(data.X[rows], data.y[rows], tasks=data.tasks[rows])
    return model.predict(data.X, tasks=data.tasks), model.tether_, 0


def end(data: Data, epsilon: float) -> Fit:
    """Separate or pooled ridge regressions, their strength from a wide and fine grid."""
    return cross_ridge(data, epsilons=[epsilon], alphas=RIDGES * np.count_nonzero(data.train))


def mixed_model(data: Data, n_slopes: int) -> Fit:
    fixed = np.column_stack([np.ones(len(data.X)), data.X])
    random = fixed[:, [0, *(1 + with_largest_coefficients(data, n_slopes))]]
    rows, tasks = data.train, data.tasks
    model = MixedLM(data.y[rows], fixed[rows], groups=tasks[rows], exog_re=random[rows])
    with warnings.catch_warnings(record=True) as caught, cpu_limit(SECONDS):
        warnings.simplefilter("always")
        fitted = model.fit()
        effects = fitted.random_effects
    of_task = np.array([effects[task] for task in range(tasks.max() + 1)])
    predicted = fixed @ fitted.fe_params + np.sum(random * of_task[tasks], axis=1)
    return predicted, "converged" if fitted.converged else "not converged", len(caught)


def with_largest_coefficients(data: Data, n: int) -> NDArray[np.intp]:
    slopes = np.linalg.lstsq(data.X[data.train], data.y[data.train])[0]  # the columns are centred
    return np.argsort(-np.abs(slopes))[:n]


@contextmanager
def cpu_limit(seconds: float) -> Iterator[None]:
    def expired(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGPROF, expired)
    signal.setitimer(signal.ITIMER_PROF, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)


def methods(search: dict[str, int], *, slopes: bool) -> dict[str, Callable[[Data], Fit]]:
    return {
        SEPARATE: partial(end, epsilon=np.inf),
        POOLED: partial(end, epsilon=0.0),
        **{name: partial(cross_ridge, **search, **kind) for name, kind in CROSS.items()},
        INTERCEPT: partial(mixed_model, n_slopes=0),
        **({SLOPES: partial(mixed_model, n_slopes=N_SLOPES)} if slopes else {}),
    }


def measured(method: Callable[[Data], Fit], data: Data) -> dict[str, float | str]:
    start = perf_counter()
    try:
        predicted, remark, n = method(data)
    except (TimeoutError, np.linalg.LinAlgError) as problem:
        predicted, remark, n = np.full_like(data.y, np.nan), type(problem).__name__, 0
    facts = {"seconds": perf_counter() - start, "remark": remark, "warnings": n}
    return data.errors(predicted) | facts


def measure(n_splits: int, *, slopes: bool) -> Iterator[dict[str, object]]:
    tables = [load_hsb82(), load_ames(numeric_only=True)]
    for split, source, share in product(range(n_splits), tables, SHARES):
        data = Data.split(source, share, seed=split)
        for method, function in methods(SEARCH[source.name], slopes=slopes).items():
            where = {"data": source.name, "share": share, "split": split, "method": method}
            row = where | measured(function, data)
            print(*row.values(), sep="\t", file=sys.stderr, flush=True)
            yield row


def by_split(results: pd.DataFrame, unit: str) -> pd.DataFrame:
    return results.pivot_table(unit, "split", "method", sort=False, dropna=False)


def below_both(errors: pd.DataFrame, method: str) -> str:
    n = int(errors[method].lt(errors[[SEPARATE, POOLED]].min(axis=1)).sum())
    return f"{n} of {len(errors)}: {'yes' if 10 * n >= 9 * len(errors) else 'no'}"


def beside_mixed(errors: pd.DataFrame, method: str) -> str:
    # Each mixed model on the splits where it has a prediction.
    rivals = errors[errors.columns.intersection([INTERCEPT, SLOPES])].dropna(axis=1, how="all")
    ratio = max(errors[method].where(rivals[m].notna()).mean() / rivals[m].mean() for m in rivals)
    return f"{ratio - 1:+.1%}: {'yes' if ratio <= CLOSE else 'no'}"


def comparison(results: pd.DataFrame) -> Iterator[list[str]]:
    for method, rows in results.groupby("method", sort=False):
        line = [method]
        for errors in (by_split(results, unit) for unit in UNITS):
            apart = errors[method] - errors[TWO]
            line += [f"{errors[method].mean():.4f}", f"{apart.mean():+.4f} ± {apart.sem():.4f}"]
        remarks = [f"{n} × {remark}" for remark, n in rows["remark"].value_counts().items()]
        remarks += [f"{n} warnings"] if (n := rows["warnings"].sum()) else []
        yield [*line, f"{rows['seconds'].median():.2g}", ", ".join(remarks)]


def page(results: pd.DataFrame) -> Iterator[str]:
    yield "# Cross-learned ridge regression, its accuracy measured\n"
    yield "`OMP_NUM_THREADS=1 python benchmarks/accuracy.py` writes this page and accuracy.csv.\n"
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    yield f"Python {platform.python_version()}, {versions}.\n\n{PROTOCOL}"
    yield "\n## Below both separate and pooled in at least 9 of 10 splits?\n"
    yield from verdicts(results, below_both, CROSS)
    yield "\n## `auto` within 1 % of, or below, the best mixed model on hsb82?\n"
    yield from verdicts(results[results["data"] == "hsb82"], beside_mixed, (AUTO_ONE, AUTO_TWO))
    head = [f"{part}{unit}" for unit in ("", ", common") for part in ("error", "− two balls")]
    for (name, share), rows in results.groupby(["data", "share"], sort=False):
        yield f"\n## {name}, {share:.0%} for training\n"
        yield from table(["method", *head, "seconds", "remarks"], comparison(rows))


def verdicts(
    results: pd.DataFrame, verdict: Callable[[pd.DataFrame, str], str], names: Iterable[str]
) -> Iterator[str]:
    rows = (
        [data, f"{share:.0%}", name, *(verdict(by_split(part, unit), name) for unit in UNITS)]
        for (data, share), part in results.groupby(["data", "share"], sort=False)
        for name in names
    )
    return table(["data", "training", "method", *UNITS], rows)


def table(head: list[str], rows: Iterable[list[str]]) -> Iterator[str]:
    return (f"| {' | '.join(cells)} |" for cells in [head, ["---"] * len(head), *rows])


def save(results: pd.DataFrame) -> None:
    numbers, text = results.to_csv(index=False, float_format="%.6g"), "\n".join(page(results))
    for name, content in {"accuracy.csv": numbers, "accuracy.md": text + "\n"}.items():
        draft = RESULTS / f".{name}"
        draft.write_text(content, encoding="utf-8")
        draft.replace(RESULTS / name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="2 splits, no slopes, no files")
    parser.add_argument("--redraw", action="store_true", help="the page again, from accuracy.csv")
    options = parser.parse_args()
    if options.quick:
        print("\n".join(page(pd.DataFrame(measure(2, slopes=False)))))
    elif options.redraw:
        save(pd.read_csv(RESULTS / "accuracy.csv"))
    else:
        save(pd.DataFrame(measure(N_SPLITS, slopes=True)))


if __name__ == "__main__":
    main()
