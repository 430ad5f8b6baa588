"""Times of calls that take turns, and tables of them."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def medians(runs: int, *calls: Callable[[], object]) -> list[float]:
    """Median seconds of calls that take turns, after one of each that does not count.

    Of the processor's time: other programs may take it away in between.
    """
    seconds: list[list[float]] = [[] for _ in calls]
    for run in range(runs + 1):
        for call, taken in zip(calls, seconds, strict=True):
            start = time.process_time()
            call()
            if run:
                taken.append(time.process_time() - start)
    return [statistics.median(taken) for taken in seconds]


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def verdict(value: float, limit: float) -> str:
    return "yes" if value <= limit else "no"


def milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.3g}"
