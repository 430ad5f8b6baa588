"""Does sharing help here? One sentence, with how sure it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from crosslearning.tables.wording import number

if TYPE_CHECKING:
    from crosslearning.linear import Comparison
    from crosslearning.tables.target import Target

__all__ = ["baseline", "sentence", "warning"]

_NAMES = {"pooled": "one pooled model", "separate": "separate models"}


def sentence(comparison: Comparison, score: str) -> str:
    """Compare cross-learning with the better of one pooled model and separate ones.

    A difference counts if :meth:`Comparison.verdict` is sure of it.

    Parameters
    ----------
    comparison : Comparison
        Scores, greater is better: negative errors.
    score : str
        Name of the error.
    """
    summary = comparison.summary
    rival, n_tasks = comparison.better_end, comparison.n_tasks
    gain, error = (float(summary[column][rival]) for column in ("gain", "standard_error"))
    mine, other = -float(summary["score"]["cross"]), -float(summary["score"][rival])
    both = f"a {score} of {number(mine)} against {number(other)} of {_NAMES[rival]}"
    size = (
        f"{number(abs(gain), 3)} ± {number(error, 2)}, the standard error paired over "
        f"{n_tasks:,} tasks"
    )
    verdict = comparison.verdict(rival)
    if verdict > 0:
        return f"Sharing helps: cross-learning has {both}, better by {size}."
    if verdict < 0:
        return f"Cross-learning does not help: it has {both}, worse by {size}."
    if rival == "pooled" and comparison.verdict("separate") > 0:
        start = "Sharing helps, but one model for all does as well"
    else:
        start = "Sharing makes no clear difference"
    return f"{start}: cross-learning has {both}, a difference of {size}."


def warning(comparison: Comparison, reference: float, guess: str) -> str:
    """Say so if no model is better than a guess; otherwise nothing."""
    if -float(comparison.summary["score"].max()) < reference:
        return ""
    return f"No model is better than predicting {guess}, which gives {number(reference)}. "


def baseline(target: Target, tasks: pd.Series[Any]) -> float:
    """Error of predicting the mean, or the shares of the classes, averaged over tasks."""
    values = pd.Series(target.y)
    if target.kind == "regression":
        errors = (target.y - target.y.mean()) ** 2
    else:
        errors = -np.log(values.map(values.value_counts(normalize=True)).to_numpy())
    by_task = pd.Series(errors).groupby(tasks.to_numpy()).mean()
    return float(by_task.mean())
