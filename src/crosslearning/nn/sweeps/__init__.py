"""Sweeps over radii, seeds and baselines, and the choice of a radius."""

from crosslearning.nn.sweeps._selection import Selection, select_epsilon
from crosslearning.nn.sweeps._sweep import sweep

__all__ = ["Selection", "select_epsilon", "sweep"]
