"""Train related tasks together, each with its own model, all within ε of a common centre.

>>> from crosslearning import project
>>> project([[4.0, 0.0], [0.0, 0.0], [-1.0, 0.0]], epsilon=2.0).center
array([1.5, 0. ])
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crosslearning.convex.sums.statistics import Statistics
    from crosslearning.coupling import Projection, Status, project, prox, smallest_enclosing_ball
    from crosslearning.evaluation import compare
    from crosslearning.exceptions import ConvergenceWarning
    from crosslearning.linear import (
        CrossBayesianGLM,
        CrossBayesianLogisticRegression,
        CrossBayesianRidge,
        CrossLogisticRegression,
        CrossLogisticRegressionCV,
        CrossRidge,
        CrossRidgeCV,
        CrossStackingClassifier,
        CrossStackingRegressor,
        SplineFeatures,
        cross_logistic_path,
        cross_ridge_path,
    )
    from crosslearning.tables.estimators import CrossClassifier, CrossRegressor, load
    from crosslearning.tether import Tether

__version__ = "0.1.0"

__all__ = [
    "ConvergenceWarning",
    "CrossBayesianGLM",
    "CrossBayesianLogisticRegression",
    "CrossBayesianRidge",
    "CrossClassifier",
    "CrossLogisticRegression",
    "CrossLogisticRegressionCV",
    "CrossRegressor",
    "CrossRidge",
    "CrossRidgeCV",
    "CrossStackingClassifier",
    "CrossStackingRegressor",
    "Projection",
    "SplineFeatures",
    "Statistics",
    "Status",
    "Tether",
    "compare",
    "cross_logistic_path",
    "cross_ridge_path",
    "load",
    "project",
    "prox",
    "smallest_enclosing_ball",
]

_ROOMS = {
    "ConvergenceWarning": "exceptions",
    "Statistics": "convex.sums.statistics",
    "Tether": "tether",
    "compare": "evaluation",
    **dict.fromkeys(
        ("Projection", "Status", "project", "prox", "smallest_enclosing_ball"), "coupling"
    ),
    **dict.fromkeys(("CrossClassifier", "CrossRegressor", "load"), "tables.estimators"),
}


def __getattr__(name: str) -> Any:
    """Import lazily, since some modules are slow to import."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    room = import_module(f"crosslearning.{_ROOMS.get(name, 'linear')}")
    return globals().setdefault(name, getattr(room, name))


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
