"""The paper's Gaussian example, network and image experiment.

This package uses the paper's names: *consensus* is one pooled model, *agnostic* is separate models.
Algorithm 2 is ``project(..., method="subgradient")``.
"""

from typing import TYPE_CHECKING

from crosslearning.coupling import subgradient_iterates
from crosslearning.extras import lazy
from crosslearning.paper import gaussian
from crosslearning.paper.gaussian import *  # noqa: F403 - the names in its __all__

if TYPE_CHECKING:
    from crosslearning.paper.alexnet import alexnet256

__all__ = ["alexnet256", "gaussian", "subgradient_iterates", *gaussian.__all__]

__getattr__, __dir__ = lazy(globals(), {"alexnet": "alexnet256"})  # which needs torch
