"""Ridge regression for related tasks, with the tether chosen by cross-validation."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from crosslearning.convex.squared_error import SquaredError
from crosslearning.evaluation.scoring import Predicted, scorer_of
from crosslearning.linear._cv import CrossLinearModelCV
from crosslearning.linear._folds import Judge
from crosslearning.linear.ridge import RidgeTarget

if TYPE_CHECKING:
    from crosslearning.linear._estimator import Array
    from crosslearning.linear._folds import Judges

__all__ = ["CrossRidgeCV"]


class CrossRidgeCV(RidgeTarget, CrossLinearModelCV):
    """Cross-learned ridge regressions whose radius the data choose.

    Radius and ridge strength are chosen together by cross-validation, with folds that divide
    every task; then all rows are fitted. A task with a single row counts as one never seen when
    that row is held out.

    Parameters
    ----------
    epsilons : sequence of float, optional
        Radii to try. By default 0, `n_epsilons` in geometric progression up to where the bound
        does not matter, and infinity.
    n_epsilons : int, default=20
        Positive finite values to try of a radius, a stiffness or a tension, before looking
        between the best of them and its neighbours.
    smallest : float, default=1e-3
        Smallest of the radii, as a share of the largest.
    tether : {"ball", "spring", "tension", "auto"}, default="ball"
        Kind of coupling. With "auto" the three, and a bound with a spring, compete.
    alphas : sequence of float, optional
        Ridge strengths to try; by default the one by evidence or, unless the metric is learned,
        shares from 1e-4 to 1 of the curvature of the data.
    cv : int, splitter or iterable, default=5
        Number of folds within tasks, or anything that scikit-learn takes.
    scoring : str or callable, optional
        Any scikit-learn scorer; by default the negative mean squared error.
    average : {"tasks", "rows"}, default="tasks"
        Whether every task counts the same in a score, or every row.
    one_standard_error : bool, default=False
        Whether to share as much as possible within a standard error of the best score.
    n_jobs : int, optional
        Folds to work on in parallel.
    random_state : int, default=0
        Seed of the folds.
    metric : {"learned", "standard"} or array, default="learned"
        As in :class:`CrossRidge`; a learned one is learned anew in every fold.
    task_weights, fit_intercept, standardize, task_column, tol, max_iter
        As in :class:`CrossRidge`.

    Attributes
    ----------
    alpha_, epsilon_, stiffness_, tension_, tether_ : float, the last str
        The choice.
    best_score_ : float
        Its score, which has seen the choice; `comparison_` has not.
    alphas_ : array
        Ridge strengths tried.
    epsilons_ : array of shape (n_radii,)
        Radii of the path, the chosen one among them: it may lie between the others.
    score_path_ : array of shape (n_radii, n_folds)
        Scores at `epsilons_`, all else as chosen.
    comparison_ : Comparison
        Pooled, separate and cross-learned models, by task and in all.
    coef_, intercept_, center_coef_, center_intercept_, tasks_, distances_, forces_
        As in :class:`CrossRidge`.
    epsilon_max_, objective_, kkt_residual_, n_iter_
        As in :class:`CrossRidge`.

    Examples
    --------
    >>> from crosslearning.datasets import load_hsb82
    >>> from crosslearning.linear import CrossRidgeCV
    >>> pupils = load_hsb82()
    >>> model = CrossRidgeCV(n_epsilons=5, alphas=[1.0], cv=3)
    >>> model = model.fit(pupils.X, pupils.y, tasks=pupils.tasks)
    >>> bool(model.comparison_.summary.loc["pooled", "gain"] > 0)
    True
    """

    def _judges(self) -> Judges:
        scorer = scorer_of(self, self.scoring, "neg_mean_squared_error")
        if scorer is None:
            return SquaredError.of
        shift = partial(np.add, self.target_mean_)
        return partial(Judge, scorer, partial(_predicted, shift), shift)


def _predicted(shift: Any, scores: Array) -> Predicted:
    return Predicted(shift(scores[:, 0]))
