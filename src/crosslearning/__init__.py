"""Train related tasks together, each with its own model, none farther than ε from a common centre.

>>> from crosslearning import project
>>> project([[4.0, 0.0], [0.0, 0.0], [-1.0, 0.0]], epsilon=2.0).center
array([1.5, 0. ])
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from crosslearning.coupling import Projection, Status, project, prox, smallest_enclosing_ball
from crosslearning.tether import Tether

if TYPE_CHECKING:
    from crosslearning.exceptions import ConvergenceWarning
    from crosslearning.linear import (
        CrossLogisticRegression,
        CrossLogisticRegressionCV,
        CrossRidge,
        CrossRidgeCV,
        cross_logistic_path,
        cross_ridge_path,
    )

__version__ = "0.1.0"

__all__ = [
    "ConvergenceWarning",
    "CrossLogisticRegression",
    "CrossLogisticRegressionCV",
    "CrossRidge",
    "CrossRidgeCV",
    "Projection",
    "Status",
    "Tether",
    "cross_logistic_path",
    "cross_ridge_path",
    "project",
    "prox",
    "smallest_enclosing_ball",
]


def __getattr__(name: str) -> Any:
    """Import what needs scikit-learn when it is asked for: that takes long to import."""
    if name in __all__:
        room = "exceptions" if name == "ConvergenceWarning" else "linear"
        return getattr(import_module(f"crosslearning.{room}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
