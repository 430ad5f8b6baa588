"""Does sharing help here? One sentence, with how sure it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.stats import t as student_t

from crosslearning.tables.wording import number

if TYPE_CHECKING:
    from crosslearning.linear import Comparison
    from crosslearning.tables.target import Target

__all__ = ["baseline", "sentence", "warning"]

_NAMES = {"pooled": "one pooled model", "separate": "separate models"}
_LEVEL = 0.975  # in each direction


def sentence(comparison: Comparison, score: str) -> str:
    """Compare cross-learning with the better of one pooled model and separate ones.

    A difference counts if Student's t test over tasks is sure of it at a level of 95 %.

    Parameters
    ----------
    comparison : Comparison
        Scores, greater is better: negative errors.
    score : str
        Name of the error.
    """
    summary = comparison.summary
    rival = str(summary.drop(index="cross")["score"].idxmax())
    gain, error = (float(summary[column][rival]) for column in ("gain", "standard_error"))
    mine, other = -float(summary["score"]["cross"]), -float(summary["score"][rival])
    both = f"a {score} of {number(mine)} against {number(other)} of {_NAMES[rival]}"
    n_tasks = _scored(comparison)
    size = (
        f"{number(abs(gain), 3)} ± {number(error, 2)}, the standard error paired over "
        f"{n_tasks:,} tasks"
    )
    verdict = _verdict(comparison, rival)
    if verdict > 0:
        return f"Sharing helps: cross-learning has {both}, better by {size}."
    if verdict < 0:
        return f"Cross-learning does not help: it has {both}, worse by {size}."
    if rival == "pooled" and _verdict(comparison, "separate") > 0:
        start = "Sharing helps, but one model for all does as well"
    else:
        start = "Sharing makes no clear difference"
    return f"{start}: cross-learning has {both}, a difference of {size}."


def warning(comparison: Comparison, reference: float, guess: str) -> str:
    """Say so if no model is better than a guess; otherwise nothing."""
    if -float(comparison.summary["score"].max()) < reference:
        return ""
    return f"No model is better than predicting {guess}, which gives {number(reference)}. "


def _verdict(comparison: Comparison, rival: str) -> int:
    """Return 1 if cross-learning is surely better, -1 if it is surely worse, else 0."""
    gain, error = (comparison.summary[column][rival] for column in ("gain", "standard_error"))
    n_tasks = _scored(comparison)
    enough = student_t.ppf(_LEVEL, n_tasks - 1) * error if n_tasks > 1 else np.inf
    return int(np.sign(gain)) if abs(gain) > enough else 0


def _scored(comparison: Comparison) -> int:
    """Count the tasks with a score of every method."""
    return int(comparison.tasks[list(comparison.summary.index)].notna().all(axis=1).sum())


def baseline(target: Target, tasks: pd.Series[Any]) -> float:
    """Error of predicting the mean, or the shares of the classes, averaged over tasks."""
    values = pd.Series(target.y)
    if target.kind == "regression":
        errors = (target.y - target.y.mean()) ** 2
    else:
        errors = -np.log(values.map(values.value_counts(normalize=True)).to_numpy())
    by_task = pd.Series(errors).groupby(tasks.to_numpy()).mean()
    return float(by_task.mean())
