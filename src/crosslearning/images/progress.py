"""How far a sweep is, and how long the rest will take."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from crosslearning.nn import EpochRecord

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
    """Tells how far a sweep is, seed by seed; what an earlier call trained takes no time.

    Parameters
    ----------
    epsilons, seeds : sequence
        The runs: for each seed, each radius.
    epochs : int
        Epochs of each.
    report : callable
        Called with a `Progress` after each epoch.
    """

    def __init__(
        self,
        epsilons: Sequence[float],
        seeds: Sequence[int],
        epochs: int,
        report: Callable[[Progress], object],
    ) -> None:
        self._runs = [(epsilon, seed) for seed in seeds for epsilon in epsilons]
        self._epochs, self._report = epochs, report
        self._trained = 0
        self._start = time.monotonic()

    def epoch(self, run: dict[str, Any], record: EpochRecord) -> None:
        """Count an epoch of a run, trained now."""
        self._trained += 1
        epsilon, seed = run["epsilon"], run["seed"]
        before = self._runs.index((epsilon, seed))
        done, total = before * self._epochs + record.epoch, len(self._runs) * self._epochs
        seconds = (time.monotonic() - self._start) / self._trained
        place = (record.epoch, self._epochs, before + 1, len(self._runs))
        self._report(Progress(epsilon, seed, *place, done / total, seconds * (total - done)))
