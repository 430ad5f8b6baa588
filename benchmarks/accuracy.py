"""How accurate are predictions on real tables with tasks, beside other people's methods?

Run it with ``OMP_NUM_THREADS=1 python benchmarks/accuracy.py``, or try it out with ``--quick``.
What ``results/accuracy.csv`` already has is not computed again; ``--again`` does so for the chosen
``--methods``, ``--tables`` and ``--seeds``. A new method is one line in ``accuracy_methods.py``.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import warnings
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Any

import pandas as pd
from accuracy_methods import METHODS, SECONDS, gives_intervals, run
from accuracy_report import page
from accuracy_tables import COVERAGES, NEW, SPLITS, TABLES, coverage, divide, error

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

RESULTS = Path(__file__).parent / "results"
CACHE = RESULTS / "accuracy.csv"
KEYS = ["table", "split", "seed", "method"]
COLUMNS = [
    *KEYS,
    "error",
    *(f"covered {nominal:.0%}" for nominal in COVERAGES),
    "seconds",
    "remark",
]
KEEPS_TIME = ("AutoGluon", "fit")  # end by themselves after so long, but for the last steps
QUICK = {"tables": ["sleepstudy", "bacteria", "epil"], "seeds": 2}
SLOW = ("auto, learned metric", "AutoGluon")


@contextmanager
def cpu_limit(seconds: float) -> Iterator[None]:
    def expired(*_: object) -> None:
        raise TimeoutError(f"more than {seconds:.0f} s")

    signal.signal(signal.SIGPROF, expired)
    signal.setitimer(signal.ITIMER_PROF, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)


def measured(table: str, split: str, seed: int, method: str) -> dict[str, Any]:
    """One row of the cache. A method that fails has no error but a remark."""
    data = divide(table, split, seed)
    start = process_time()
    facts: dict[str, Any] = {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with cpu_limit(2 * SECONDS if method in KEEPS_TIME else SECONDS):
                forecast = run(method, data)
            facts = {"error": error(data, forecast.mean), **coverage(data, forecast)}
            remark = forecast.remark
        except Exception as problem:  # peers fail in many ways
            remark = f"{type(problem).__name__}: {problem}".split("\n")[0][:80]
    seconds = process_time() - start
    kinds = {type(w.message).__name__ for w in caught if "Convergence" in type(w.message).__name__}
    facts |= {"seconds": seconds, "remark": "; ".join(filter(None, [remark, *sorted(kinds)]))}
    return dict(zip(KEYS, (table, split, seed, method), strict=True)) | facts


def jobs(
    tables: Iterable[str], methods: Iterable[str], seeds: int, splits: Iterable[str] = SPLITS
) -> Iterator[tuple[Any, ...]]:
    """Seed by seed, so that a run that is broken off has compared all tables."""
    for seed, table, split, method in product(range(seeds), tables, splits, methods):
        kind = TABLES[table].kind
        if kind in METHODS[method] and (split != NEW or gives_intervals(method, kind)):
            yield table, split, seed, method


def line(row: dict[str, Any]) -> str:
    return (
        pd.DataFrame([row])
        .reindex(columns=COLUMNS)
        .to_csv(index=False, header=False, float_format="%.6g")
    )


def append(row: dict[str, Any]) -> None:
    """A single write to the end of the file, so that a row is there or not."""
    text = line(row)
    if not CACHE.exists():
        text = ",".join(COLUMNS) + "\n" + text
    descriptor = os.open(CACHE, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def cached() -> pd.DataFrame:
    return pd.read_csv(CACHE) if CACHE.exists() else pd.DataFrame(columns=COLUMNS)


def write(path: Path, text: str) -> None:
    draft = path.with_name(f".{path.name}")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)


def forget(selected: set[tuple[Any, ...]]) -> None:
    rows = cached()
    keep = [key not in selected for key in rows[KEYS].itertuples(index=False, name=None)]
    write(CACHE, rows[keep].to_csv(index=False, float_format="%.6g"))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES), metavar="NAME")
    parser.add_argument("--methods", nargs="+", choices=METHODS, metavar="NAME")
    parser.add_argument("--seeds", type=int, default=5, help="number of divisions (default: 5)")
    parser.add_argument("--splits", nargs="+", choices=SPLITS, default=SPLITS, metavar="NAME")
    parser.add_argument("--again", action="store_true", help="compute the chosen ones again")
    parser.add_argument("--redraw", action="store_true", help="only the page, from accuracy.csv")
    parser.add_argument("--quick", action="store_true", help="3 tables, 2 seeds, no files")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    if options.quick:
        methods = options.methods or [name for name in METHODS if name not in SLOW]
        rows = [measured(*job) for job in jobs(QUICK["tables"], methods, QUICK["seeds"])]
        print(page(pd.DataFrame(rows).reindex(columns=COLUMNS)))
        return
    if not options.redraw:
        fill(options)
    write(RESULTS / "accuracy.md", page(cached()))


def fill(options: argparse.Namespace) -> None:
    wanted = list(
        jobs(options.tables, options.methods or list(METHODS), options.seeds, options.splits)
    )
    if options.again:
        forget(set(wanted))
    done = set(cached()[KEYS].itertuples(index=False, name=None))
    for job in (job for job in wanted if job not in done):
        row = measured(*job)
        append(row)
        print(line(row), end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
