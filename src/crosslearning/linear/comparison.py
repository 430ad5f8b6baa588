"""Did sharing help, whom, and how much."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import stdtrit

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from crosslearning.linear._candidates import Candidate
    from crosslearning.linear._folds import Evaluation

__all__ = ["Comparison", "compared"]

METHODS = ("pooled", "separate", "cross")
_LEVEL = 0.975  # in each direction


@dataclass(frozen=True, eq=False)
class Comparison:
    """Cross-validated scores of pooled, separate and cross-learned models, greater is better.

    Every score is of rows that neither the model nor the choice of its settings has seen: the
    settings for a fold are those that are best on the other folds, among values that a search over
    all folds has looked at. (With a single split there are no others; then the choice has seen the
    rows.)

    Attributes
    ----------
    tasks : DataFrame
        One row per task: ``rows``, and the scores ``pooled``, ``separate`` and ``cross``. A task
        that has a single row is scored as one never seen.
    summary : DataFrame
        One row per method: ``score``, averaged as the estimator says; ``gain`` of ``cross`` over
        it, with ``standard_error``, paired by task; and the numbers of tasks ``helped`` and
        ``hurt`` by cross-learning in its place.
    """

    tasks: pd.DataFrame
    summary: pd.DataFrame

    @property
    def better_end(self) -> str:
        """The better of "pooled" and "separate"."""
        return str(self.summary.drop(index="cross")["score"].idxmax())

    @property
    def n_tasks(self) -> int:
        """Number of tasks with a score of every method."""
        return int(self.tasks[list(METHODS)].notna().all(axis=1).sum())

    def verdict(self, rival: str) -> int:
        """Return 1 if cross-learning is surely better than a rival, -1 if surely worse, else 0.

        Sure is a level of 95 % by Student's t test over tasks: few tasks must agree closely before
        they count as evidence.
        """
        gain, error = (float(self.summary[name][rival]) for name in ("gain", "standard_error"))
        enough = stdtrit(self.n_tasks - 1, _LEVEL) * error if self.n_tasks > 1 else np.inf
        return int(np.sign(gain)) if abs(gain) > enough else 0

    def sentence(self) -> str:
        """Say in words whether sharing helps, and how sure that is.

        The verdict over the better of the two ends decides.
        """
        rival, n = self.better_end, self.n_tasks
        gain = float(self.summary["gain"][rival])
        error = float(self.summary["standard_error"][rival])
        name = {"pooled": "one pooled model", "separate": "separate models"}[rival]
        verb = {"pooled": "is", "separate": "are"}[rival]
        if n < 2:
            return "One task cannot tell whether sharing helps; two with scores are needed."
        if gain == error == 0.0:
            return f"Sharing makes no difference: {name}, the better end, {verb} as good."
        size = f"{abs(gain):.4g} ± {error:.2g} in score"
        verdict = self.verdict(rival)
        if verdict > 0:
            return f"Sharing helps: cross-learning is better than {name} by {size}."
        if verdict < 0:
            return f"Sharing as done here does not help: {name} {verb} better by {size}."
        word = "better" if gain > 0 else "worse"
        return (
            f"These {n} tasks cannot tell whether sharing helps: cross-learning is {word} than "
            f"{name}, the better of the two ends, by {size}."
        )

    def __str__(self) -> str:
        return f"{self.summary.to_string(float_format='{:.4g}'.format)}\n{self.sentence()}"


def compared(
    evaluation: Evaluation,
    rivals: dict[str, list[Candidate]],
    labels: NDArray[Any],
    rows: NDArray[np.intp],
    weights: NDArray[np.float64] | None = None,
) -> Comparison:
    """Compare the methods, each with its best settings among its candidates."""
    import pandas as pd

    scored = {name: _honest(evaluation, candidates) for name, candidates in rivals.items()}
    scores = {name: evaluation.task_scores(values) for name, values in scored.items()}
    tasks = pd.DataFrame(scores, index=pd.Index(labels, name="task"))[list(METHODS)]
    tasks.insert(0, "rows", rows)
    share = np.where(tasks[list(METHODS)].notna().all(axis=1), 1.0, 0.0)
    if not evaluation.by_task:
        share = share * (rows if weights is None else weights)
    summary = {name: _gain(tasks["cross"], tasks[name], share) for name in METHODS}
    return Comparison(tasks, pd.DataFrame(summary).T.astype({"helped": int, "hurt": int}))


def _honest(evaluation: Evaluation, candidates: list[Candidate]) -> NDArray[np.float64]:
    """Scores by fold and task, with settings for each fold that are best on the other folds."""
    scored = evaluation.of(candidates)
    by_fold = evaluation.fold_scores(candidates)
    missing = np.isnan(by_fold)
    # A fold without any scores decides nothing; a score that only some have not is their worst.
    by_fold = np.where(missing, np.where(missing.all(axis=0), 0.0, -np.inf), by_fold)
    n_folds = by_fold.shape[1]
    others = [np.delete(by_fold, fold, axis=1).sum(axis=1) for fold in range(n_folds)]
    best = np.argmax(others if n_folds > 1 else by_fold.T, axis=1)
    return np.stack([scored[k, :, fold] for fold, k in enumerate(best)], axis=1)


def _gain(
    cross: pd.Series[float], other: pd.Series[float], share: NDArray[np.float64]
) -> dict[str, float]:
    """Weighted mean score, paired difference and its standard error over tasks."""
    weight = share / share.sum()
    difference = (cross - other).fillna(0.0).to_numpy()
    rounding = 1e-6 * np.nanmax(np.abs(other.to_numpy()), initial=0.0)
    gain = float(weight @ difference)
    spread = float(np.sum(weight**2 * (difference - gain) ** 2))
    n = int(np.count_nonzero(share))
    return {
        "score": float(weight @ other.fillna(0.0).to_numpy()),
        "gain": gain,
        "standard_error": (spread * n / max(n - 1, 1)) ** 0.5,
        "helped": int(np.sum(difference > rounding)),
        "hurt": int(np.sum(difference < -rounding)),
    }
