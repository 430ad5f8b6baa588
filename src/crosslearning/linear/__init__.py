"""Convex models for related tasks, solved exactly, as scikit-learn estimators."""

from typing import TYPE_CHECKING

from crosslearning.extras import lazy

if TYPE_CHECKING:
    from crosslearning.evaluation import Comparison
    from crosslearning.linear.bayesian import (
        CrossBayesianGLM,
        CrossBayesianLogisticRegression,
        CrossBayesianRidge,
    )
    from crosslearning.linear.logistic import CrossLogisticRegression, CrossLogisticRegressionCV
    from crosslearning.linear.path import CrossPath, cross_logistic_path, cross_ridge_path
    from crosslearning.linear.ridge import CrossRidge, CrossRidgeCV
    from crosslearning.linear.splines import SplineFeatures
    from crosslearning.linear.stacking import CrossStackingClassifier, CrossStackingRegressor
    from crosslearning.linear.summary import Summary

__all__ = [
    "Comparison", "CrossBayesianGLM", "CrossBayesianLogisticRegression", "CrossBayesianRidge",
    "CrossLogisticRegression", "CrossLogisticRegressionCV", "CrossPath", "CrossRidge",
    "CrossRidgeCV", "CrossStackingClassifier", "CrossStackingRegressor", "SplineFeatures",
    "Summary", "cross_logistic_path", "cross_ridge_path",
]  # fmt: skip

__getattr__, __dir__ = lazy(
    globals(),
    {
        "_estimator": "Comparison",
        "bayesian": "CrossBayesianGLM CrossBayesianLogisticRegression CrossBayesianRidge",
        "logistic": "CrossLogisticRegression CrossLogisticRegressionCV",
        "path": "CrossPath cross_logistic_path cross_ridge_path",
        "ridge": "CrossRidge CrossRidgeCV",
        "splines": "SplineFeatures",
        "stacking": "CrossStackingClassifier CrossStackingRegressor",
        "summary": "Summary",
    },
)
