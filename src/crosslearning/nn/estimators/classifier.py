"""Networks for classification as a scikit-learn estimator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from crosslearning.nn.estimators.base import CrossNet
from crosslearning.tasks.estimators import TaskClassifier

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["CrossNetClassifier"]


class CrossNetClassifier(TaskClassifier, CrossNet):
    """Networks for related classifications, none farther than ε from a common centre.

    Parameters and attributes are those of :class:`CrossNetRegressor`. The networks have an output
    for every class, also for tasks whose rows miss some.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Labels of the classes.

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

    def _class_scores(self, X: Any, tasks: Any) -> NDArray[np.float64]:
        return self._outputs(X, tasks)

    def _learn_target(self, y: NDArray[Any]) -> torch.Tensor:
        return torch.as_tensor(self._learn_classes(y))

    def _n_outputs(self) -> int:
        return len(self.classes_)

    def _loss(self) -> Callable[[Any, Any], torch.Tensor]:
        return nn.CrossEntropyLoss()
