"""Cross-learn any torch module: one model per task, none farther than ε from a common centre."""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:  # pragma: no cover - run by a test in a process of its own
    raise ImportError(
        "crosslearning.nn needs torch, which is an extra. Install it with "
        '`pip install "crosslearning[torch]"`.'
    ) from error

from crosslearning.nn import architectures
from crosslearning.nn.certificate import BlockCertificate, StepCertificate
from crosslearning.nn.task_models import TaskModels

__all__ = ["BlockCertificate", "StepCertificate", "TaskModels", "architectures"]
