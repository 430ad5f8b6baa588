"""A table in, a fitted model out."""

from __future__ import annotations

import time as clock
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from crosslearning.linear import CrossBayesianRidge
from crosslearning.linear.persistence import state_of
from crosslearning.tables._basis import BLOCKS
from crosslearning.tables._facts import facts_of
from crosslearning.tables._spaces import Spaces
from crosslearning.tables.candidates import BASES, based, candidates
from crosslearning.tables.columns import as_numbers
from crosslearning.tables.encoding import TableEncoder
from crosslearning.tables.findings import effects, holdout, left_out
from crosslearning.tables.forecast import blend
from crosslearning.tables.metrics import METRICS, metric_of
from crosslearning.tables.model import TableModel
from crosslearning.tables.plain import plain
from crosslearning.tables.recognition import tidy
from crosslearning.tables.results import Fit, results_of
from crosslearning.tables.rotation import Rotation
from crosslearning.tables.rows import Rows
from crosslearning.tables.schema import (
    check_names,
    check_tasks_of,
    features_of,
    looks_like_time,
    require_columns,
)
from crosslearning.tables.splits import splits_of
from crosslearning.tables.target import target_of
from crosslearning.tables.trials import fitted, run
from crosslearning.tasks import TaskIndex

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from crosslearning.tables.candidates import Candidate
    from crosslearning.tables.metrics import Metric
    from crosslearning.tables.splits import Splits
    from crosslearning.tables.target import Target
    from crosslearning.tables.trials import Trials

__all__ = ["check_rows", "check_settings", "fit_table", "state_to_keep"]

_FEWEST_ROWS = 10
_MANY_ROWS = 200_000  # beyond which sums stand for the rows


def fit_table(
    frame: pd.DataFrame,
    *,
    task: str,
    target: str,
    features: Sequence[str] | None = None,
    numbers: Sequence[str] = (),
    categories: Sequence[str] = (),
    kind: str = "auto",
    family: str = "auto",
    epsilon: float = np.inf,
    metric: str | None = None,
    weights: str | None = None,
    time: str | None = None,
    group: str | None = None,
    held_out: pd.DataFrame | None = None,
    folds: int = 5,
    base: str = "auto",
    time_budget: float = 60.0,
    drop_unlabelled: bool = False,
    seed: int = 0,
    command: str = "",
    progress: Callable[[str, float], object] | None = None,
) -> TableModel:
    """Learn to predict a column of a table, one model per task, and say whether sharing helps.

    Parameters
    ----------
    frame : DataFrame
        The table, one row per example. Rows without a target are left out and counted.
    task : str
        Column with the label of the task of each row: the school, the shop, the patient.
    target : str
        Column to predict: a number, or a class. Strings, booleans and numbers with two distinct
        values are classes.
    features : sequence of str, optional
        Columns to learn from; by default all that hold numbers, categories or dates. Left out are
        constants, row numbers and text.
    numbers, categories : sequence of str
        Columns that hold one or the other, whatever they look like.
    kind : {"auto", "regression", "classification"}, default="auto"
        What the target is.
    family : {"auto", "gaussian", "student", "poisson", "gamma", "tweedie"}, default="auto"
        Distribution of a target that is a number.
    epsilon : float, default=inf
        Largest distance of a task to the centre, in standard deviations of the tasks.
    metric : str, optional
        What models are chosen and scored by: mse (the default for numbers), mae,
        poisson-deviance, gamma-deviance; log-loss (the default for classes), accuracy, auc.
    weights : str, optional
        Column with the weights of the rows.
    time : str, optional
        Column that says when a row was: models are scored on what came later.
    group : str, optional
        Column of groups that are left out as a whole.
    held_out : DataFrame, optional
        Rows to score the models on that nothing has been learned from.
    folds : int, default=5
        Number of parts that are left out in turn.
    base : {"auto", "linear", "splines", "boosting", "none"}, default="auto"
        What models see beside the columns: curves of them, what boosted trees predict, or both of
        these; "linear" and "none" are the columns alone. By default all are tried, trees only
        where the evidence finds them worth it, and of more than 50,000 rows or 100 columns the
        columns alone.
    time_budget : float, default=60.0
        Seconds, beyond which no other than linear models in the columns are begun.
    drop_unlabelled : bool, default=False
        Whether to drop rows without a task instead of refusing them.
    seed : int, default=0
        Seed of the folds.
    command : str, optional
        What to note as the way to repeat this.
    progress : callable, optional
        Called with what is being done, and with the share of the work that is behind.

    Returns
    -------
    TableModel
        Predicts, saves itself, and has the findings in ``results``.

    Notes
    -----
    The scores are of rows that a model has not seen; its strength comes from the evidence of the
    others. The model that is returned is the best of all that were tried, fitted on all rows; a
    blend of them, weighed by predictions of rows not seen, is one of them. Medians, levels and
    knots are those of all rows, held out or not; they know no target.

    Examples
    --------
    >>> from crosslearning.datasets import load_hsb82
    >>> from crosslearning.tables import fit_table
    >>> pupils = load_hsb82().frame.head(400)
    >>> model = fit_table(pupils, task="school", target="math", features=["ses"], base="linear")
    >>> model.results["target_kind"], model.results["models"][-1]["label"]
    ('regression', 'separate models')
    >>> model.predict(pupils.head(2)).columns.tolist()
    ['prediction', 'lower', 'upper', 'std']
    """
    say: Callable[[str, float], object] = progress or (lambda *_: None)
    started = clock.perf_counter()
    say("Looking at the columns", 0.0)
    check_settings(frame, task, target, epsilon, seed, folds)
    if base not in BASES:
        raise ValueError(f"`base` must be one of {', '.join(BASES)}; got {base!r}.")
    roles = {"the weights": weights, "the time": time, "the group": group}
    for role, column in roles.items():
        require_columns(frame, [column] if column else [], role)
    table = _usable_rows(frame, task, target, drop=drop_unlabelled)
    types = dict.fromkeys(numbers, "number") | dict.fromkeys(categories, "category")
    goal = target_of(table[target], _kind(kind, family, types.pop(target, None)), family)
    chosen = features_of(table, task, target, features, excluded=(weights, group), types=types)
    encoder = TableEncoder.of(table, chosen.of("number"), chosen.of("category"), chosen.of("date"))
    rows, labels, rotation = _rows(table, task, goal, encoder, weights)
    scored = metric_of(metric, goal.kind)
    splits = splits_of(
        rows.codes,
        folds,
        seed,
        classes=rows.y if rows.classes is not None else None,
        time=table[time] if time else None,
        group=table[group] if group else None,
    )
    only = family != "auto"
    spaces, tried = _to_try(rows, splits, goal, only, epsilon, rotation is not None, base, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is not chosen does not matter
        left = time_budget - (clock.perf_counter() - started)
        plain_metric = METRICS["mse" if goal.kind == "regression" else "accuracy"]
        trials = run(
            tried,
            spaces,
            splits,
            scored,
            plain_metric,
            seed=seed,
            blend=epsilon == np.inf,  # a bound is one of a single model
            budget=left,
            say=say,
        )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        say(f"Fitting the best of them, {trials.chosen.label}, on all rows", 1.0)
        final = Final(spaces, trials, labels)
        errors, findings = left_out(trials, rows, splits, labels.tolist(), seed)
        state = final.state(trials.parts)
        result = TableModel(task, target, scored.name, encoder, rotation, state, errors)
        findings["effects"] = effects(result, table) if rotation is None else []
        if held_out is not None:
            findings["holdout"] = _held_out(result, final, held_out, scored)
        model = final.model(trials.described)
    messages = list(dict.fromkeys(" ".join(str(w.message).split()) for w in caught))
    notes = [] if time else looks_like_time(table, [c.name for c in chosen.used])
    notes += [f"no time for {label}" for label in trials.skipped]
    settings = {
        "command": command,
        "seed": seed,
        "seconds": round(clock.perf_counter() - started, 3),
        "dropped": len(frame) - len(table),
        "notes": notes,
    }
    used = [task, target, *(column.name for column in chosen.used)]
    names = encoder.feature_names
    facts = facts_of(table[used], rows, splits, scored, names if rotation is None else None)
    axes = None if rotation is None else rotation.axes
    fit = Fit(model, axes, names, task, goal, chosen, trials, scored, splits.words, facts, settings)
    results = results_of(fit) | plain(
        findings | {"command": command, "python": _python(fit), "warnings": messages}
    )
    for message in messages:
        warnings.warn(message, stacklevel=2)
    return replace(result, results=results)


def _kind(kind: str, family: str, wanted: str | None) -> str:
    """Return the kind of target that is asked for, also by naming it a number or a category."""
    if wanted is None or kind != "auto" or family != "auto":
        return kind
    return {"number": "regression", "category": "classification"}[wanted]


def _to_try(
    rows: Rows,
    splits: Splits,
    goal: Target,
    only: bool,
    epsilon: float,
    rotated: bool,
    base: str,
    seed: int,
) -> tuple[Spaces, list[Candidate]]:
    """Return the models to try, and the rows as they see them."""
    n_rows, n_features = rows.X.shape
    linear = candidates(
        goal.kind,
        goal.family,
        only=only,
        epsilon=epsilon,
        rotated=rotated,
        n_features=n_features,
        n_rows=n_rows,
    )
    family = goal.family if only or goal.family == "poisson" else "gaussian"
    spaces = Spaces(rows, splits, "linear" if rotated else base, family, seed)
    more = based(goal.kind, family, spaces.blocks, epsilon)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        on_trees = [c for c in more if c.base in ("boosting", "both")]
        if on_trees and base == "auto" and not spaces.trees_help(on_trees[0].estimator):
            more = [c for c in more if c not in on_trees]
    return spaces, linear + more


class Final:
    """Models of all rows, each fitted once."""

    def __init__(self, spaces: Spaces, trials: Trials, labels: NDArray[Any]) -> None:
        self.spaces, self.trials, self.labels = spaces, trials, labels
        self._known: dict[str, Any] = {}

    def model(self, candidate: Candidate) -> Any:
        """Fit on all rows; from sums where rows are many."""
        if candidate.name not in self._known:
            rows = self.spaces.of(candidate.base, None)
            self._known[candidate.name] = self._fitted(candidate.estimator, rows)
        return self._known[candidate.name]

    def _fitted(self, estimator: Any, rows: Rows) -> Any:
        if not isinstance(estimator, CrossBayesianRidge) or len(rows.y) <= _MANY_ROWS:
            return fitted(estimator, rows, self.labels[rows.codes])
        from sklearn.base import clone

        from crosslearning.convex.statistics import Statistics

        numbers = np.arange(rows.n_tasks)
        sums = Statistics.of(rows.X, rows.y, rows.codes, labels=numbers, sample_weight=rows.weights)
        model = clone(estimator).fit_statistics(sums)
        model.tasks_ = self.labels
        return model

    def state(self, weights: dict[str, float]) -> dict[str, Any]:
        """Return what predictions of a blend of models need."""
        by_name = {c.name: c for c in self.trials.candidates}
        used = {by_name[name]: weight for name, weight in weights.items()}
        if [c.base for c in used] == ["linear"]:
            return state_to_keep(self.model(next(iter(used))))
        trees = any("stacked" in BLOCKS.get(c.base, ()) for c in used)
        curved = any(c.base != "linear" for c in used)
        basis = self.spaces.final(trees=trees) if curved else None
        parts = [
            (
                weight,
                None if c.base == "linear" or basis is None else basis.seen(c.base),
                state_to_keep(self.model(c)),
            )
            for c, weight in used.items()
        ]
        return blend(parts, basis)


def check_settings(
    frame: pd.DataFrame, task: str, target: str, epsilon: float, seed: int, folds: int
) -> None:
    """Refuse columns that are not there, and settings that make no sense."""
    check_names(frame)
    require_columns(frame, [task], "the task")
    require_columns(frame, [target], "the target")
    if task == target:
        raise ValueError(f"Task and target must be two columns; got {task!r} for both.")
    if seed < 0:
        raise ValueError(f"`seed` must be at least 0; got {seed}.")
    if folds < 2:
        raise ValueError(f"`folds` must be at least 2; got {folds}.")
    if not epsilon >= 0:
        raise ValueError(
            f"`epsilon` is a distance and must be at least 0; got {epsilon}. Use 0 for one pooled "
            "model, inf for no bound."
        )


def _usable_rows(frame: pd.DataFrame, task: str, target: str, *, drop: bool) -> pd.DataFrame:
    """Rows with a target, under the numbers that they have in the table."""
    numbered = frame.reset_index(drop=True)
    missing = numbered[target].isna()
    labels = tidy(numbered[task])
    if drop:
        missing |= labels.isna()
    if labels is not numbered[task]:
        numbered = numbered.assign(**{task: labels})
    rows = numbered[~missing] if missing.any() else numbered
    check_rows(len(rows), len(frame), target)
    check_tasks_of(rows[task])
    return rows


def check_rows(usable: int, of: int, target: str) -> None:
    """Refuse a table of very few rows."""
    if usable < _FEWEST_ROWS:
        raise ValueError(
            f"A fit needs at least {_FEWEST_ROWS} rows with a target; {target!r} has a value in "
            f"{usable} of {of} rows. Add rows."
        )


def _rows(
    table: pd.DataFrame, task: str, goal: Target, encoder: TableEncoder, weights: str | None
) -> tuple[Rows, NDArray[Any], Rotation | None]:
    """Turn a table into numbers."""
    index, codes = TaskIndex.of(table[task])
    labels = np.empty(len(index), dtype=object)
    labels[:] = index.labels
    X = encoder.encode(table)
    rotation = Rotation.of(X)
    if rotation is not None:
        X = rotation.apply(X)
    classes = np.unique(goal.y) if goal.kind == "classification" else None
    return Rows(X, goal.y, codes, len(index), _weights(table, weights), classes), labels, rotation


def _weights(table: pd.DataFrame, name: str | None) -> NDArray[np.float64] | None:
    if name is None:
        return None
    values = as_numbers(table[name])
    if np.isnan(values).any() or values.min() < 0 or not values.any():
        raise ValueError(
            f"The weights in {name!r} must be at least 0 in every row and not all 0; got "
            f"{np.nanmin(values)} as the smallest and {int(np.isnan(values).sum())} gaps."
        )
    return values


def state_to_keep(model: Any) -> dict[str, Any]:
    """Return what predictions need."""
    state = state_of(model)
    state["fitted"].pop("calibration_", None)  # errors of rows left out serve for all models
    return state


def _held_out(
    result: TableModel, final: Final, frame: pd.DataFrame, metric: Metric
) -> dict[str, Any]:
    """Score all candidates on rows of another table."""
    require_columns(frame, [result.target], "the target")
    known = frame[frame[result.target].notna()].reset_index(drop=True)
    X, codes = result.encode(known)
    goal, rows = known[result.target], final.spaces.rows
    y = as_numbers(goal) if rows.classes is None else goal.to_numpy(dtype=rows.classes.dtype)
    test = Rows(X, y, codes, rows.n_tasks, None, rows.classes)
    trials = final.trials
    states = {
        name: final.state(trials.weights if name == "blend" else {name: 1.0})
        for name in trials.names
    }
    return {"rows": len(known), "scores": holdout(states, test, metric)}


def _python(fit: Fit) -> str:
    """Lines that repeat the fit of the chosen model."""
    return "\n".join(
        [
            "from crosslearning.tables import fit_table, read_table",
            "",
            'frame = read_table("TABLE")',
            f"model = fit_table(frame, task={fit.task!r}, target={fit.target.name!r})",
            'print(model.results["sentence"])',
            f"print(model.estimator)  # {type(fit.estimator).__name__}: {fit.trials.chosen.label}",
            "predictions = model.predict(frame)",
        ]
    )
