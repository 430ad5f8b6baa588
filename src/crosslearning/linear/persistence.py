"""Saving and loading fitted linear models."""

from __future__ import annotations

import os
from io import BytesIO
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from crosslearning.archive import read_archive, write_archive
from crosslearning.convex.sums.statistics import Statistics
from crosslearning.evaluation import Comparison

_DATACLASSES, _KIND = (Comparison,), "linear model"  # dataclasses among fitted attributes
_JOINT = ("_gains", "_statistics")  # what contrasts and updates need, and predictions do not


class Saved:
    """A model that can be saved and loaded."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a file, without pickle."""
        state = state_of(self)
        joint = {name: vars(self)[name] for name in _JOINT if vars(self).get(name) is not None}
        if isinstance(statistics := joint.get("_statistics"), Statistics):
            buffer = BytesIO()
            statistics.save(buffer)
            joint["_statistics"] = np.frombuffer(buffer.getvalue(), dtype=np.uint8)
        state["joint"] = joint
        write_archive(path, _KIND, state, _DATACLASSES)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model written by :meth:`save`."""
        state = read_archive(path, _KIND, _DATACLASSES)
        if state["class"] != cls.__name__:
            raise ValueError(
                f"{path} holds a {state['class']}, not a {cls.__name__}. "
                f"Load it with {state['class']}.load."
            )
        model = model_of(state)
        joint = state["joint"]
        if "_statistics" in joint:
            joint["_statistics"] = Statistics.load(BytesIO(joint["_statistics"].tobytes()))
        vars(model).update(joint)
        return model  # type: ignore[no-any-return]


def state_of(model: Any) -> dict[str, Any]:
    """Class, parameters and fitted attributes of a model."""
    check_is_fitted(model)
    state = model.__getstate__()
    return {
        "class": type(model).__name__,
        "parameters": model.get_params(deep=False),
        "fitted": {name: value for name, value in state.items() if name.endswith("_")},
    }


def model_of(state: dict[str, Any]) -> Any:
    """Return the model with this state; its class is one of :mod:`crosslearning.linear`."""
    from crosslearning import linear

    if state["class"] not in linear.__all__:
        raise ValueError(f"This version of crosslearning has no estimator {state['class']}.")
    model = getattr(linear, state["class"])(**state["parameters"])
    vars(model).update(state["fitted"])
    return model
