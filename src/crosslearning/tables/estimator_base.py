"""Base of the scikit-learn estimators of tables: checks, fitting, saving."""

from __future__ import annotations

import json
import os
from abc import ABCMeta, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from numbers import Integral, Real
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, Options
from sklearn.utils.validation import (
    _check_sample_weight,
    _check_y,
    check_consistent_length,
    check_is_fitted,
    validate_data,
)

from crosslearning.archive import write_archive
from crosslearning.evaluation import Comparison
from crosslearning.evaluation.effect import Effect
from crosslearning.evaluation.plain import plain
from crosslearning.evaluation.records import to_json
from crosslearning.tables import fit_table
from crosslearning.tables.findings import Findings
from crosslearning.tasks import check_tasks
from crosslearning.tasks.estimators import (
    as_objects,
    codes_to_predict,
    separate_labels,
)

_MODEL, RESULTS, ESTIMATOR = "model.npz", "results.json", "estimator.npz"
KIND = "table estimator"
_CANDIDATE = ["name", "label", "end", "score", "standard_error", "chosen"]
_LISTED_COLUMNS = 20


@dataclass(frozen=True, eq=False, repr=False)
class TableComparison(Comparison):
    """A comparison whose verdict is that of the fit, which compares ends of the same learners."""

    verdict_of_fit: Effect = Effect.NOTHING
    words: str = ""

    @property
    def effect(self) -> Effect:
        """What the fit found out about sharing."""
        return self.verdict_of_fit

    def sentence(self) -> str:
        """Return the same in words."""
        return self.words


@dataclass(eq=False, repr=False, kw_only=True)
class CrossTable(BaseEstimator, metaclass=ABCMeta):  # type: ignore[misc]
    """Base of :class:`CrossRegressor` and :class:`CrossClassifier`."""

    task_column: Any = None
    numbers: Sequence[str] = ()
    categories: Sequence[str] = ()
    epsilon: float = np.inf
    metric: str | None = None
    time: str | None = None
    group: str | None = None
    folds: int = 5
    base: str = "auto"
    time_budget: float = 60.0
    n_jobs: int | None = None
    random_state: Any = 0

    # Types only: `fit_table` checks the values of parameters that it has under the same name.
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "task_column": "no_validation",
        "numbers": [list, tuple],
        "categories": [list, tuple],
        "epsilon": [Real],
        "metric": [str, None],
        "time": [str, None],
        "group": [str, None],
        "folds": [Integral],
        "base": [str],
        "time_budget": [Real],
        "n_jobs": [Interval(Integral, 1, None, closed="left"), Options(Integral, {-1}), None],
        "random_state": ["random_state"],
    }

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        tasks: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Compare models that share more or less between tasks, and fit the best to all rows.

        Parameters
        ----------
        X : DataFrame or array of shape (n_rows, n_features)
            Features: numbers, categories and dates, with or without gaps. Columns of a DataFrame
            that are constant, number the rows or hold free text are left out. The columns of an
            array are named x0, x1, and so on.
        y : array of shape (n_rows,)
            Targets or classes.
        tasks : array of shape (n_rows,), optional
            Task label of each row: any hashable values, at least two of them. Needed unless there
            is a `task_column`.
        sample_weight : array of shape (n_rows,), optional
            Weight of each row.
        """
        self._validate_params()
        X, tasks = separate_labels(X, tasks, self.task_column)
        if tasks is None:
            raise ValueError(
                "`fit` needs the task of each row; got neither `tasks` nor `task_column`. Pass "
                "the label of each row as `tasks`, or the name of a column of X as `task_column`."
            )
        table, roles = self._table(X, y, tasks, sample_weight)
        features = None
        if not isinstance(X, pd.DataFrame):
            # A column of a matrix is meant as a feature, even if it looks like a row number.
            others = (*roles.values(), self.group)
            features = [name for name in table.columns if name not in others]
        model = fit_table(table, features=features, **roles, **self._options())
        assert model.findings is not None  # unlike those of a stored model
        self.model_ = replace(model, findings=replace(model.findings, python=self._python()))
        return self

    def _table(
        self, X: Any, y: Any, tasks: Any, sample_weight: Any
    ) -> tuple[pd.DataFrame, dict[str, Any]]:
        """Return features, tasks, targets and weights as one table, and names of the last three."""
        table = self._checked_features(X, reset=True)
        self._check_names(list(table.columns))
        values = _check_y(y, estimator=self)
        check_consistent_length(table, values)
        columns = {
            "task": (tasks, check_tasks(tasks, len(table))),
            "target": (y, self._learn_target(values)),
        }
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, table, ensure_non_negative=True)
            columns["weights"] = (None, weights)
        roles: dict[str, Any] = {}
        for role, (source, column) in columns.items():
            roles[role] = _new_name(source, role, list(table.columns))
            table[roles[role]] = column
        return table, roles

    @abstractmethod
    def _learn_target(self, y: NDArray[Any]) -> Any:
        """Return the column of the target, and store what decodes predictions."""

    def _options(self) -> dict[str, Any]:
        """Return the parameters as `fit_table` names them."""
        names = ("numbers", "categories", "epsilon", "metric", "time", "group", "folds", "base")
        seed = self.random_state
        if not isinstance(seed, Integral):
            seed = check_random_state(seed).randint(2**31 - 1)
        return {
            **{name: getattr(self, name) for name in names},
            "time_budget": self.time_budget,
            "jobs": 1 if self.n_jobs is None else self.n_jobs,
            "seed": int(seed),
        }

    def _python(self) -> str:
        """Write the lines that repeat the fit, for the report."""
        tasks = "" if self.task_column is not None else ", tasks=tasks"
        name = type(self).__name__
        lines = f"model = {self!r}\nmodel.fit(X, y{tasks})\nprint(model.sentence_)"
        return f"from crosslearning import {name}\n\n{lines}"

    def _checked_features(self, X: Any, *, reset: bool) -> pd.DataFrame:
        """Return a table of the features, whose types are those of X."""
        if isinstance(X, pd.DataFrame):
            validate_data(self, X, reset=reset, skip_check_array=True)
            frame = X.reset_index(drop=True)
        else:
            checks = {"dtype": None, "ensure_all_finite": "allow-nan"}
            least = 2 if reset else 1
            array = validate_data(self, X, reset=reset, ensure_min_samples=least, **checks)
            frame = pd.DataFrame(array)
        numbered = [f"x{k}" for k in range(frame.shape[1])]
        return frame.set_axis(list(getattr(self, "feature_names_in_", numbered)), axis=1)

    def _check_names(self, features: list[str]) -> None:
        """Refuse parameters that name columns which X does not have."""
        named = {"numbers": self.numbers, "categories": self.categories}
        for parameter in ("time", "group"):
            column = getattr(self, parameter)
            named[parameter] = [] if column is None else [column]
        for parameter, columns in named.items():
            unknown = [name for name in columns if name not in features]
            if unknown:
                listed = ", ".join(features[:_LISTED_COLUMNS])
                more = ", …" if len(features) > _LISTED_COLUMNS else ""
                raise ValueError(
                    f"`{parameter}` must name columns of X; got {unknown[0]!r}. The columns are "
                    f"{listed}{more}."
                )

    def _predictions(self, X: Any, tasks: Any, coverage: float = 0.9) -> pd.DataFrame:
        """Return the columns that `TableModel.predict` does."""
        check_is_fitted(self)
        X, tasks = separate_labels(X, tasks, self.task_column)
        frame = self._checked_features(X, reset=False)
        codes_to_predict(self.tasks_, tasks, len(frame))  # refuses labels of other types
        # A string other than "center" was just refused. The centre predicts rows without a label.
        labels = None if isinstance(tasks, str) else check_tasks(tasks, len(frame))
        return self.model_.predict(frame.assign(**{self.model_.task: labels}), coverage=coverage)

    @property
    def tasks_(self) -> NDArray[Any]:
        """Labels of the tasks."""
        return as_objects(self.model_.estimator.tasks_)

    @property
    def _findings(self) -> Findings:
        check_is_fitted(self)
        if self.model_.findings is None:
            raise AttributeError("This model was saved without its results.")
        return self.model_.findings

    @property
    def sentence_(self) -> str:
        """Whether sharing helps, and by how much, in words."""
        return self._findings.sentence

    @property
    def candidates_(self) -> pd.DataFrame:
        """The models that were tried, best first."""
        models = pd.DataFrame([vars(model) for model in self._findings.models])
        return models.rename(columns={"kind": "end"})[_CANDIDATE]

    @property
    def comparison_(self) -> Comparison | dict[str, Any]:
        """The choice among all models, compared with that among pooled and separate models."""
        return _comparison(self._findings, self.tasks_)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the fitted model to a folder, without pickle; :func:`crosslearning.load` reads it.

        The commands ``crosslearning predict`` and ``crosslearning report`` read it, too. An
        earlier fit in the folder is replaced; a folder with anything else is refused.
        """
        check_is_fitted(self)
        self.model_.save(folder)
        names = ("n_features_in_", "feature_names_in_", "classes_")
        content = {
            "model": digest_of(Path(folder)),
            "parameters": self.get_params(deep=False),
            "fitted": {name: getattr(self, name) for name in names if hasattr(self, name)},
        }
        write_archive(Path(folder) / ESTIMATOR, KIND, content)

    def report(self, path: str | os.PathLike[str]) -> Path:
        """Write the findings as one HTML page that works offline, and return its path.

        This needs the extra ``app``.
        """
        from crosslearning.report import write

        check_is_fitted(self)
        with TemporaryDirectory() as folder:
            results = Path(folder, RESULTS)
            results.write_text(json.dumps(self.model_.results), encoding="utf-8")
            return write(folder, out=path)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.categorical = tags.input_tags.string = True
        return tags


def digest_of(folder: Path) -> str:
    """Identify the model in a folder."""
    return sha256((folder / _MODEL).read_bytes()).hexdigest()


def _comparison(findings: Findings, labels: NDArray[Any]) -> Comparison | dict[str, Any]:
    """Rebuild the comparison from its record, unless that lists only some of the tasks."""
    record: dict[str, Any] = to_json(findings.comparison)
    if len(record["tasks"]) < findings.size.compared:
        return record
    methods = tuple(row["method"] for row in record["overall"])
    sign = 1.0 if findings.score.greater_is_better else -1.0
    table = pd.DataFrame(record["tasks"])
    scores = sign * table[list(methods)].to_numpy(dtype=np.float64).T
    known = {repr(plain(label)): label for label in labels}
    return TableComparison(
        methods=methods,
        labels=as_objects([known[repr(label)] for label in table["task"]]),
        rows=table["rows"].to_numpy(),
        scores=scores,
        shares=np.where(np.isfinite(scores).all(axis=0), 1.0, 0.0),
        verdict_of_fit=findings.comparison.effect,
        words=findings.sentence,
    )


def _new_name(values: Any, default: str, taken: list[str]) -> str:
    """Return the name of a column, or a default, with underscores if it is taken."""
    name = getattr(values, "name", None)
    name = name if isinstance(name, str) else default
    while name in taken:
        name += "_"
    return name
