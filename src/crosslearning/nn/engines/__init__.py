"""Ways to compute the gradients of all tasks in a step; they agree but for rounding."""

from crosslearning.nn.engines.choice import Engine, choose_engine

__all__ = ["Engine", "choose_engine"]
