"""The settings of the paper's experiment, and of a small one like it."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Literal

from crosslearning.images.settings import TrainingSettings

__all__ = ["shipped_config"]


def shipped_config(name: Literal["paper", "icons65"]) -> TrainingSettings:
    """Read a configuration of the package.

    Parameters
    ----------
    name : {"paper", "icons65"}
        The paper's, or a small one that takes minutes.

    Returns
    -------
    TrainingSettings

    Examples
    --------
    >>> shipped_config("paper").learning_rate
    0.001
    """
    text = files(__package__).joinpath(f"{name}.toml").read_text(encoding="utf-8")
    return TrainingSettings(**tomllib.loads(text))
