"""What does a joint step cost? Beside copying its parameters, for arrays and for networks.

Run it with ``python benchmarks/coupling.py`` (about a minute); it writes results/coupling.md.
``--quick`` takes fewer turns and writes nothing.
"""

from __future__ import annotations

import argparse
import os
import platform
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
import torch
from networks_tables import table, verdict
from projection_instance import Instance
from projection_stopwatch import Stopwatch
from threadpoolctl import threadpool_limits
from torch import nn

from crosslearning import Tether
from crosslearning.coupling import prox_gram
from crosslearning.nn import TaskModels

if TYPE_CHECKING:
    from collections.abc import Callable

RESULTS = Path(__file__).parent / "results"
CALLS = 50  # of a solver in one turn
BEFORE = {  # of the version with three orchestrations, by this program on the same machine
    "`project` at (4, 1,000,000)": 27.7,
    "`project` at (32, 100,000)": 30.9,
    "`prox_gram` at N = 4": 0.600,
    "`prox_gram` at N = 16": 0.710,
    "`prox_gram` at N = 16, from previous pulls": 0.336,
    "`TaskModels.project()` at (4, 4,911,745)": 2.58,
    "`TaskModels.project()` at (4, 1,000)": 0.918,
}


def medians(seconds: float, *functions: Callable[[], object]) -> list[float]:
    """Median seconds of functions that take turns; the first turn does not count."""
    turns: list[list[float]] = []
    start = perf_counter()
    while len(turns) < 4 or (len(turns) < 40 and perf_counter() < start + seconds):
        turns.append([])
        for function in functions:
            clock = Stopwatch()
            function()
            turns[-1].append(clock.seconds())
    return [float(x) for x in np.median(turns[1:], axis=0)]


def arrays(n: int, s: int, seconds: float) -> tuple[float, float]:
    """Times a memcpy that `project` takes, and that its Gram matrix takes."""
    instance = Instance.random(n, s, 0.5)
    target = instance.z.copy()
    copy, project, gram = medians(
        seconds, lambda: np.copyto(target, instance.z), instance.project, instance.gram
    )
    return project / copy, gram / copy


def solver(n: int, seconds: float) -> tuple[float, float]:
    """Milliseconds of `prox_gram`, and from the pulls of a previous step."""
    instance = Instance.random(n, 1_000, 0.5)
    K, tether = instance.gram(), Tether(instance.epsilon)
    pull = prox_gram(K, tether).pull
    cold, warm = medians(
        seconds,
        lambda: [prox_gram(K, tether) for _ in range(CALLS)],
        lambda: [prox_gram(K, tether, start=pull) for _ in range(CALLS)],
    )
    return 1e3 * cold / CALLS, 1e3 * warm / CALLS


class Vector(nn.Module):
    """As many parameters as wanted, and nothing to compute."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.values = nn.Parameter(0.01 * torch.randn(size))


def networks(n: int, s: int, seconds: float) -> tuple[float, float]:
    """Times a copy of its buffer that a projection takes, and its milliseconds."""
    epsilon = 0.01
    models = TaskModels(Vector(s), range(n), epsilon=epsilon)
    flat = models.flats[0].flat
    scattered = flat.clone()
    scattered[:-1] += torch.randn(n, s) * (2 * epsilon / s**0.5)
    copy = torch.empty_like(flat)

    def reset() -> None:
        flat.copy_(scattered)

    taken = medians(seconds, lambda: copy.copy_(flat), reset, models.project)
    return taken[2] / taken[0], 1e3 * taken[2]


def rows(seconds: float) -> list[list[str]]:
    wide, gram_wide = arrays(4, 10**6, seconds)
    tall, gram_tall = arrays(32, 10**5, seconds)
    few, _ = solver(4, seconds)
    many, warm = solver(16, seconds)
    large, _ = networks(4, 4_911_745, seconds)
    _, small = networks(4, 1_000, seconds)
    found = [
        (wide, "× memcpy", 6, f"the Gram matrix alone: {gram_wide:.1f}"),
        (tall, "× memcpy", 6, f"the Gram matrix alone: {gram_tall:.1f}"),
        (few, "ms", 0.2, ""),
        (many, "ms", 0.2, ""),
        (warm, "ms", None, ""),
        (large, "× copy", 2.2, ""),
        (small, "ms", None, ""),
    ]
    result = []
    for (name, before), (value, unit, limit, remark) in zip(BEFORE.items(), found, strict=True):
        judged = "" if limit is None else f"{verdict(value, limit)} (≤ {limit:g})"
        result.append([name, f"{before:.3g} {unit}", f"{value:.3g} {unit}", judged, remark])
    return result


def page(seconds: float) -> str:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    with threadpool_limits(1, user_api="blas"):
        found = table(["", "before", "now", "as expected", ""], rows(seconds))
    return f"""# A joint step, measured

`python benchmarks/coupling.py` writes this page.

{platform.machine()}, {os.cpu_count()} cores, one thread; Python {platform.python_version()},
numpy {np.__version__}, torch {torch.__version__}. The load of the last minute was
{os.getloadavg()[0]:.1f}; 1 is this program alone, and more than that disturbs caches and memory.

{found}

Medians of calls that take turns, in processor time. Arrays are float64, networks float32; every
projection moves all tasks. *Before*: the version in which arrays, flat buffers and stacks of runs
each had their own orchestration, measured by this program on the same machine.

`project` reads the tasks for the Gram matrix, and reads and writes them for the move; the written
rows are measured while they are in the cache. The Gram matrix takes N² S / 2 multiplications and
more, which at N = 32 take half of the time that was expected of the whole.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer turns; writes nothing")
    quick = parser.parse_args().quick
    text = page(2.0 if quick else 8.0)
    if not quick:
        (RESULTS / "coupling.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
