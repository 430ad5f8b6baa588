"""Networks for classification as a scikit-learn estimator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy.special import softmax
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.multiclass import check_classification_targets
from torch import nn

from crosslearning.nn.estimators.base import CrossNet

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

__all__ = ["CrossNetClassifier"]


class CrossNetClassifier(ClassifierMixin, CrossNet):
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

    def predict(self, X: ArrayLike, tasks: ArrayLike | None = None) -> NDArray[Any]:
        """Predict classes.

        Parameters
        ----------
        X : array or DataFrame of shape (n_rows, n_features)
            Features.
        tasks : array of shape (n_rows,), optional
            Task label of each row. Tasks never seen in `fit`, or rows without labels if there was
            more than one task, are predicted by the centre.

        Returns
        -------
        array of shape (n_rows,)
        """
        best = self._outputs(X, tasks).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def predict_proba(self, X: ArrayLike, tasks: ArrayLike | None = None) -> NDArray[np.float64]:
        """Probabilities of the classes, of shape (n_rows, n_classes)."""
        return np.asarray(softmax(self._outputs(X, tasks), axis=1))

    def score(
        self,
        X: ArrayLike,
        y: ArrayLike,
        tasks: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Accuracy of the predictions, over all rows."""
        return float(accuracy_score(y, self.predict(X, tasks), sample_weight=sample_weight))

    def _learn_target(self, y: NDArray[Any]) -> torch.Tensor:
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"A classifier needs at least 2 classes; got one class, {self.classes_[0]!r}."
            )
        return torch.as_tensor(codes)

    def _n_outputs(self) -> int:
        return len(self.classes_)

    def _loss(self) -> Callable[[Any, Any], torch.Tensor]:
        return nn.CrossEntropyLoss()
