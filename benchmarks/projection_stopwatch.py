"""Time that other programs on the machine do not lengthen."""

from __future__ import annotations

from time import perf_counter, process_time


class Stopwatch:
    """Seconds since it was made: by the clock, or of the processor where that is less.

    On a busy machine the clock also counts the turns of others; with several threads the
    processor's time counts their work twice.
    """

    def __init__(self) -> None:
        self._processor = process_time()
        self._clock = perf_counter()

    def seconds(self) -> float:
        clock = perf_counter() - self._clock
        return min(clock, process_time() - self._processor)
