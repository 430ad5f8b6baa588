"""The paper's Gaussian example, network and image experiment.

This package uses the paper's names: *consensus* is one pooled model, *agnostic* is separate models.
Algorithm 2 is ``project(..., method="subgradient")``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from crosslearning.coupling import subgradient_iterates
from crosslearning.paper import gaussian
from crosslearning.paper.gaussian import *  # noqa: F403 - the names in its __all__

if TYPE_CHECKING:
    from crosslearning.paper.alexnet import alexnet256

__all__ = ["alexnet256", "gaussian", "subgradient_iterates", *gaussian.__all__]


def __getattr__(name: str) -> Any:
    """Import the network lazily, since it needs torch."""
    if name == "alexnet256":
        return import_module("crosslearning.paper.alexnet").alexnet256
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
