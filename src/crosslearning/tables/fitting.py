"""A table in, a fitted model out."""

from __future__ import annotations

import time as clock
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from crosslearning.tables._facts import facts_of
from crosslearning.tables._final import Final
from crosslearning.tables._lines import lines
from crosslearning.tables._prepared import Prepared, check_settings, prepared
from crosslearning.tables._spaces import Spaces
from crosslearning.tables.candidates import BASES, Candidate, based, candidates
from crosslearning.tables.findings import effects, left_out
from crosslearning.tables.metrics import Metric, metric_of
from crosslearning.tables.model import TableModel
from crosslearning.tables.parameters import coefficient_table
from crosslearning.tables.results import Fit, with_results
from crosslearning.tables.trials import Trials, run


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
    ('regression', 'one pooled model')
    >>> model.predict(pupils.head(2)).columns.tolist()
    ['prediction', 'lower', 'upper', 'std']
    """
    given = dict(locals())
    say: Callable[[str, float], object] = progress or (lambda *_: None)
    started = clock.perf_counter()
    say("Looking at the columns", 0.0)
    check_settings(frame, task, target, epsilon, seed, folds)
    if base not in BASES:
        raise ValueError(f"`base` must be one of {', '.join(BASES)}; got {base!r}.")
    data = prepared(
        frame,
        task,
        target,
        features=features,
        types=dict.fromkeys(numbers, "number") | dict.fromkeys(categories, "category"),
        kind=kind,
        family=family,
        roles={"weights": weights, "time": time, "group": group},
        folds=folds,
        drop=drop_unlabelled,
        seed=seed,
    )
    scored = metric_of(metric, data.goal.kind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is not chosen does not matter
        spaces, tried = _to_try(data, family != "auto", epsilon, base, seed)
        left = time_budget - (clock.perf_counter() - started)
        # A bound is one of a single model.
        trials = run(
            tried, spaces, data.splits, scored, seed=seed, blend=epsilon == np.inf, budget=left,
            say=say,
        )  # fmt: skip
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        say(f"Fitting the best of them, {trials.chosen.label}, on all rows", 1.0)
        final = Final(spaces, trials, data.labels)
        result, findings = _result(data, final, scored, held_out, seed)
        model = final.model(trials.described)
    settings = {
        "command": command,
        "seed": seed,
        "seconds": round(clock.perf_counter() - started, 3),
        "dropped": len(frame) - len(data.table),
        "notes": data.notes + [f"no time for {label}" for label in trials.skipped],
    }
    fit = _fit(data, model, trials, scored, settings)
    python = lines(fit_table, given, trials.described.label)
    listed = coefficient_table(model, data.encoder.feature_names, data.rotation)
    return with_results(replace(result, coefficients=listed), fit, findings, caught, python)


def _result(
    data: Prepared, final: Final, metric: Metric, held_out: pd.DataFrame | None, seed: int
) -> tuple[TableModel, dict[str, Any]]:
    """Return the model to keep, and what it says of the table."""
    trials, labels = final.trials, data.labels.tolist()
    errors, findings = left_out(trials, data.rows, data.splits, labels, seed)
    state = final.state(trials.parts)
    model = TableModel(
        data.task, data.goal.name, metric.name, data.encoder, data.rotation, state, errors
    )
    findings["effects"] = effects(model, data.table) if data.rotation is None else []
    if held_out is not None:
        findings["holdout"] = final.scored(model, held_out)
    return model, findings


def _fit(
    data: Prepared, model: Any, trials: Trials, metric: Metric, settings: dict[str, Any]
) -> Fit:
    """Return all that results tell of."""
    rotation, names = data.rotation, data.encoder.feature_names
    used = [data.task, data.goal.name, *(column.name for column in data.features.used)]
    own = names if rotation is None else None
    facts = facts_of(data.table[used], data.rows, data.splits, metric, own)
    axes = None if rotation is None else rotation.axes
    words = data.splits.words
    return Fit(
        model, axes, names, data.task, data.goal, data.features, trials, metric, words, facts,
        settings,
    )  # fmt: skip


def _to_try(
    data: Prepared, only: bool, epsilon: float, base: str, seed: int
) -> tuple[Spaces, list[Candidate]]:
    """Return the models to try, and the rows as they see them."""
    goal, rows, rotated = data.goal, data.rows, data.rotation is not None
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
    spaces = Spaces(rows, data.splits, "linear" if rotated else base, family, seed)
    more = based(goal.kind, family, spaces.blocks, epsilon)
    on_trees = [c for c in more if c.base in ("boosting", "both")]
    if on_trees and base == "auto" and not spaces.trees_help(on_trees[0].estimator):
        more = [c for c in more if c not in on_trees]
    return spaces, linear + more
