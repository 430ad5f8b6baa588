"""Settings of the experiment with images: read from a TOML file, checked, compared."""

from __future__ import annotations

import math
import tomllib
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import Any, Literal

__all__ = ["ImagesConfig", "shipped_config"]

_CHOICES = {
    "model": ("alexnet256", "small_cnn"),
    "optimizer": ("adam", "sgd"),
    "schedule": ("constant", "cosine"),
}
_SHARES = {"train": False, "validation": False, "train_fraction": True}  # whether 1 is allowed


@dataclass(frozen=True)
class ImagesConfig:
    """Settings of the experiment; ``shipped_config`` has the paper's.

    Parameters
    ----------
    model : {"alexnet256", "small_cnn"}
        Network of `crosslearning.nn.architectures`.
    dropout : float
        Share of inputs that its linear layers drop in training.
    image_size : int
        Height and width to which images are resized.
    epochs : int
        Passes over the largest domain.
    batch : int
        Images per task and step.
    optimizer : {"sgd", "adam"}
        Method of the gradient steps.
    learning_rate, momentum : float
        Their length, and what SGD keeps of the last one.
    schedule : {"constant", "cosine"}
        Whether the learning rate falls to 0 along a cosine.
    radii : tuple of float
        Values of ε; 0 is consensus, ``math.inf`` agnostic training.
    seeds : tuple of int
        Each decides a split, a start and an order of the images.
    train, validation, train_fraction : float
        Share of the images to learn from, share of these kept to choose a radius, and share of
        the images to learn from that is used at all.

    Examples
    --------
    >>> shipped_config("paper").learning_rate
    0.001
    """

    model: str
    dropout: float
    image_size: int
    epochs: int
    batch: int
    optimizer: str
    learning_rate: float
    momentum: float
    schedule: str
    radii: tuple[float, ...]
    seeds: tuple[int, ...]
    train: float
    validation: float
    train_fraction: float

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            _require(name, getattr(self, name), getattr(self, name) in choices, _either(choices))
        for name in ("image_size", "epochs", "batch"):
            value = getattr(self, name)
            _require(name, value, value >= 1, "at least 1")
        for name, closed in _SHARES.items():
            value = getattr(self, name)
            allowed = 0 < value < 1 or (closed and value == 1)
            _require(name, value, allowed, "a share above 0 and " + _END[closed])
        rate = self.learning_rate
        _require("learning_rate", rate, 0 < rate < math.inf, "finite and positive")
        momentum = self.momentum
        _require("momentum", momentum, 0 <= momentum < 1, "at least 0 and below 1")
        object.__setattr__(self, "radii", _ascending("radii", self.radii))
        object.__setattr__(self, "seeds", _ascending("seeds", self.seeds))

    def identity(self) -> dict[str, Any]:
        """Return the settings that runs must share to be compared: all but radii and seeds."""
        return {k: v for k, v in asdict(self).items() if k not in ("radii", "seeds")}


_END = {False: "below 1", True: "at most 1"}


def _require(name: str, value: object, holds: bool, rule: str) -> None:
    if not holds:
        raise ValueError(f"`{name}` must be {rule}; got {value!r}.")


def _either(choices: tuple[str, ...]) -> str:
    return " or ".join(map(repr, choices))


def _ascending(name: str, values: Any) -> tuple[Any, ...]:
    """Sort values of at least 0 and drop repeated ones."""
    values = tuple(values)
    _require(name, values, bool(values), "one value or more")
    for value in values:
        _require(name, value, value >= 0, "at least 0")
    return tuple(sorted(set(values)))


def shipped_config(name: Literal["paper", "icons65"]) -> ImagesConfig:
    """Read a configuration of the package.

    Parameters
    ----------
    name : {"paper", "icons65"}
        The paper's, or a small one that takes minutes.

    Returns
    -------
    ImagesConfig
    """
    text = files(__package__).joinpath(f"{name}.toml").read_text(encoding="utf-8")
    return ImagesConfig(**tomllib.loads(text))
