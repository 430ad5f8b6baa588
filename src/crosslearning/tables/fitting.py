"""A table in, a fitted model out."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from crosslearning.linear import CrossLogisticRegressionCV, CrossRidgeCV
from crosslearning.linear.persistence import state_of
from crosslearning.tables.encoding import TableEncoder
from crosslearning.tables.model import TableModel
from crosslearning.tables.results import Fit, results_of
from crosslearning.tables.schema import (
    check_names,
    check_tasks_of,
    features_of,
    require_columns,
)
from crosslearning.tables.target import target_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pandas as pd

__all__ = ["fit_table"]

_FEWEST_ROWS = 10


def fit_table(
    frame: pd.DataFrame,
    *,
    task: str,
    target: str,
    features: Sequence[str] | None = None,
    epsilon: float | str = "auto",
    kind: str = "auto",
    per_block: bool | None = None,
    seed: int = 0,
    command: str = "",
    progress: Callable[[str], object] | None = None,
) -> TableModel:
    """Learn to predict a column of a table, one model per task, and say whether sharing helps.

    Parameters
    ----------
    frame : DataFrame
        The table, one row per example. Rows without a target are left out and counted.
    task : str
        Column with the label of the task of each row: the school, the shop, the patient.
    target : str
        Column to predict: a number, or a class. Strings, booleans and whole numbers with at most
        10 distinct values are classes.
    features : sequence of str, optional
        Columns to learn from; by default all that hold numbers or categories. Left out are
        constants, row numbers, dates and text.
    epsilon : float or "auto", default="auto"
        Largest distance of a task to the centre over all parameters, in standardised features;
        or the best one by cross-validation.
    kind : {"auto", "regression", "classification"}, default="auto"
        What the target is.
    per_block : bool, optional
        Whether coefficients and intercepts have a radius each; by default they do, unless
        `epsilon` is given.
    seed : int, default=0
        Seed of the folds.
    command : str, optional
        What to note as the way to repeat this.
    progress : callable, optional
        Called with what is being done.

    Returns
    -------
    TableModel
        Predicts, saves itself, and has the findings in ``results``.

    Notes
    -----
    The scores are of rows that neither a model nor the choice of its radius has seen. Medians
    and levels of the encoding are those of all rows, held out or not; they know no target.

    Examples
    --------
    >>> from crosslearning.datasets import load_hsb82
    >>> from crosslearning.tables import fit_table
    >>> pupils = load_hsb82().frame.head(400)
    >>> model = fit_table(pupils, task="school", target="math", features=["ses"], epsilon=1.0)
    >>> model.results["target_kind"], model.results["chosen"]["all"]["epsilon"]
    ('regression', 1.0)
    >>> model.predict(pupils.head(2)).columns.tolist()
    ['prediction']
    """
    say = progress or (lambda _: None)
    started = time.perf_counter()
    say("Looking at the columns")
    check_names(frame)
    require_columns(frame, [task], "the task")
    require_columns(frame, [target], "the target")
    _check_settings(task, target, epsilon, per_block, seed)
    rows = _usable_rows(frame, task, target)
    goal = target_of(rows[target], kind)
    chosen = features_of(rows, task, target, features)
    encoder = TableEncoder.of(rows, chosen.of("number"), chosen.of("category"))
    say(f"Cross-validating models of {rows[task].nunique():,} tasks on {len(rows):,} rows")
    estimator = _estimator(goal.kind, epsilon, per_block, seed)
    estimator.fit(encoder.encode(rows), goal.y, tasks=rows[task])
    settings = {
        "command": command,
        "seed": seed,
        "seconds": round(time.perf_counter() - started, 3),
        "dropped": len(frame) - len(rows),
    }
    fit = Fit(estimator, encoder.feature_names, rows, task, goal, chosen, settings)
    state = state_of(estimator)
    del state["fitted"]["comparison_"]  # which the results tell
    return TableModel(task, encoder, state, results_of(fit))


def _check_settings(
    task: str, target: str, epsilon: float | str, per_block: bool | None, seed: int
) -> None:
    if task == target:
        raise ValueError(f"Task and target must be two columns; got {task!r} for both.")
    if seed < 0:
        raise ValueError(f"`seed` must be at least 0; got {seed}.")
    if epsilon == "auto":
        return
    if isinstance(epsilon, str) or not epsilon >= 0:
        raise ValueError(
            f"`epsilon` is a distance and must be at least 0; got {epsilon}. Use 0 for one pooled "
            "model, inf for separate ones, auto to have it chosen."
        )
    if per_block:
        raise ValueError(
            f"A radius per block is chosen by cross-validation; got `epsilon`={epsilon} for one "
            "ball. Leave out one of the two."
        )


def _usable_rows(frame: pd.DataFrame, task: str, target: str) -> pd.DataFrame:
    """Rows with a target, under the numbers that they have in the table."""
    numbered = frame.reset_index(drop=True)
    missing = numbered[target].isna()
    rows = numbered[~missing] if missing.any() else numbered
    if len(rows) < _FEWEST_ROWS:
        raise ValueError(
            f"A fit needs at least {_FEWEST_ROWS} rows with a target; {target!r} has a value in "
            f"{len(rows)} of {len(frame)} rows. Add rows."
        )
    check_tasks_of(rows[task])
    return rows


def _estimator(kind: str, epsilon: float | str, per_block: bool | None, seed: int) -> Any:
    settings: dict[str, Any] = {"random_state": seed, "per_block": per_block is not False}
    if epsilon != "auto":
        settings |= {"epsilons": [float(epsilon)], "per_block": False}
    settings["metric"] = "standard"
    if kind == "regression":
        return CrossRidgeCV(**settings)
    # Every radius costs a Newton iteration over all rows; fewer of them find as good a one.
    return CrossLogisticRegressionCV(n_epsilons=10, **settings)
