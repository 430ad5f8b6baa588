"""Base models of a stack: what they see of rows and tasks, and their out-of-fold predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import has_fit_parameter

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crosslearning.linear._estimator import Array

MOST_CATEGORIES = 254  # of a column of histogram-based boosting


@dataclass(frozen=True, eq=False)
class BaseRows:
    """Rows as base models see them."""

    features: pd.DataFrame
    labels: Any  # of the tasks, or "center" or None, for models that take `tasks`
    codes: NDArray[np.int64]  # numbers of the tasks, -1 for those that are not known
    categories: NDArray[np.int64]  # numbers of those that other models see as a category
    column: str | None  # of that category, the last; without it they do not see tasks

    def __getitem__(self, rows: NDArray[np.bool_]) -> BaseRows:
        return BaseRows(
            self.features[rows], self.labels[rows], self.codes[rows], self.categories, self.column
        )

    def fit(self, model: Any, y: NDArray[Any], weights: Array | None) -> Any:
        """Fit a model, with the weights if it takes them."""
        if hasattr(model, "predict_proba") and len(np.unique(y)) == 1:
            return DummyClassifier().fit(self.features, y)
        given = {}
        if weights is not None and has_fit_parameter(model, "sample_weight"):
            given["sample_weight"] = weights
        return model.fit(self._seen_by(model), y, **given, **self._tasks_of(model))

    def predict(self, model: Any, method: str) -> Array:
        """Predictions of a fitted model."""
        predict = getattr(model, method)
        found = predict(self._seen_by(model), **self._tasks_of(model))
        return np.asarray(found, dtype=np.float64)

    def _tasks_of(self, model: Any) -> dict[str, Any]:
        return {"tasks": self.labels} if has_fit_parameter(model, "tasks") else {}

    def _seen_by(self, model: Any) -> pd.DataFrame:
        known = self.column is None or isinstance(model, DummyClassifier)
        if known or has_fit_parameter(model, "tasks"):
            return self.features
        n = len(self.categories)
        position = np.full(max(self.codes.max(), self.categories.max()) + 2, -1)  # -1 is the last
        position[self.categories] = np.arange(n)
        category = pd.Categorical.from_codes(position[self.codes], categories=pd.RangeIndex(n))
        return self.features.assign(**{str(self.column): category})


def out_of_fold(
    models: list[Any],
    rows: BaseRows,
    y: NDArray[Any],
    weights: Array | None,
    folds: NDArray[np.int64],
    n_jobs: int | None,
) -> tuple[list[Any], list[list[Any]]]:
    """Fit each model on all rows, and on all but each fold: a list of models, a list by model."""
    keep = [np.ones(len(y), dtype=bool), *(folds != k for k in range(folds.max() + 1))]
    fitted = Parallel(n_jobs=n_jobs)(
        delayed(rows[part].fit)(clone(model), y[part], None if weights is None else weights[part])
        for model in models
        for part in keep
    )
    by_model = [fitted[k : k + len(keep)] for k in range(0, len(fitted), len(keep))]
    return [own[0] for own in by_model], [own[1:] for own in by_model]
