"""Boosted trees of LightGBM, in its own text format, for stored models."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Codes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Trees:
    """Trees of all tasks; if `pooled` is not None, they know the task, as the last column.

    Before it come the `groups` that tasks lie in, if there are any: numbers by task and level.
    The `text` may hold several models, which zeros divide; predictions are their means.

    Rows of new tasks, with the code -1, are predicted by the trees in `pooled`. Targets of known
    and of new tasks have the standard deviations `sds` around predictions; classes have at least
    the probability `smallest`.
    """

    text: NDArray[np.uint8]
    sds: Array
    smallest: float
    pooled: Trees | None = None
    groups: Codes | None = None

    @classmethod
    def of(
        cls,
        texts: Iterable[str],
        sds: Array,
        smallest: float,
        pooled: Trees | None,
        groups: Codes | None = None,
    ) -> Trees:
        """Take models in LightGBM's format."""
        text = np.frombuffer("\0".join(texts).encode(), dtype=np.uint8)
        return cls(text, sds, smallest, pooled, groups)

    @cached_property
    def _boosters(self) -> list[Any]:
        import lightgbm  # takes long

        texts = self.text.tobytes().decode().split("\0")
        return [lightgbm.Booster(model_str=text) for text in texts]

    def predict(self, X: Array, codes: Codes) -> Array:
        """Means of targets, or probabilities of classes."""
        if self.pooled is None:
            return self._mean(X)
        groups = () if self.groups is None else self.groups[codes].T
        predictions = self._mean(np.column_stack([X, *groups, codes]))
        new = codes < 0
        if new.any():
            predictions[new] = self.pooled.predict(X[new], codes[new])
        return predictions

    def _mean(self, columns: Array) -> Array:
        each = [booster.predict(columns, num_threads=1) for booster in self._boosters]
        return np.asarray(np.mean(each, axis=0))

    def means(self, X: Array, codes: Codes) -> Array:
        """Means of the targets."""
        return self.predict(X, codes)

    def moments(self, X: Array, codes: Codes) -> tuple[Array, Array]:
        """Means and standard deviations of the targets."""
        return self.predict(X, codes), np.where(codes < 0, self.sds[1], self.sds[0])

    def probabilities(self, X: Array, codes: Codes) -> Array:
        """Probabilities of the classes."""
        return probabilities_of(self.predict(X, codes), self.smallest)


def probabilities_of(predictions: Array, smallest: float) -> Array:
    """Probabilities of all classes, from those of the second if there are two; none is smaller."""
    if predictions.ndim == 1:
        predictions = np.column_stack([1.0 - predictions, predictions])
    bounded = np.maximum(predictions, smallest)
    return np.asarray(bounded / bounded.sum(axis=1, keepdims=True))
