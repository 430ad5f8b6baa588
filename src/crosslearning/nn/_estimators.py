"""Networks as scikit-learn estimators."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from crosslearning.nn._cross_net import CrossNet
from crosslearning.tasks.estimators import TaskClassifier, TaskRegressor
from crosslearning.tether import Array


class CrossNetRegressor(TaskRegressor, CrossNet):
    """Networks for related regressions, all within ε of a common centre.

    Parameters
    ----------
    module : callable, optional
        ``module(n_features, n_outputs)`` returns the network; by default
        :func:`crosslearning.nn.architectures.mlp`.
    epsilon : float or dict, default=1.0
        Largest distance of a task's parameters to the centre, or a dict by prefix, as in
        :class:`TaskModels`. 0 trains one network on all rows, ``math.inf`` one per task.
    epochs : int, default=100
        Passes over the rows of the largest task.
    batch_size : int or None, default=32
        Rows of each task in a step; None takes all.
    optimizer, learning_rate : callable, float
        ``optimizer(parameters, lr=learning_rate)`` returns the optimizer; by default Adam, 0.001.
    sampling, engine, center_weight
        As in :func:`fit` and :class:`TaskModels`.
    standardize : bool, default=True
        Whether to standardise the features over all tasks.
    task_column : str, optional
        Column of a DataFrame X that holds the task labels, in place of the argument `tasks`.
    random_state : int, default=0
        Seed of the initial parameters and of training.

    Attributes
    ----------
    models_ : TaskModels
        The networks.
    history_ : History
        The training history.
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

    def _predict(self, X: Any, tasks: Any) -> Array:
        outputs = self._outputs(X, tasks)[:, 0]
        return np.asarray(outputs * self.target_scale_ + self.target_mean_)

    def _learn_target(self, y: NDArray[Any]) -> torch.Tensor:
        target = np.asarray(y, dtype=np.float64)
        self.target_mean_, self.target_scale_ = float(target.mean()), float(target.std()) or 1.0
        scaled = (target - self.target_mean_) / self.target_scale_
        return torch.as_tensor(scaled, dtype=torch.get_default_dtype())[:, None]

    def _n_outputs(self) -> int:
        return 1


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

    def _n_outputs(self) -> int:
        return len(self.classes_)
