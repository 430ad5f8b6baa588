"""How fast are fits by evidence? Beside mixed models, and as tasks and columns grow.

Run it with ``OMP_NUM_THREADS=1 python benchmarks/evidence.py``, or try it out with ``--quick``.
"""

from __future__ import annotations

import argparse
import multiprocessing
import platform
import resource
import warnings
from importlib.metadata import version
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Any

import numpy as np
from statsmodels.regression.mixed_linear_model import MixedLM

from crosslearning import CrossBayesianRidge
from crosslearning.convex.sums.statistics import Statistics
from crosslearning.datasets import load_hsb82

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RESULTS = Path(__file__).parent / "results" / "evidence.md"
PACKAGES = ("crosslearning", "numpy", "scipy", "statsmodels")
TASKS = [(10**k, 5, 5) for k in range(2, 7)]  # tasks, rows of each, columns
COLUMNS = [(20, 50, p) for p in (5, 20, 50, 100, 200, 500)]
EXPECTED = {"random slopes": 100.0, "random intercept": 5.0}


def seconds(function: Callable[[], Any], repeats: int) -> float:
    """Processor time of one call: the median of a few."""
    times = []
    for _ in range(repeats):
        start = process_time()
        function()
        times.append(process_time() - start)
    return float(np.median(times))


def schools(repeats: int) -> dict[str, float]:
    """Processor time of one fit of 7,185 pupils in 160 schools."""
    pupils = load_hsb82()
    X, y, tasks = pupils.X.to_numpy(dtype=float), pupils.y.to_numpy(dtype=float), pupils.tasks
    fixed = np.column_stack([np.ones(len(X)), (X - X.mean(axis=0)) / X.std(axis=0)])

    def mixed(random: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            MixedLM(y, fixed, groups=tasks, exog_re=random).fit()

    return {
        "evidence": seconds(lambda: CrossBayesianRidge().fit(X, y, tasks=tasks), 5 * repeats),
        "random intercept": seconds(lambda: mixed(fixed[:, :1]), repeats),
        "random slopes": seconds(lambda: mixed(fixed), 1),
    }


def grown(size: tuple[int, int, int]) -> dict[str, float]:
    """Processor time and memory of statistics and fit, in a process of its own."""
    n_tasks, n_rows, p = size
    rng = np.random.default_rng(0)
    tasks = np.repeat(np.arange(n_tasks), n_rows)
    X = rng.normal(size=(len(tasks), p))
    center = rng.normal(size=p) / p**0.5
    y = X @ center + rng.normal(size=n_tasks)[tasks] + rng.normal(size=len(tasks))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = process_time()
    statistics = Statistics.of(X, y, tasks)
    summed = process_time()
    CrossBayesianRidge().fit_statistics(statistics)
    return {
        "statistics": summed - start,
        "fit": process_time() - summed,
        "size": statistics.cells.scatters.nbytes / 2**20,
        "peak": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**10,
    }


def page(quick: bool) -> Iterator[str]:
    """Lines of the page of results."""
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    yield "# Fits by evidence, their speed measured\n"
    yield "`OMP_NUM_THREADS=1 python benchmarks/evidence.py` writes this page, in processor time.\n"
    yield f"Python {platform.python_version()}, {versions}.\n"
    yield "## The schools, beside statsmodels\n"
    yield "160 schools, 7,185 pupils, 3 columns. One fit each, statistics and intervals included.\n"
    yield "| | seconds | × evidence | expected |\n|---|---|---|---|"
    times = schools(1 if quick else 5)
    for name, time in times.items():
        ratio = time / times["evidence"]
        wanted = f"≥ {EXPECTED[name]:.0f}" if name in EXPECTED else ""
        yield f"| {name} | {time:.3f} | {ratio:.1f} | {wanted} |"
    yield "\n## As tasks and columns grow\n"
    yield "*size*: MiB of the statistics; *peak*: MiB beyond the rows, statistics included.\n"
    yield "| tasks | rows each | columns | statistics, s | fit, s | size | peak |"
    yield "|---|---|---|---|---|---|---|"
    sizes = [*TASKS[:3], *COLUMNS[:3]] if quick else [*TASKS, *COLUMNS]
    for size in sizes:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            found = pool.apply(grown, (size,))
        cells = [f"{found[name]:.{2 * (name in ('statistics', 'fit'))}f}" for name in found]
        yield f"| {size[0]:,} | {size[1]} | {size[2]} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few sizes, no file")
    options = parser.parse_args()
    text = "\n".join(page(options.quick)) + "\n"
    print(text)
    if not options.quick:
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
