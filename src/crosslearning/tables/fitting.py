"""From a table to a fitted model."""

import time as clock
import warnings
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from crosslearning.tables.checks import left_out
from crosslearning.tables.columns.target import only_family, quantile_asked
from crosslearning.tables.describe import with_findings
from crosslearning.tables.effects import effects
from crosslearning.tables.facts import Facts, facts_of
from crosslearning.tables.final import Final, unweighted
from crosslearning.tables.fit import Fit
from crosslearning.tables.learners.candidates import BASES, SEPARATE_TREES, based, candidates
from crosslearning.tables.learners.features import BLOCKS
from crosslearning.tables.learners.running import Running
from crosslearning.tables.learners.spaces import Spaces
from crosslearning.tables.learners.trials import Trials
from crosslearning.tables.lines import lines
from crosslearning.tables.metrics import Metric, metric_of
from crosslearning.tables.model import TableModel
from crosslearning.tables.options import option
from crosslearning.tables.parameters import coefficient_table
from crosslearning.tables.prepared import Prepared, check_settings, prepared
from crosslearning.tables.residuals import Residuals


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
    quantile: float | None = None,
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
    jobs: int = 1,
    seed: int = 0,
    command: str = "",
    progress: Callable[[str, float], object] | None = None,
) -> TableModel:
    """Fit one model per task to a table, and find out whether sharing between tasks helps.

    Parameters
    ----------
    frame : DataFrame
        The table, one row per example. Rows without a target are omitted and counted.
    task : str
        Column of the task of each row: the school, the shop, the patient.
    target : str
        Column to predict: a number or a class. Strings, booleans and numbers with two distinct
        values are classes.
    features : sequence of str, optional
        Feature columns; by default all that hold numbers, categories or dates, except constants
        and row numbers.
    numbers, categories : sequence of str
        Columns to treat as one or the other.
    kind : {"auto", "regression", "classification"}, default="auto"
        What the target is.
    family : {"auto", "gaussian", "student", "poisson", "gamma", "tweedie", "quantile"}
        Distribution of a numeric target, "auto" by default; "quantile" predicts a quantile of it,
        without trees and blends. The metric "poisson-deviance" implies "poisson".
    quantile : float, optional
        Level of ``family="quantile"``, between 0 and 1; 0.5 by default.
    epsilon : float, default=inf
        Largest distance of a task to the centre, in standard deviations of the tasks.
    metric : str, optional
        Score by which models are chosen: mse (the default for numbers), mae, poisson-deviance,
        gamma-deviance; log-loss (the default for classes), accuracy, auc. That of quantiles is
        the pinball loss.
    weights : str, optional
        Column of row weights.
    time : str, optional
        Column of times: models are scored on later rows.
    group : str, optional
        Column of groups that are held out as a whole.
    held_out : DataFrame, optional
        Another table on which to score the models.
    folds : int, default=5
        Number of folds.
    base : {"auto", "linear", "splines", "boosting", "none"}, default="auto"
        Features besides the columns: splines, predictions of boosted trees, or none ("linear" or
        "none"). By default all are tried, means of tasks only if the evidence favours them (with
        splines too), and trees too, unless targets are normal and rows fewer than 1,000. With more
        than 100 columns only linear models are tried.
    time_budget : float, default=60.0
        Seconds after which no further model is tried; fits in progress are given up.
    drop_unlabelled : bool, default=False
        Whether to drop rows without a task instead of refusing them.
    jobs : int, default=1
        Number of processes that try models; -1 for one per core.
    seed : int, default=0
        Seed of the folds.
    command : str, optional
        Command that repeats the fit, for the results.
    progress : callable, optional
        Called with a description of the current step and the share of the work that is done.

    Returns
    -------
    TableModel
        Predicts and saves itself; the findings are in ``results``.

    Notes
    -----
    Models are scored on held-out rows; how much they share comes from the evidence of the training
    rows. The best of them, or a blend weighted on held-out rows, is fitted to all rows. Medians,
    levels and knots come from all rows, but not from their targets; of these only the range and
    the unit of the predictions of trees do.

    Examples
    --------
    >>> from crosslearning.datasets import load_hsb82
    >>> from crosslearning.tables import fit_table
    >>> pupils = load_hsb82().frame.head(400)
    >>> model = fit_table(pupils, task="school", target="math", features=["ses"], base="linear")
    >>> model.results["target_kind"], model.results["comparison"]["effect"]
    ('regression', 'undecided')
    >>> model.predict(pupils.head(2)).columns.tolist()
    ['prediction', 'lower', 'upper', 'std']
    """
    given = dict(locals())
    say: Callable[[str, float], object] = progress or (lambda *_: None)
    started = clock.monotonic()
    say("Looking at the columns", 0.0)
    check_settings(frame, task, target, epsilon, seed, folds)
    level = quantile_asked(family, quantile)
    _check(base, time_budget, jobs, level)
    data = prepared(
        frame,
        task,
        target,
        features=features,
        types=dict.fromkeys(numbers, "number") | dict.fromkeys(categories, "category"),
        kind=kind,
        family=family,
        metric=metric,
        roles={"weights": weights, "time": time, "group": group},
        folds=folds,
        drop=drop_unlabelled,
        seed=seed,
    )
    scored = metric_of(metric, data.goal.kind, level)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about models that may not be chosen
        spaces = _spaces(data, only_family(family, metric), base, seed)
        running = Running(
            spaces,
            data.splits,
            scored,
            seed=seed,
            # A bound applies to a single model, and weights of a blend are those of means.
            blend=epsilon == np.inf and level is None,
            moment=started + time_budget,
            jobs=jobs,
            say=say,
        )
        _run(running, data, only_family(family, metric), level, epsilon, forced=base == "boosting")
        trials, data = running.finish(), data._replace(splits=running.splits)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        say(f"Fitting the best model, {trials.chosen.label}, on all rows", 1.0)
        final = Final(spaces, trials, data.labels)
        residuals, checks = left_out(trials, data.rows, data.splits, data.labels.tolist(), seed)
        model = _kept(data, final, scored, residuals)
        judge = None if held_out is None else final.judged(model, scored, held_out, weights)
    notes = [
        *spaces.notes,
        *running.notes,
        *_missing(trials),
        *checks.notes,
        *unweighted(weights, held_out),
    ]
    settings = {
        "command": command,
        "seed": seed,
        "seconds": round(clock.monotonic() - started, 3),
        "dropped": len(frame) - len(data.table),
        "unlabelled": int(frame[target].notna().sum()) - len(data.table),
        "notes": [*data.notes, *notes],
    }
    fit = Fit(
        model=model,
        estimator=final.model(trials.described),
        target=data.goal,
        features=data.features,
        trials=trials,
        words=data.splits.words,
        facts=_facts(data, scored),
        settings=settings,
        checks=checks,
        effects=effects(model, data.table) if data.rotation is None else (),
        sharing=final.model(trials.spreading),
        held_out=judge,
    )
    return with_findings(fit, caught, lines(fit_table, given, trials.described.label))


def _check(base: str, time_budget: float, jobs: int, level: float | None) -> None:
    if base not in BASES:
        raise ValueError(f"{option('base')} must be one of {', '.join(BASES)}; got {base!r}.")
    if not time_budget > 0:
        raise ValueError(
            f"{option('time_budget')} must be a positive number of seconds; got {time_budget}."
        )
    if jobs < 1 and jobs != -1:
        raise ValueError(
            f"{option('jobs')} must be at least 1, or -1 for one per core; got {jobs}."
        )
    if level is not None and base == "boosting":
        trees, curves = option("base", "boosting"), option("base", "splines")
        raise ValueError(f"{trees} is not for {option('family', 'quantile')}. Choose {curves}.")


def _facts(data: Prepared, metric: Metric) -> Facts:
    """Return what the table says without a model."""
    used = [data.task, data.goal.name, *(column.name for column in data.features.used)]
    names = data.encoder.feature_names if data.rotation is None else []
    return facts_of(data.table[used], data.rows, data.splits, metric, names)


def _missing(trials: Trials) -> list[str]:
    """Say which models were not tried, or could not be compared, and why."""
    notes = []
    if trials.skipped:
        slow = "so that results may depend on the speed of the machine"
        more = f"a larger {option('time_budget')} tries them"
        notes.append(f"no time for {_listed(trials.skipped)}, {slow}: {more}")
    for reason in dict.fromkeys(trials.failed.values()):
        labels = [label for label, why in trials.failed.items() if why == reason]
        notes.append(f"left out, since {reason}: {_listed(labels)}")
    fitted = any(c.end == "separate" for c in trials.candidates)
    if fitted and "separate" not in trials.choices:
        notes.append(
            f"nothing is said about separate models: {SEPARATE_TREES.label} would take too long"
        )
    return notes


def _listed(labels: list[str]) -> str:
    return labels[0] if len(labels) == 1 else f"{labels[0]} (and {len(labels) - 1} more)"


def _kept(data: Prepared, final: Final, metric: Metric, residuals: Residuals | None) -> TableModel:
    """Return the model to keep."""
    described = final.model(final.trials.described)
    return TableModel(
        data.task,
        data.goal.name,
        metric.name,
        data.encoder,
        data.rotation,
        final.state(final.trials.parts),
        residuals,
        coefficients=coefficient_table(described, data.encoder.feature_names, data.rotation),
        horizon=data.splits.horizon,
    )


def _spaces(data: Prepared, only: bool, base: str, seed: int) -> Spaces:
    """Return the rows in all bases."""
    goal, rotated = data.goal, data.rotation is not None
    family = goal.family if only or goal.family == "poisson" else "gaussian"
    spaces = Spaces(data.rows, data.splits, "linear" if rotated else base, family, seed)
    if rotated and base != "linear":
        spaces.notes.append("only linear models of principal axes were tried: features are many")
    return spaces


def _run(
    running: Running,
    data: Prepared,
    only: bool,
    level: float | None,
    epsilon: float,
    *,
    forced: bool,
) -> None:
    """Try linear models, then others whose features help, or that are asked for."""
    goal, rows, spaces = data.goal, data.rows, running.trial.spaces
    linear = candidates(
        goal.kind, goal.family, rows.X.shape, only=only, epsilon=epsilon,
        n_scores=rows.n_scores, rotated=data.rotation is not None,
    )  # fmt: skip
    others = based(goal.kind, spaces.family, spaces.blocks, epsilon, rows.n_scores)
    for candidate in linear + others if level is not None else []:
        candidate.estimator.set_params(quantile=level)
    running.first(linear[0])
    running.more(linear[1:], share=(0.1, 0.4))
    on_trees = spaces.trees_in_time if forced else spaces.trees_help
    for block, helps in (("means", spaces.means_help), ("stacked", on_trees)):
        on_block = [c for c in others if block in BLOCKS[c.base]]
        if on_block and not running.worth(on_block, helps):
            others = [c for c in others if c not in on_block]
    running.more(others, share=(0.4, 1.0))
