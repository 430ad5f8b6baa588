"""How far a sweep is, and how long the rest will take."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Clock", "Progress"]


@dataclass(frozen=True)
class Progress:
    """How far a sweep is.

    Attributes
    ----------
    epsilon, seed : float, int
        The run at work.
    epoch, epochs : int
        Its epochs done, and all of them.
    run, runs : int
        Its number from 1, and that of all runs.
    share : float
        Share of the whole sweep that is done, from 0 to 1.
    seconds_left : float
        Time that the rest is expected to take.
    """

    epsilon: float
    seed: int
    epoch: int
    epochs: int
    run: int
    runs: int
    share: float
    seconds_left: float


class Clock:
    """Tells how far a sweep is; epochs done by an earlier call do not count as time.

    Parameters
    ----------
    runs, epochs : int
        Number of runs, and of the epochs of each.
    report : callable
        Called with a `Progress` after each epoch.
    """

    def __init__(self, runs: int, epochs: int, report: Callable[[Progress], object]) -> None:
        self._runs, self._epochs, self._report = runs, epochs, report
        self._finished = 0
        self._trained = 0
        self._start = time.monotonic()

    def finish(self) -> None:
        """Count a run as finished, whether it was trained now or before."""
        self._finished += 1

    def epoch(self, epsilon: float, seed: int, epoch: int) -> None:
        """Count an epoch of the run at work, trained now."""
        self._trained += 1
        done = self._finished * self._epochs + epoch
        left = self._runs * self._epochs - done
        seconds = (time.monotonic() - self._start) / self._trained
        share = done / (self._runs * self._epochs)
        place = (epoch, self._epochs, self._finished + 1, self._runs)
        self._report(Progress(epsilon, seed, *place, share, seconds * left))
