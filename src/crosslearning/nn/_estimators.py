"""Networks as scikit-learn estimators."""

from abc import ABCMeta, abstractmethod
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import nn

from crosslearning.nn._evaluation import mode
from crosslearning.nn._seeds import build
from crosslearning.nn._task_models import TaskModels
from crosslearning.nn._training import fit
from crosslearning.nn.architectures import mlp
from crosslearning.tasks.estimators import (
    TaskClassifier,
    TaskRegressor,
    codes_to_fit,
    codes_to_predict,
    separate_labels,
)
from crosslearning.tether import Array

_ROWS = 1024  # that pass through a model at a time


@dataclass(eq=False, repr=False)
class CrossNet(BaseEstimator, metaclass=ABCMeta):
    """Base of the estimators; see :class:`CrossNetRegressor` and :class:`CrossNetClassifier`."""

    module: Callable[[int, int], nn.Module] | None = None
    _: KW_ONLY
    epsilon: Any = 1.0
    epochs: int = 100
    batch_size: int | None = 32
    optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.Adam
    learning_rate: float = 1e-3
    sampling: str = "cycle"
    center_weight: float = 1.0
    standardize: bool = True
    task_column: Any = None
    engine: str = "auto"
    random_state: int = 0

    _checks: ClassVar[dict[str, Any]] = {}  # of scikit-learn's validation
    _loss: ClassVar[type[nn.Module]]
    _n_outputs: ClassVar[int]
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "module": [callable, None],
        "epsilon": "no_validation",  # TaskModels says what to use instead
        "epochs": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left"), None],
        "optimizer": [callable],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "sampling": [StrOptions({"cycle", "proportional"})],
        "center_weight": [Interval(Real, 0, None, closed="left")],
        "standardize": ["boolean"],
        "task_column": "no_validation",
        "engine": [str],
        "random_state": [Interval(Integral, 0, None, closed="left")],
    }

    def fit(self, X: ArrayLike, y: ArrayLike, tasks: ArrayLike | None = None) -> Self:
        """Train one network per task.

        Parameters
        ----------
        X, y : array or DataFrame of shape (n_rows, n_features), array of shape (n_rows,)
            Features and targets.
        tasks : array of shape (n_rows,), optional
            Task label of each row; any hashable values. All rows are one task if neither this nor
            `task_column` is given.
        """
        self._validate_params()
        X, tasks = separate_labels(X, tasks, self.task_column)
        array, target = validate_data(self, X, y, dtype=np.float64, **self._checks)
        self.tasks_, codes = codes_to_fit(tasks, len(array))
        self.feature_mean_, scale = np.zeros((2, array.shape[1]))
        if self.standardize:
            self.feature_mean_, scale = array.mean(axis=0), array.std(axis=0)
        self.feature_scale_ = np.where(scale > 0, scale, 1.0)
        inputs, targets = self._inputs(array), self._learn_target(target)
        data = {
            task: (inputs[codes == code], targets[codes == code])
            for code, task in enumerate(self.tasks_)
        }
        self.models_ = TaskModels(
            self._network(inputs[:1]), data, epsilon=self.epsilon, center_weight=self.center_weight
        )
        self.history_ = fit(
            self.models_,
            data,
            self._loss(),
            lambda parameters: self.optimizer(parameters, lr=self.learning_rate),
            self.epochs,
            batch_size=self.batch_size,
            sampling=self.sampling,  # type: ignore[arg-type]
            engine=self.engine,  # type: ignore[arg-type]
            seed=self.random_state,
        )
        self.distances_ = self.models_.distances()
        self.n_iter_ = self.epochs
        return self

    def _network(self, row: torch.Tensor) -> nn.Module:
        """Create a network, and check the shape of its outputs."""
        make = mlp if self.module is None else self.module
        if isinstance(make, nn.Module):
            raise ValueError(
                "`module` must be a function (n_features, n_outputs) -> Module, since every fit "
                f"needs its own; got {type(make).__name__}."
            )
        network = build(lambda: make(row.shape[1], self._n_outputs), self.random_state)
        with mode(network, training=False), torch.no_grad():
            actual = tuple(network(row).shape)
        if actual != (1, self._n_outputs):
            raise ValueError(
                f"`module(n_features, n_outputs)` must return a network whose output has shape "
                f"(n_rows, n_outputs), here (1, {self._n_outputs}) for one row; got {actual}."
            )
        return network

    @abstractmethod
    def _learn_target(self, y: NDArray[Any]) -> torch.Tensor:
        """Encode the targets, and store what decodes the outputs."""

    def _inputs(self, array: Array) -> torch.Tensor:
        scaled = (array - self.feature_mean_) / self.feature_scale_
        return torch.as_tensor(scaled, dtype=torch.get_default_dtype())

    def _outputs(self, X: Any, tasks: Any) -> Array:
        """Compute the outputs for rows; the centre predicts unknown tasks."""
        check_is_fitted(self)
        X, tasks = separate_labels(X, tasks, self.task_column)
        array = validate_data(self, X, reset=False, dtype=np.float64)
        codes = codes_to_predict(self.tasks_, tasks, len(array))
        inputs = self._inputs(array)
        outputs = torch.empty((len(array), self._n_outputs), dtype=torch.float64)
        with mode(self.models_, training=False), torch.no_grad():
            for code in np.unique(codes):
                module = self.models_.center if code < 0 else self.models_[self.tasks_[code]]
                for rows in torch.from_numpy(np.flatnonzero(codes == code)).split(_ROWS):
                    outputs[rows] = module(inputs[rows]).double()
        return outputs.numpy()


class CrossNetRegressor(TaskRegressor, CrossNet):
    """Networks for related regressions, all within ε of a common centre.

    Parameters
    ----------
    module : callable, optional
        ``module(n_features, n_outputs)`` returns the network; by default
        :func:`crosslearning.nn.architectures.mlp`.
    epsilon : float or dict, default=1.0
        Largest distance of a task to the centre, or a dict by prefix, as in :class:`TaskModels`.
    epochs, batch_size : int, default=100, int or None, default=32
        Passes over the rows of the largest task; rows of each task in a step, or None for all.
    optimizer, learning_rate : callable, float
        ``optimizer(parameters, lr=learning_rate)`` returns the optimizer; by default Adam, 0.001.
    sampling, engine, center_weight
        As in :func:`fit` and :class:`TaskModels`.
    standardize : bool, default=True
        Whether to standardise the features over all tasks.
    task_column : str, optional
        Column of a DataFrame X with the task labels, in place of `tasks`.
    random_state : int, default=0
        Seed of the initial parameters and of training.

    Attributes
    ----------
    models_, history_ : TaskModels, History
        The networks, and how they were trained.
    tasks_, distances_ : array of shape (n_tasks,)
        Task labels, and distances to the centre.
    feature_mean_, feature_scale_, target_mean_, target_scale_
        Statistics of the features and of the target.

    Examples
    --------
    >>> from crosslearning.datasets import load_hsb82
    >>> from crosslearning.nn import CrossNetRegressor
    >>> pupils = load_hsb82()
    >>> few = pupils.tasks.isin(pupils.tasks.unique()[:8])
    >>> X, y, school = pupils.X[few], pupils.y[few], pupils.tasks[few]
    >>> model = CrossNetRegressor(epsilon=0.1, epochs=5).fit(X, y, tasks=school)
    >>> model.predict(X, tasks=school).shape == y.shape
    True
    """

    _checks: ClassVar = {"y_numeric": True}
    _loss = nn.MSELoss
    _n_outputs = 1

    def _predict(self, X: Any, tasks: Any) -> Array:
        return self._outputs(X, tasks)[:, 0] * self.target_scale_ + self.target_mean_

    def _learn_target(self, y: NDArray[Any]) -> torch.Tensor:
        target = np.asarray(y, dtype=np.float64)
        self.target_mean_, self.target_scale_ = float(target.mean()), float(target.std()) or 1.0
        scaled = (target - self.target_mean_) / self.target_scale_
        return torch.as_tensor(scaled, dtype=torch.get_default_dtype())[:, None]


class CrossNetClassifier(TaskClassifier, CrossNet):
    """Networks for related classifications, all within ε of a common centre.

    Parameters and attributes are those of :class:`CrossNetRegressor`, and ``classes_``. The
    networks have an output for every class, even for tasks that lack some.

    Examples
    --------
    >>> import numpy as np
    >>> from crosslearning.nn import CrossNetClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2))
    >>> shop = np.repeat(["north", "south"], 100)
    >>> y = np.where(X[:, 0] + 0.2 * (shop == "north") > 0, "buys", "leaves")
    >>> model = CrossNetClassifier(epsilon=0.3, epochs=20).fit(X, y, tasks=shop)
    >>> model.score(X, y, tasks=shop) > 0.95
    True
    """

    _loss = nn.CrossEntropyLoss

    def _class_scores(self, X: Any, tasks: Any) -> Array:
        return self._outputs(X, tasks)

    def _learn_target(self, y: NDArray[Any]) -> torch.Tensor:
        return torch.as_tensor(self._learn_classes(y))

    @property
    def _n_outputs(self) -> int:  # type: ignore[override]
        return len(self.classes_)
