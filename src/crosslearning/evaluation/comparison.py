"""Whether sharing helps, which tasks, and by how much."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import bdtr, stdtr, stdtrit

from crosslearning.evaluation import sentences
from crosslearning.evaluation.numbers import count
from crosslearning.evaluation.scores import Scores
from crosslearning.evaluation.sentences import Effect
from crosslearning.tasks.labels import as_objects
from crosslearning.tether import Array

if TYPE_CHECKING:
    from crosslearning.report.plots import Plot

_LEVEL = 0.05  # of a two-sided test
_ENDS = ("pooled", "separate")
_ROUNDING = 1e-6  # of the largest score; smaller differences neither help nor hurt


class Paired(NamedTuple):
    """Mean difference of pairs, its standard error, and the number of pairs."""

    gain: float
    standard_error: float
    n: int

    @property
    def p_value(self) -> float:
        """Two-sided p-value of the paired t test; NaN for a single pair."""
        if self.n < 2:
            return np.nan
        if self.standard_error == 0:
            return float(self.gain == 0)
        return float(2 * stdtr(self.n - 1, -abs(self.gain) / self.standard_error))

    @property
    def half_width(self) -> float:
        """Half the width of the 95 % interval, by Student's t; infinite for a single pair."""
        if self.n < 2:
            return np.inf
        return float(stdtrit(self.n - 1, 1 - _LEVEL / 2)) * self.standard_error

    @property
    def sure(self) -> int:
        """Sign of the difference if it is significant at the 5 % level, else 0."""
        return int(np.sign(self.gain)) if self.p_value < _LEVEL else 0


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Scores of methods on held-out rows, task by task; greater is better.

    Parameters
    ----------
    methods : tuple of str
        Names, such as ``("pooled", "separate", "cross")``; the last is compared with the others.
    labels, rows : array of shape (n_tasks,)
        Tasks, and their numbers of rows.
    scores : array of shape (n_methods, n_tasks)
        Mean score of each task, NaN if undefined. A task with a single row is scored as a new task.
    shares : array of shape (n_tasks,)
        Weight of each task in an average.
    runs : array of shape (n_methods, n_runs), optional
        Scores of repeated runs, such as networks trained with several seeds. If given, differences
        are paired by run, otherwise by task.
    nested : bool, default=True
        Whether the settings for each split were chosen on the other splits.
    stated, words : Effect, str, optional
        Verdict of a fit that knows more than these scores, and its sentence.
    """

    methods: tuple[str, ...]
    labels: NDArray[Any]
    rows: NDArray[Any]
    scores: Array
    shares: Array
    runs: Array | None = None
    nested: bool = True
    stated: Effect | None = None
    words: str | None = None

    @classmethod
    def of(
        cls, scores: Scores, labels: Any, rows: Any, *, by_run: bool = False, nested: bool = True
    ) -> Comparison:
        """Build the comparison of the last setting of a table of scores with the others."""
        by_task = scores.by_task
        shares = np.asarray(scores.weights, dtype=np.float64).sum(axis=0)
        if not scores.by_rows:
            shares = np.ones_like(shares)
        shares = np.where(np.isfinite(by_task).all(axis=0), shares, 0.0)
        runs = scores.by_split if by_run else None
        names = tuple(map(str, scores.settings))
        return cls(names, as_objects(labels), np.asarray(rows), by_task, shares, runs, nested)

    @property
    def tasks(self) -> pd.DataFrame:
        """One row per task: ``rows``, and the score of each method."""
        index = pd.Index(list(self.labels), name="task", tupleize_cols=False)
        columns = dict(zip(self.methods, self.scores, strict=True))
        return pd.DataFrame({"rows": self.rows, **columns}, index=index)

    @property
    def summary(self) -> pd.DataFrame:
        """One row per method.

        ``score`` is the average; ``gain`` is how much better the last method is, with its
        ``standard_error``, paired by task or by run; ``helped`` and ``hurt`` count the tasks for
        which the last method is better and worse.
        """
        records = {}
        for name in self.methods:
            records[name] = (self.score(name), *self.paired(name)[:2], *self.served(name))
        columns = ["score", "gain", "standard_error", "helped", "hurt"]
        return pd.DataFrame.from_dict(records, orient="index", columns=columns)

    @property
    def subject(self) -> str:
        """The method that is compared with the others."""
        return self.methods[-1]

    @property
    def best_rival(self) -> str:
        """The best of the other methods."""
        return max(self.methods[:-1], key=self.score)

    @property
    def best(self) -> str:
        """The best of all methods."""
        return max(self.methods, key=self.score)

    @property
    def n_tasks(self) -> int:
        """Number of tasks with a score of every method."""
        return int(np.count_nonzero(self.shares))

    def score(self, method: str) -> float:
        """Average score of a method."""
        if self.runs is not None:
            return float(self.runs[self.methods.index(method)].mean())
        return float(np.average(self._of(method), weights=self.shares)) if self.n_tasks else np.nan

    def paired(self, rival: str) -> Paired:
        """Gain over a rival with its standard error, paired by task or by run."""
        if self.runs is None:
            scores, shares = np.where(self.shares > 0, self.scores, 0.0), self.shares
        else:
            scores, shares = self.runs, np.ones(self.runs.shape[1])
        a, b = (scores[self.methods.index(name)] for name in (self.subject, rival))
        n = int(np.count_nonzero(shares))
        if not n:
            return Paired(np.nan, np.nan, 0)
        weight = shares / shares.sum()
        gain = float(weight @ (a - b))
        variance = float(np.sum(weight**2 * (a - b - gain) ** 2))
        return Paired(gain, (variance * n / max(n - 1, 1)) ** 0.5, n)

    def served(self, rival: str) -> tuple[int, int]:
        """Return for how many tasks the method is better than a rival, and for how many worse."""
        gains = self._of(self.subject) - self._of(rival)
        rounding = _ROUNDING * np.nanmax(np.abs(self._of(rival)), initial=0.0)
        return int(np.sum(gains > rounding)), int(np.sum(gains < -rounding))

    def ties(self, rival: str) -> bool:
        """Whether the method is exactly as good as a rival for every task, but for rounding."""
        return self.served(rival) == (0, 0)

    def verdict(self, rival: str) -> int:
        """Return 1 if the method is significantly better than a rival, -1 if worse, else 0.

        This is a paired t test at the 5 % level over tasks or runs and, since a few tasks with
        large errors can hide what happens to all others, a sign test over tasks. Either is enough,
        unless the other, or the mean, says the opposite.
        """
        if self.ties(rival):
            return 0
        plain, (helped, hurt) = self.paired(rival), self.served(rival)
        agreed = 2 * bdtr(min(helped, hurt), helped + hurt, 0.5) < _LEVEL and self.runs is None
        sure = {plain.sure, int(np.sign(helped - hurt)) if agreed else 0} - {0}
        return sure.pop() if sure == {np.sign(plain.gain)} else 0

    @property
    def effect(self) -> Effect:
        """What the comparison with the best rival says about sharing."""
        if self.stated is not None:
            return self.stated
        rival = self.best_rival
        if not self.paired(rival).n:
            return Effect.NOTHING
        if self.ties(rival):
            return self._effect_of_tie(rival)
        if sign := self.verdict(rival):
            return Effect.HELPS if sign > 0 else Effect.HURTS
        if rival == "pooled" and self._beats("separate"):
            return Effect.POOL
        if rival == "separate" and self._beats("pooled"):
            return Effect.DIFFER
        return Effect.UNDECIDED

    def _effect_of_tie(self, rival: str) -> Effect:
        """Tell one pooled model, separate models and others apart, which are as good."""
        others = [name for name in self.methods[:-1] if name in _ENDS and not self.ties(name)]
        if rival not in _ENDS or not others:
            return Effect.SAME
        if rival == "pooled":
            return Effect.POOL
        return Effect.HURTS if self._beats("pooled") else Effect.UNDECIDED

    def _beats(self, rival: str) -> bool:
        return rival in self.methods and self.verdict(rival) > 0

    def sentence(self) -> str:
        """Say in words whether sharing helps, and how certain that is."""
        return self.words or sentences.verdict(self)

    def plot(self) -> Plot:
        """Draw the score of every method; needs the extra ``app``."""
        from crosslearning.report import plots

        return plots.comparison(self)

    def _repr_html_(self) -> str:
        from crosslearning.report import plots

        return plots.html(self.sentence(), self.summary, self.plot)

    def __repr__(self) -> str:
        methods, n_tasks = ", ".join(self.methods), count(self.n_tasks, "task")
        return f"<Comparison of {methods} on {n_tasks}: {self.effect.value}>"

    def __str__(self) -> str:
        return f"{self.summary.to_string(float_format='{:.4g}'.format)}\n{self.sentence()}"

    def _of(self, method: str) -> Array:
        """Scores of the tasks; 0 for those without weight."""
        return np.where(self.shares > 0, self.scores[self.methods.index(method)], 0.0)
