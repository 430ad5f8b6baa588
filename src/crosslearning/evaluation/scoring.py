"""Scores of predictions by task, and the comparison of any estimators that they allow."""

import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import has_fit_parameter

from crosslearning.evaluation.comparison import Comparison
from crosslearning.evaluation.scores import Scores, mean_by_task
from crosslearning.tasks import TaskIndex, check_tasks
from crosslearning.tasks.folds import splits_of
from crosslearning.tether import Array, Indices

Scorer = Callable[..., float]
_ENDS = {"pooled": 0.0, "separate": math.inf}


@dataclass(eq=False, repr=False)
class Predicted(BaseEstimator):  # type: ignore[misc]
    """Predictions for some rows, as a fitted model that scorers can call."""

    values: NDArray[Any]  # targets or classes
    classes_: Any = None
    probabilities: Array | None = None  # of the classes

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "regressor" if self.classes_ is None else "classifier"
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict(self, X: Any) -> Any:  # noqa: ARG002
        """Return the targets or classes."""
        return self.values

    def predict_proba(self, X: Any) -> Any:  # noqa: ARG002
        """Return the probabilities of the classes."""
        if self.probabilities is None:
            raise AttributeError(
                "Scores of probabilities, such as the log-loss, the default for classifiers, need "
                "`predict_proba`. Choose another with `scoring`, such as 'accuracy'."
            )
        return self.probabilities


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

    The default is the mean of negative squared errors or log probabilities; others ignore weights.
    """
    if scorer is None and predicted.classes_ is None:
        return mean_by_task(-np.square(y - predicted.values), weights, tasks, n_tasks)
    if scorer is None:
        at = np.arange(len(y)), np.searchsorted(predicted.classes_, y)
        shares = np.maximum(predicted.predict_proba(None)[at], np.finfo(np.float64).tiny)
        return mean_by_task(np.log(shares), weights, tasks, n_tasks)
    scores = np.full(n_tasks, np.nan)
    for task in np.unique(tasks):
        rows = tasks == task
        shares = None if predicted.probabilities is None else predicted.probabilities[rows]
        some = Predicted(predicted.values[rows], predicted.classes_, shares)
        # Such as the area under a curve with a single class.
        with warnings.catch_warnings(), suppress(ValueError):
            warnings.simplefilter("ignore", UndefinedMetricWarning)
            scores[task] = scorer(some, X[rows], y[rows])
    return scores, np.bincount(tasks, minlength=n_tasks).astype(np.float64)


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

    Every method is refitted on the training part of every split, cross-validation included.

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
    methods = _rivals(estimator, rivals) | {"cross": partial(_fitted, estimator)}
    target = np.asarray(y)
    labels = check_tasks(tasks, len(target))
    index, codes = TaskIndex.of(labels)
    classes = np.unique(target) if is_classifier(estimator) else None
    default = "neg_mean_squared_error" if classes is None else "neg_log_loss"
    scorer = scorer_of(estimator, scoring, default)
    splits = splits_of(cv, X, target, codes, random_state, classes=classes is not None)
    values = np.empty((len(methods), len(splits), len(index)))
    weights = np.empty(values.shape[1:])
    for s, split in enumerate(splits):
        train, test = map(_Rows(X, target, labels, codes).take, split)
        rows = np.asarray(test.X), test.y, np.ones(len(test.y)), test.codes
        for m, method in enumerate(methods.values()):
            predicted = method(train, test, classes)
            values[m, s], weights[s] = score_tasks(scorer, predicted, *rows, len(index))
    scores = Scores(list(methods), values, weights, by_rows=average == "rows")
    return Comparison.of(scores, list(index.labels), np.bincount(codes, minlength=len(index)))


class _Rows(NamedTuple):
    """Features, targets, and labels and numbers of tasks."""

    X: Any
    y: NDArray[Any]
    tasks: Any
    codes: NDArray[np.int64]

    def take(self, rows: Indices) -> Self:
        return type(self)(*(_safe_indexing(part, rows) for part in self))

    def task(self, code: int) -> Self:
        return self.take(np.flatnonzero(self.codes == code))


Method = Callable[[_Rows, _Rows, Any], Predicted]  # of rows to fit and to predict, and the classes


def _rivals(estimator: Any, rivals: Iterable[str] | Mapping[str, Any]) -> dict[str, Method]:
    if not isinstance(rivals, Mapping):
        rivals = {name: name for name in ([rivals] if isinstance(rivals, str) else rivals)}
    named: dict[str, Any] = dict(rivals)
    if not named or "cross" in named:
        raise ValueError(
            "`rivals` must have at least one method, and none may be called 'cross', the name of "
            f"the estimator itself; got {list(named)}."
        )
    return {
        name: _end(estimator, rival) if isinstance(rival, str) else partial(_fitted, rival)
        for name, rival in named.items()
    }


def _end(estimator: Any, name: str) -> Method:
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
        return partial(_pooled if name == "pooled" else _separate, estimator)
    settable = {key: value for key, value in changes.items() if key in parameters}
    return partial(_fitted, clone(estimator).set_params(**settable))


def _fitted(estimator: Any, train: _Rows, test: _Rows, classes: Any) -> Predicted:
    """Fit an estimator, with the tasks if its `fit` takes them, and predict."""
    takes_tasks = has_fit_parameter(estimator, "tasks")
    to_fit, to_predict = ({"tasks": part.tasks} if takes_tasks else {} for part in (train, test))
    model = clone(estimator).fit(train.X, train.y, **to_fit)
    numbers = np.float64 if classes is None else None
    values = np.array(model.predict(test.X, **to_predict), dtype=numbers)
    if classes is None or not hasattr(model, "predict_proba"):
        return Predicted(values, classes)
    probabilities = np.zeros((len(values), len(classes)))  # a class may be missing from the fit
    known = np.searchsorted(classes, model.classes_)
    probabilities[:, known] = model.predict_proba(test.X, **to_predict)
    return Predicted(values, classes, probabilities)


def _pooled(estimator: Any, train: _Rows, test: _Rows, classes: Any) -> Predicted:
    """Take all rows for one task."""
    train, test = (part._replace(tasks=np.zeros_like(part.codes)) for part in (train, test))
    return _fitted(estimator, train, test, classes)


def _separate(estimator: Any, train: _Rows, test: _Rows, classes: Any) -> Predicted:
    """Fit one model per task; new tasks and tasks with a single class get a pooled one."""
    predicted = _pooled(estimator, train, test, classes)
    for task in np.unique(test.codes):
        alone = train.task(task)
        if len(np.unique(alone.y)) < (1 if classes is None else 2):
            continue
        part, at = _pooled(estimator, alone, test.task(task), classes), test.codes == task
        predicted.values[at] = part.values
        if predicted.probabilities is not None:
            predicted.probabilities[at] = part.probabilities
    return predicted
