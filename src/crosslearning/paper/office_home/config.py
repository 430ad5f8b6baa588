"""Settings of the experiment with images: read from a TOML file, checked, compared."""

from __future__ import annotations

import math
import tomllib
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ImagesConfig", "shipped_config"]


def _one_of(*choices: str) -> tuple[str, Callable[[Any], bool]]:
    return " or ".join(map(repr, choices)), lambda value: value in choices


_COUNT = ("at least 1", lambda value: value >= 1)
_SHARE = ("a share above 0 and below 1", lambda value: 0 < value < 1)
_NUMBERS = (
    "one or more numbers of at least 0",
    lambda values: bool(values) and all(value >= 0 for value in values),
)
_SMALLEST = {"alexnet256": 63, "small_cnn": 4}  # images from which pooling leaves anything
_RULES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "model": _one_of(*_SMALLEST),
    "epochs": _COUNT,
    "batch": _COUNT,
    "optimizer": _one_of("adam", "sgd"),
    "learning_rate": ("finite and positive", lambda value: 0 < value < math.inf),
    "momentum": ("at least 0 and below 1", lambda value: 0 <= value < 1),
    "schedule": _one_of("constant", "cosine"),
    "radii": _NUMBERS,
    "seeds": _NUMBERS,
    "train": _SHARE,
    "validation": _SHARE,
    "train_fraction": ("a share above 0 and at most 1", lambda value: 0 < value <= 1),
}


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
        Height and width to which images are resized; at least 63 for AlexNet, 4 for the small.
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
        for name, (rule, holds) in _RULES.items():
            if not holds(value := getattr(self, name)):
                raise ValueError(f"`{name}` must be {rule}; got {value!r}.")
        if self.image_size < _SMALLEST[self.model]:
            raise ValueError(
                f"`image_size` must be at least {_SMALLEST[self.model]} for {self.model}; "
                f"got {self.image_size}. Use larger images or another model."
            )
        for name in ("radii", "seeds"):
            object.__setattr__(self, name, tuple(sorted(set(getattr(self, name)))))

    def identity(self) -> dict[str, Any]:
        """Return the settings that runs must share to be compared: all but radii and seeds."""
        return {k: v for k, v in asdict(self).items() if k not in ("radii", "seeds")}


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
