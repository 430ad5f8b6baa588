"""Settings of a training on images, with defaults for a few thousand of them."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

_RULES: list[tuple[str, str, Callable[[Any], bool]]] = [
    ("image_size epochs batch", "at least 1", lambda value: value >= 1),
    ("optimizer", "'adam' or 'sgd'", lambda value: value in ("adam", "sgd")),
    ("schedule", "'constant' or 'cosine'", lambda value: value in ("constant", "cosine")),
    ("learning_rate", "finite and positive", lambda value: 0 < value < math.inf),
    ("momentum", "at least 0 and below 1", lambda value: 0 <= value < 1),
    ("weight_decay", "finite and at least 0", lambda value: 0 <= value < math.inf),
    ("train validation", "a share above 0 and below 1", lambda value: 0 < value < 1),
    ("pooled_share", "a share from 0 to 1", lambda value: 0 <= value <= 1),
    ("train_fraction", "a share above 0 and at most 1", lambda value: 0 < value <= 1),
    ("blocks", "None for exactly one block", lambda value: [*value.values()].count(None) == 1),
    ("epsilon_by", "'domain' or 'all'", lambda value: value in ("domain", "all")),
    ("epsilons seeds", "one or more numbers of at least 0", lambda v: v and all(x >= 0 for x in v)),
]
_OF_TRAINING = (
    "model", "epochs", "batch", "optimizer", "learning_rate", "momentum", "weight_decay",
    "schedule", "pooled_share", "augment", "flip", "weights", "blocks", "baselines",
)  # fmt: skip


@dataclass(frozen=True)
class TrainingSettings:
    """Settings of `train`; the defaults take minutes for a few thousand images on two cores.

    Parameters
    ----------
    model : str
        ``"batchnorm_cnn"``, ``"small_cnn"``, or ``"package.module:function"``, a function of the
        number of categories that returns a torch module. It may freeze parts of this with
        ``requires_grad_(False)``.
    image_size, epochs, batch : int
        Height and width of the resized images, passes over the largest domain, and images per
        domain and step.
    optimizer, learning_rate, momentum, weight_decay
        ``"sgd"`` or ``"adam"``, and their options.
    schedule : {"cosine", "constant"}
        Whether the learning rate decays to 0 along a cosine.
    pooled_share : float
        Share of the epochs, the first ones, in which ε is 0 at all radii but infinity; with 0,
        radii apply from the first step, as in the paper.
    augment, flip : bool
        Whether to shift and recolour training images at random, and to mirror half of them too.
    weights : str, optional
        A safetensors file with initial weights for all domains and the centre: tensors of the same
        name and shape are used, and all others are named in the results.
    blocks : dict from str to float or None
        Radii of blocks of parameters, by prefix; None stands for each of `epsilons`, and ``"*"``
        for parameters that no prefix matches, as in ``{"*": None, "classifier": inf}``.
    baselines : bool or tuple of str
        Whether to train the usual alternatives too: pooled with shared BatchNorm statistics, own
        BatchNorm and the rest pooled (FedBN), own classifiers (FedPer), springs of three
        stiffnesses, and pooled, then fine-tuned for the rest of the epochs; or parts of the names
        of some of them.
    backbone : str, optional
        Fit linear heads on the features of this network instead, named as in `features`. The
        options of training do not apply.
    epsilons : tuple of float, optional
        Radii; 0 pools the domains, ``math.inf`` separates them. By default both, and 1, 2, 6 and
        20 % of the norm of the network, or for heads 3 to 70 % of the radius of separate ones.
    epsilon_by : {"domain", "all"}
        Whether each domain has its best radius, or all have the same one, as in the paper.
    seeds : tuple of int
        Each determines a split, initial weights and an order of the images.
    train, validation, train_fraction : float
        Shares of the training images, of these to choose a radius, and of these to use at all.

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
    pooled_share: float = 0.75
    augment: bool = True
    flip: bool = True
    weights: str | None = None
    blocks: dict[str, float | None] | None = None
    baselines: bool | tuple[str, ...] = False
    backbone: str | None = None
    epsilons: tuple[float, ...] | None = None
    epsilon_by: str = "domain"
    seeds: tuple[int, ...] = (0,)
    train: float = 0.8
    validation: float = 0.2
    train_fraction: float = 1.0

    def __post_init__(self) -> None:
        for names, rule, holds in _RULES:
            for name in names.split():
                value = getattr(self, name)
                if value != getattr(type(self), name) and not holds(value):
                    raise ValueError(f"`{name}` must be {rule}; got {value!r}.")
        for name in _OF_TRAINING if self.backbone else ():
            if getattr(self, name) != getattr(type(self), name):
                raise ValueError(
                    f"`{name}` applies to networks that are trained, not to heads on a backbone. "
                    "Omit it or `backbone`."
                )
        for name in ("epsilons", "seeds"):
            if values := getattr(self, name):
                object.__setattr__(self, name, tuple(sorted(set(values))))

    @property
    def model_name(self) -> str:
        """Name of the network, without its module."""
        name = (self.backbone or self.model).rpartition(":")[2]
        return f"linear heads on {name}" if self.backbone else name

    def applied(self) -> dict[str, Any]:
        """Return the settings that have an effect: heads on a backbone have none of training."""
        without = _OF_TRAINING if self.backbone else ()
        return {name: value for name, value in asdict(self).items() if name not in without}
