"""Does sharing help here? One sentence, with how sure it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from crosslearning.tables.wording import number

if TYPE_CHECKING:
    from crosslearning.linear import Comparison
    from crosslearning.tables.target import Target

__all__ = ["baseline", "sentence"]

_NAMES = {"pooled": "one pooled model", "separate": "separate models"}
_SURE = 2  # standard errors


def sentence(comparison: Comparison, score: str) -> str:
    """Compare cross-learning with the better of one pooled model and separate ones.

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
    size = (
        f"{number(abs(gain), 3)} ± {number(error, 2)}, the standard error paired over "
        f"{len(comparison.tasks):,} tasks"
    )
    if gain > _SURE * error:
        return f"Sharing helps: cross-learning has {both}, better by {size}."
    if gain < -_SURE * error:
        return f"Cross-learning does not help: it has {both}, worse by {size}."
    return f"{_level(summary, rival)}: cross-learning has {both}, a difference of {size}."


def _level(summary: pd.DataFrame, rival: str) -> str:
    """Say what it means that cross-learning and the better end are about equal."""
    if rival == "separate":
        return "Sharing makes no clear difference"
    gain, error = summary["gain"]["separate"], summary["standard_error"]["separate"]
    if gain > _SURE * error:
        return "Sharing helps, but one model for all does as well"
    return "Sharing makes no clear difference"


def baseline(target: Target, tasks: pd.Series[Any]) -> float:
    """Error of predicting the mean, or the shares of the classes, averaged over tasks."""
    values = pd.Series(target.y)
    if target.kind == "regression":
        errors = (target.y - target.y.mean()) ** 2
    else:
        errors = -np.log(values.map(values.value_counts(normalize=True)).to_numpy())
    by_task = pd.Series(errors).groupby(tasks.to_numpy()).mean()
    return float(by_task.mean())
