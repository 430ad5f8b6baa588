"""The network of a training, its default radii, and the usual alternatives to a radius."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import torch
from safetensors.torch import load_file
from torch import nn

from crosslearning.images.settings import TrainingSettings
from crosslearning.nn import TaskModels, architectures
from crosslearning.nn._seeds import build

_NAMES = ("batchnorm_cnn", "small_cnn")
_SHARES = (0.01, 0.02, 0.06, 0.2)  # of the norm of the network
_STIFFNESSES = (1.0, 10.0, 100.0)


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
    make = partial(_start, named_function(settings.model), settings, n_categories)
    module = build(make, 0)
    image = torch.zeros(1, 3, settings.image_size, settings.image_size)
    try:
        with torch.no_grad():
            shape = tuple(module.eval()(image).shape)
    except RuntimeError as error:
        raise ValueError(
            f"{settings.model_name} must accept images of {settings.image_size} by "
            f"{settings.image_size} pixels ({error}). Use larger images or another model."
        ) from error
    if shape != (1, n_categories):
        raise ValueError(
            f"The model must return one number for each of the {n_categories} categories; "
            f"{settings.model} returns shape {shape[1:]} for an image."
        )
    return make


def _start(function: Any, settings: TrainingSettings, n_categories: int) -> nn.Module:
    """Make the network, load initial weights, and freeze what is not to be trained."""
    module: nn.Module = function(n_categories)
    if settings.weights:
        expected = module.state_dict()
        stored = load_file(settings.weights)
        fitting = {
            name: value
            for name, value in stored.items()
            if name in expected and value.shape == expected[name].shape
        }
        if not fitting:
            raise ValueError(
                f"{settings.weights} must hold a tensor with a name and shape of "
                f"{settings.model_name}, such as {next(iter(expected), None)!r}; it holds none."
            )
        module.load_state_dict(fitting, strict=False)
    for name, parameter in module.named_parameters() if settings.only else ():
        parameter.requires_grad_(any(f"{name}.".startswith(f"{one}.") for one in settings.only))
    if not any(parameter.requires_grad for parameter in module.parameters()):
        names = ", ".join(dict.fromkeys(name.split(".")[0] for name, _ in module.named_children()))
        raise ValueError(f"`only` must name parts among {names}; got {settings.only}.")
    return module


def default_epsilons(
    make: Callable[[], nn.Module], blocks: dict[str, float | None] | None = None
) -> tuple[float, ...]:
    """Both ends, and shares of the norm of the block of parameters that gets the radii."""
    module = build(make, 0)
    blocks = blocks or {"*": None}
    models = TaskModels(module, [0], epsilon=dict.fromkeys(blocks, 1.0))
    named = {one.name: one.parameters for one in models.blocks}
    chosen = next(name for name, radius in blocks.items() if radius is None)
    parameters = [module.get_parameter(name).detach() for name in named[chosen]]
    norm = float(nn.utils.parameters_to_vector(parameters).norm())
    return (0.0, *(float(f"{share * norm:.2g}") for share in _SHARES), math.inf)


def named_function(model: str) -> Callable[..., Any]:
    """Find ``package.module:function``, or a function in `architectures`."""
    module, colon, name = model.rpartition(":")
    try:
        function = getattr(import_module(module) if colon else architectures, name)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"Model {model!r} cannot be imported: {error}.") from error
    return function  # type: ignore[no-any-return]


def baselines_of(module: nn.Module, selected: bool | Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return arguments of `sweep` by name; springs of several stiffnesses begin with "spring".

    ``together`` stands for one network that sees the domains mixed, and so shares all statistics.
    """
    named = [(name, part) for name, part in module.named_modules() if name]
    norms = [name for name, part in named if isinstance(part, nn.modules.batchnorm._BatchNorm)]
    linear = [name for name, part in named if isinstance(part, nn.Linear)]
    settings: dict[str, dict[str, Any]] = {}
    if norms:
        pooled = {"epsilons": 0.0, "blocks": None, "together": True}
        settings["pooled, shared BatchNorm statistics"] = pooled
    for label, free in (("own BatchNorm (FedBN)", norms), ("own classifier (FedPer)", linear[-1:])):
        if free:
            blocks = {"*": None, **dict.fromkeys(free, math.inf)}
            settings[label] = {"epsilons": 0.0, "blocks": blocks, "baselines": ()}
    for stiffness in _STIFFNESSES:
        spring = {"baselines": "spring", "stiffness": (stiffness,), "blocks": None, "epsilons": ()}
        settings[f"spring {stiffness}"] = spring
    tuned = {"baselines": "fine-tuned", "blocks": None, "epsilons": ()}
    settings["pooled, then fine-tuned"] = tuned
    names = [""] if selected is True else selected or []
    return {label: how for label, how in settings.items() if any(name in label for name in names)}
