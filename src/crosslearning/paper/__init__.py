"""The paper in your hand: its Gaussian example, its network, its experiment with images.

Here the ends of the path have the paper's names: *consensus* is one pooled model, *agnostic* is
separate models. Its Algorithm 2 is ``project(..., method="subgradient")``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from crosslearning.coupling import subgradient_iterates
from crosslearning.paper import gaussian
from crosslearning.paper.gaussian import (
    MonteCarlo,
    TwoMeans,
    beneficial_from,
    best_max_gap,
    cross_means,
    james_stein,
    monte_carlo,
    mse,
    mse_derivative,
    two_means,
)

if TYPE_CHECKING:
    from crosslearning.paper.alexnet import alexnet256

__all__ = [
    "MonteCarlo",
    "TwoMeans",
    "alexnet256",
    "beneficial_from",
    "best_max_gap",
    "cross_means",
    "gaussian",
    "james_stein",
    "monte_carlo",
    "mse",
    "mse_derivative",
    "subgradient_iterates",
    "two_means",
]


def __getattr__(name: str) -> Any:
    """Import the network, which needs torch, when it is asked for."""
    if name == "alexnet256":
        return import_module("crosslearning.paper.alexnet").alexnet256
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
