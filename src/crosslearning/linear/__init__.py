"""Convex models for related tasks, solved exactly, as scikit-learn estimators."""

from crosslearning.evaluation import Comparison
from crosslearning.linear.logistic import CrossLogisticRegression
from crosslearning.linear.logistic_cv import CrossLogisticRegressionCV
from crosslearning.linear.path import CrossPath, cross_logistic_path, cross_ridge_path
from crosslearning.linear.ridge import CrossRidge
from crosslearning.linear.ridge_cv import CrossRidgeCV

__all__ = [
    "Comparison",
    "CrossLogisticRegression",
    "CrossLogisticRegressionCV",
    "CrossPath",
    "CrossRidge",
    "CrossRidgeCV",
    "cross_logistic_path",
    "cross_ridge_path",
]
