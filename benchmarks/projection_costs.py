"""What a projection of arrays costs beside copying them, and what its solver costs by itself."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
from projection_instance import Instance
from projection_stopwatch import Stopwatch

from crosslearning import Tether
from crosslearning.coupling import prox_gram

if TYPE_CHECKING:
    from collections.abc import Callable

SIZES = {(4, 10**6): 24, (32, 10**5): 29}  # times a memcpy before the passes were fused
EXPECTED_COPIES = 6
SOLVERS = (4, 8, 16)  # numbers of tasks
BEFORE_SOLVER = 0.7  # milliseconds
EXPECTED_SOLVER = 0.2
CALLS = 50
SECONDS = 6.0  # for each size


def costs() -> list[list[str]]:
    """Rows of a table: what, the time, the ratio, what it was, and whether it is as expected."""
    passes = [_passes(n, s, before) for (n, s), before in SIZES.items()]
    return [*passes, *map(_solver, SOLVERS)]


def _passes(n: int, s: int, before: int) -> list[str]:
    instance = Instance.random(n, s, 0.5)
    target = instance.z.copy()
    copy, project, gram = _medians(
        lambda: np.copyto(target, instance.z), instance.project, instance.gram
    )
    ratio = project / copy
    return [
        f"`project` at ({n}, {s:,})",
        f"{1e3 * project:.3g} ms",
        f"{ratio:.1f} × memcpy, of which {gram / copy:.1f} for the Gram matrix",
        f"{before} × memcpy",
        _verdict(ratio, EXPECTED_COPIES, "×"),
    ]


def _solver(n: int) -> list[str]:
    instance = Instance.random(n, 1_000, 0.5)
    K, tether = instance.gram(), Tether(instance.epsilon)
    start = prox_gram(K, tether).pull
    cold, warm = _medians(
        lambda: [prox_gram(K, tether) for _ in range(CALLS)],
        lambda: [prox_gram(K, tether, start=start) for _ in range(CALLS)],
    )
    each, again = 1e3 * cold / CALLS, 1e3 * warm / CALLS
    return [
        f"`prox_gram` at N = {n}",
        f"{each:.2f} ms",
        f"{again:.2f} ms from the pulls of a previous step",
        f"{BEFORE_SOLVER} ms",
        _verdict(each, EXPECTED_SOLVER, " ms"),
    ]


def _medians(*functions: Callable[[], object]) -> list[float]:
    """Median seconds of functions that take turns; the first turn does not count."""
    turns: list[list[float]] = []
    start = perf_counter()
    while len(turns) < 4 or (len(turns) < 22 and perf_counter() < start + SECONDS):
        turns.append([])
        for function in functions:
            clock = Stopwatch()
            function()
            turns[-1].append(clock.seconds())
    return [float(x) for x in np.median(turns[1:], axis=0)]


def _verdict(value: float, limit: float, unit: str) -> str:
    return f"{'yes' if value <= limit else 'no'} (≤ {limit:g}{unit})"
