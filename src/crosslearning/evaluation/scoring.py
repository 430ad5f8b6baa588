"""Scores of predictions by task, and the comparison of any estimators that they allow."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone, is_classifier
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import has_fit_parameter

from crosslearning.evaluation.comparison import Comparison
from crosslearning.evaluation.scores import Scores
from crosslearning.tasks import TaskIndex, check_tasks
from crosslearning.tasks.folds import splits_of
from crosslearning.tether import Array, Flags

Scorer = Callable[..., float]
_ENDS = {"pooled": 0.0, "separate": math.inf}


@dataclass(frozen=True, eq=False)
class Predicted:
    """Predictions for some rows: targets or classes, and probabilities of classifiers."""

    values: NDArray[Any]
    classes: NDArray[Any] | None = None
    probabilities: Array | None = None
    decisions: Array | None = None

    def model(self, rows: Flags) -> Any:
        """Return a stand-in for an estimator that scorers can call."""
        model = _Regressor() if self.classes is None else _Classifier()
        if self.classes is not None:
            model.classes_ = self.classes
        for name in ("values", "probabilities", "decisions"):
            prediction = getattr(self, name)
            setattr(model, name, None if prediction is None else prediction[rows])
        return model


class _Known(BaseEstimator):  # type: ignore[misc]
    """A fitted model that has already predicted."""

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict(self, X: Any) -> Any:  # noqa: ARG002
        return self.values


class _Regressor(RegressorMixin, _Known):  # type: ignore[misc]
    pass


class _Classifier(ClassifierMixin, _Known):  # type: ignore[misc]
    def predict_proba(self, X: Any) -> Any:  # noqa: ARG002
        return self.probabilities

    def decision_function(self, X: Any) -> Any:  # noqa: ARG002
        return self.decisions


def scorer_of(estimator: Any, scoring: Any, default: str) -> Scorer | None:
    """Return the scorer that a name or a function stands for; None for the default."""
    from sklearn.metrics import check_scoring

    return None if scoring in (None, default) else check_scoring(estimator, scoring)


def score_tasks(
    scorer: Scorer | None,
    predicted: Predicted,
    X: Any,
    y: NDArray[Any],
    weights: Array,
    tasks: NDArray[np.int64],
    n_tasks: int,
) -> tuple[Array, Array]:
    """Return the score of each task, NaN if undefined, and its weight.

    The default is the weighted mean of the negative squared error or, for classes, of the log
    probability, which is defined even if a task lacks a class. Other scorers ignore weights.
    """
    if scorer is None:
        total = np.bincount(tasks, weights, n_tasks).astype(np.float64)
        sums = np.bincount(tasks, weights * _by_row(predicted, y), n_tasks)
        return np.divide(sums, total, out=np.full(n_tasks, np.nan), where=total > 0), total
    scores = np.full(n_tasks, np.nan)
    for task in np.unique(tasks):
        rows = tasks == task
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UndefinedMetricWarning)
            try:
                scores[task] = scorer(predicted.model(rows), X[rows], y[rows])
            except ValueError:  # such as the area under a curve with a single class
                continue
    return scores, np.bincount(tasks, minlength=n_tasks).astype(np.float64)


def _by_row(predicted: Predicted, y: NDArray[Any]) -> Array:
    if predicted.classes is None:
        return np.asarray(-np.square(y - predicted.values))
    if predicted.probabilities is None:
        raise ValueError(
            "The default score of a classifier is the log-loss, which needs `predict_proba`. "
            "Choose another with `scoring`, such as 'accuracy'."
        )
    probability = predicted.probabilities[np.arange(len(y)), np.searchsorted(predicted.classes, y)]
    return np.asarray(np.log(np.maximum(probability, np.finfo(np.float64).tiny)))


def compare(
    estimator: Any,
    X: Any,
    y: Any,
    tasks: Any,
    *,
    cv: Any = 5,
    rivals: Iterable[str] | Mapping[str, Any] = ("pooled", "separate"),
    scoring: Any = None,
    average: str = "tasks",
    random_state: int = 0,
) -> Comparison:
    """Compare an estimator for related tasks with others on held-out rows.

    Every method is refitted on the training part of every split; an estimator that cross-validates
    does so within the training part.

    Parameters
    ----------
    estimator : estimator
        An estimator whose `fit` and `predict` take ``tasks``; "cross" in the comparison.
    X, y, tasks : array or DataFrame of shape (n_rows, n_features), two of shape (n_rows,)
        Features, targets or classes, and the task label of each row.
    cv : int, splitter or iterable, default=5
        Number of folds within tasks, or anything that scikit-learn accepts.
    rivals : names or mapping of names to estimators, default=("pooled", "separate")
        "pooled" is one model for all tasks, "separate" one for each. If the radius alone couples
        the tasks, these are the estimator with a radius of 0 and of infinity; otherwise, the
        estimator fitted without task labels, and on the rows of each task alone. The values of a
        mapping are estimators, which get `tasks` if their `fit` takes them, or these two names.
    scoring : str or callable, optional
        Any scikit-learn scorer, applied task by task; by default the negative mean squared error
        or, for classifiers, the negative log-loss.
    average, random_state : {"tasks", "rows"}, default="tasks", and int, default=0
        Whether every task or every row has equal weight; and the seed of the folds.

    Examples
    --------
    >>> from sklearn.ensemble import HistGradientBoostingRegressor
    >>> from crosslearning import CrossRidge, compare
    >>> from crosslearning.datasets import load_hsb82
    >>> pupils = load_hsb82()
    >>> found = compare(
    ...     CrossRidge(1.0), pupils.X, pupils.y, pupils.tasks,
    ...     rivals={"pooled": "pooled", "trees": HistGradientBoostingRegressor(max_iter=20)},
    ... )  # fmt: skip
    >>> found.summary.index.tolist(), found.best
    (['pooled', 'trees', 'cross'], 'cross')
    """
    if average not in ("tasks", "rows"):
        raise ValueError(f"`average` must be 'tasks' or 'rows'; got {average!r}.")
    methods = {**_rivals(estimator, rivals), "cross": estimator}
    target = np.asarray(y)
    labels = check_tasks(tasks, len(target))
    index, codes = TaskIndex.of(labels)
    classes = np.unique(target) if is_classifier(estimator) else None
    default = "neg_mean_squared_error" if classes is None else "neg_log_loss"
    scorer = scorer_of(estimator, scoring, default)
    splits = splits_of(cv, X, target, codes, random_state, classes=classes is not None)
    values = np.empty((len(methods), len(splits), len(index)))
    weights = np.empty(values.shape[1:])
    for s, (train, test) in enumerate(splits):
        rows, task_labels = _safe_indexing(X, test), _safe_indexing(labels, test)
        for m, method in enumerate(methods.values()):
            parts = [_safe_indexing(part, train) for part in (X, target, labels)]
            model = clone(method).fit(*parts[:2], **_tasks_for(method, parts[2]))
            predicted = _predicted(model, rows, _tasks_for(method, task_labels), classes)
            values[m, s], weights[s] = score_tasks(
                scorer, predicted, np.asarray(rows), target[test], np.ones(len(test)), codes[test],
                len(index),
            )  # fmt: skip
    scores = Scores(list(methods), values, weights, by_rows=average == "rows")
    return Comparison.of(scores, list(index.labels), np.bincount(codes, minlength=len(index)))


def _rivals(estimator: Any, rivals: Iterable[str] | Mapping[str, Any]) -> dict[str, Any]:
    """Return an estimator for every name."""
    if isinstance(rivals, str):
        rivals = (rivals,)
    named = dict(rivals) if isinstance(rivals, Mapping) else {name: name for name in rivals}
    if not named or "cross" in named:
        raise ValueError(
            "`rivals` must have at least one method, and none may be called 'cross', the name of "
            f"the estimator itself; got {list(named)}."
        )
    return {
        name: _end(estimator, rival) if isinstance(rival, str) else rival
        for name, rival in named.items()
    }


def _end(estimator: Any, name: str) -> Any:
    """Return the estimator with one model for all tasks, or with one for each."""
    if name not in _ENDS:
        raise ValueError(
            f"The only names in `rivals` are 'pooled' and 'separate'; got {name!r}. Pass other "
            "methods as a mapping of names to estimators."
        )
    parameters = estimator.get_params(deep=False)
    if "epsilons" in parameters:
        changes: dict[str, Any] = {"epsilons": [_ENDS[name]], "tether": "ball"}
    elif {"epsilon", "stiffness"} <= parameters.keys():
        changes = {"epsilon": _ENDS[name], "stiffness": 0.0, "tension": 0.0}
    else:
        return _Pooled(estimator) if name == "pooled" else _Separate(estimator)
    settable = {key: value for key, value in changes.items() if key in parameters}
    return clone(estimator).set_params(**settable)


def _tasks_for(method: Any, tasks: Any) -> dict[str, Any]:
    return {"tasks": tasks} if has_fit_parameter(method, "tasks") else {}


def _fitted_to_one(estimator: Any, X: Any, y: Any) -> Any:
    """Fit an estimator to rows of one task."""
    return clone(estimator).fit(X, y, **_tasks_for(estimator, np.zeros(len(y), dtype=np.int64)))


def _predicted(model: Any, X: Any, arguments: dict[str, Any], classes: Any) -> Predicted:
    """Collect all predictions that a scorer may need; `given` are labels for models with tasks."""
    values = np.asarray(model.predict(X, **arguments))
    if classes is None:
        return Predicted(values)
    answers = []
    for name, missing in (("predict_proba", 0.0), ("decision_function", -np.inf)):
        answer = np.asarray(getattr(model, name)(X, **arguments)) if hasattr(model, name) else None
        if answer is not None and answer.ndim == 2:  # a class may be missing from a training part
            answer = _of_all(classes, model, answer, missing)
        answers.append(answer)
    return Predicted(values, classes, *answers)


def _of_all(classes: Any, model: Any, answer: Any, missing: float = 0.0) -> Any:
    """Columns for all classes from those for the classes that a model knows."""
    everything = np.full((len(answer), len(classes)), missing)
    everything[:, np.searchsorted(classes, model.classes_)] = answer
    return everything


class _Pooled(BaseEstimator):  # type: ignore[misc]
    """An estimator for which all rows are one task."""

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: Any, y: Any) -> Any:
        return _fitted_to_one(self.estimator, X, y)


class _Separate(BaseEstimator):  # type: ignore[misc]
    """One estimator per task; new tasks and tasks with a single class get a pooled one."""

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: Any, y: Any, tasks: Any) -> Self:
        y = np.asarray(y)
        self.index_, codes = TaskIndex.of(check_tasks(tasks, len(y)))
        self.pooled_ = _fitted_to_one(self.estimator, X, y)
        if is_classifier(self.estimator):
            self.classes_ = self.pooled_.classes_
        self.models_ = [self._alone(X, y, codes == task) for task in range(len(self.index_))]
        return self

    def _alone(self, X: Any, y: Any, rows: Any) -> Any:
        if is_classifier(self.estimator) and len(np.unique(y[rows])) < 2:
            return self.pooled_
        return _fitted_to_one(self.estimator, _safe_indexing(X, np.flatnonzero(rows)), y[rows])

    def predict(self, X: Any, tasks: Any) -> Any:
        return self._by_task(X, tasks, lambda model, rows: model.predict(rows))

    def predict_proba(self, X: Any, tasks: Any) -> Any:
        return self._by_task(
            X, tasks, lambda model, rows: _of_all(self.classes_, model, model.predict_proba(rows))
        )

    def _by_task(self, X: Any, tasks: Any, ask: Any) -> Any:
        codes = self.index_.encode(check_tasks(tasks, len(X)))
        models = [*self.models_, self.pooled_]  # -1 is a new task
        rows_of = {task: np.flatnonzero(codes == task) for task in np.unique(codes)}
        answers = [ask(models[task], _safe_indexing(X, rows)) for task, rows in rows_of.items()]
        order = np.argsort(np.concatenate(list(rows_of.values())))
        return np.concatenate(answers)[order]
