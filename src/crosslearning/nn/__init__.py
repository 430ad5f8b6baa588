"""Cross-learn any torch module: one model per task, all within ε of a common centre."""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:  # pragma: no cover - run by a test in a process of its own
    from crosslearning.extras import missing

    raise missing("crosslearning.nn", "torch") from error

from crosslearning.nn import architectures
from crosslearning.nn._estimators import CrossNetClassifier, CrossNetRegressor
from crosslearning.nn._evaluation import EpochRecord, History, evaluate
from crosslearning.nn._members import StepCertificate
from crosslearning.nn._sweep import Selection, select_epsilon, sweep
from crosslearning.nn._task_models import TaskModels
from crosslearning.nn._training import fit

__all__ = [
    "CrossNetClassifier",
    "CrossNetRegressor",
    "EpochRecord",
    "History",
    "Selection",
    "StepCertificate",
    "TaskModels",
    "architectures",
    "evaluate",
    "fit",
    "select_epsilon",
    "sweep",
]
