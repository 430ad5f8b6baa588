"""Train related tasks together, each with its own model, all within ε of a common centre.

>>> from crosslearning import project
>>> project([[4.0, 0.0], [0.0, 0.0], [-1.0, 0.0]], epsilon=2.0).center
array([1.5, 0. ])
"""

from typing import TYPE_CHECKING

from crosslearning.extras import lazy

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

__getattr__, __dir__ = lazy(
    globals(),
    {
        "convex.sums.statistics": "Statistics",
        "coupling": "Projection Status project prox smallest_enclosing_ball",
        "evaluation": "compare",
        "exceptions": "ConvergenceWarning",
        "linear": """CrossBayesianGLM CrossBayesianLogisticRegression CrossBayesianRidge
            CrossLogisticRegression CrossLogisticRegressionCV CrossRidge CrossRidgeCV
            CrossStackingClassifier CrossStackingRegressor SplineFeatures
            cross_logistic_path cross_ridge_path""",
        "tables.estimators": "CrossClassifier CrossRegressor load",
        "tether": "Tether",
    },
)
