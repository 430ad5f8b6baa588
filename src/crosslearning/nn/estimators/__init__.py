"""Networks as scikit-learn estimators."""

from crosslearning.nn.estimators.classifier import CrossNetClassifier
from crosslearning.nn.estimators.regressor import CrossNetRegressor

__all__ = ["CrossNetClassifier", "CrossNetRegressor"]
