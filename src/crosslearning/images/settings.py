"""Settings of a training on images: defaults that suit a few thousand, checked, compared."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any


def _all_at_least_0(values: Any) -> bool:
    return bool(values) and all(value >= 0 for value in values)


_RULES: list[tuple[str, str, Callable[[Any], bool]]] = [
    ("image_size epochs batch", "at least 1", lambda value: value >= 1),
    ("optimizer", "'adam' or 'sgd'", lambda value: value in ("adam", "sgd")),
    ("schedule", "'constant' or 'cosine'", lambda value: value in ("constant", "cosine")),
    ("learning_rate", "finite and positive", lambda value: 0 < value < math.inf),
    ("momentum", "at least 0 and below 1", lambda value: 0 <= value < 1),
    ("weight_decay", "finite and at least 0", lambda value: 0 <= value < math.inf),
    ("train validation", "a share above 0 and below 1", lambda value: 0 < value < 1),
    ("train_fraction", "a share above 0 and at most 1", lambda value: 0 < value <= 1),
    ("epsilons seeds", "one or more numbers of at least 0", _all_at_least_0),
]
_NOT_SHARED = ("epsilons", "seeds", "baselines")
_OF_TRAINING = (
    "model", "epochs", "batch", "optimizer", "learning_rate", "momentum", "weight_decay",
    "schedule", "augment", "flip", "weights", "only", "blocks",
    "baselines",
)  # fmt: skip


@dataclass(frozen=True)
class TrainingSettings:
    """Settings of `train`; the defaults take minutes for a few thousand images on two cores.

    Parameters
    ----------
    model : str
        Network: a name in `crosslearning.nn.architectures`, ``"batchnorm_cnn"`` or
        ``"small_cnn"``, or ``"package.module:function"``, a function of the number of categories
        that returns a torch module.
    image_size, epochs, batch : int
        Height and width to which images are resized, passes over the largest domain, and images
        per domain and step.
    optimizer, learning_rate, momentum, weight_decay
        ``"sgd"`` or ``"adam"``, and their options.
    schedule : {"cosine", "constant"}
        Whether the learning rate falls to 0 along a cosine.
    augment, flip : bool
        Whether to shift training images a little and change their colours at random, and whether
        to mirror every second one as well: not where left and right make a difference.
    weights : str, optional
        A safetensors file to start from, all domains and the centre alike: tensors of the same
        name and shape are taken, and the others start at random.
    only : tuple of str
        Parts of the network to train, by the beginning of their names; by default all.
    blocks : dict from str to float or None
        Radii of blocks of parameters, by the beginning of their names; None stands for each of
        `epsilons`, and ``"*"`` for what no name matches, as in ``{"*": None, "classifier": inf}``.
    baselines : bool or tuple of str
        Whether to train, with the same budget, what else is usual: one network with BatchNorm
        statistics of all domains, own BatchNorm and the rest pooled (FedBN), own classifiers
        (FedPer), springs of three stiffnesses, and pooled networks that are fine-tuned; or a part
        of the names of those to train.
    backbone : str, optional
        In place of a network to train: linear heads on the features of this one, as `features`
        names it. The options of training are not for heads, which are solved.
    epsilons : tuple of float, optional
        Radii; 0 pools the domains, ``math.inf`` separates them. By default both ends and, between
        them, 2, 6 and 20 % of the norm of the network before training; of heads, 3 to 70 % of the
        radius at which they are separate.
    seeds : tuple of int
        Each decides a split, a start and an order of the images.
    train, validation, train_fraction : float
        Share of the images to learn from, share of these kept to choose a radius, and share of
        the images to learn from that is used at all.

    Examples
    --------
    >>> TrainingSettings(epochs=5, epsilons=(1.0, 0.0)).epsilons
    (0.0, 1.0)
    """

    model: str = "batchnorm_cnn"
    image_size: int = 64
    epochs: int = 12
    batch: int = 16
    optimizer: str = "sgd"
    learning_rate: float = 0.02
    momentum: float = 0.9
    weight_decay: float = 1e-4
    schedule: str = "cosine"
    augment: bool = True
    flip: bool = True
    weights: str | None = None
    only: tuple[str, ...] = ()
    blocks: dict[str, float | None] | None = None
    baselines: bool | tuple[str, ...] = False
    backbone: str | None = None
    epsilons: tuple[float, ...] | None = None
    seeds: tuple[int, ...] = (0,)
    train: float = 0.8
    validation: float = 0.2
    train_fraction: float = 1.0

    def __post_init__(self) -> None:
        for names, rule, holds in _RULES:
            for name in names.split():
                value = getattr(self, name)
                if not (holds(value) or (name == "epsilons" and value is None)):
                    raise ValueError(f"`{name}` must be {rule}; got {value!r}.")
        self._refuse_contradictions()
        for name in ("epsilons", "seeds"):
            if (values := getattr(self, name)) is not None:
                object.__setattr__(self, name, tuple(sorted(set(values))))

    def _refuse_contradictions(self) -> None:
        for name in _OF_TRAINING if self.backbone else ():
            if getattr(self, name) != getattr(type(self), name):
                raise ValueError(
                    f"`{name}` is for networks that are trained, and heads on a backbone are "
                    "solved. Leave one of the two out."
                )
        if self.blocks and list(self.blocks.values()).count(None) != 1:
            raise ValueError(
                "One of `blocks` must be None, to get each of `epsilons`, and all others a radius; "
                f"got {self.blocks}."
            )

    @property
    def model_name(self) -> str:
        """The function that makes the network, without its module."""
        if self.backbone:
            return f"linear heads on {self.backbone.rpartition(':')[2]}"
        return self.model.rpartition(":")[2]

    def identity(self) -> dict[str, Any]:
        """Return the settings that runs must share to be compared: all but radii and seeds."""
        found = {k: v for k, v in asdict(self).items() if k not in _NOT_SHARED}
        return found | {"only": list(self.only)}
