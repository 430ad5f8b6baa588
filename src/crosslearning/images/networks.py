"""The network of a training: found by its name, tried once, and measured for its radii."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import torch
from safetensors.torch import load_file

from crosslearning.images.settings import TrainingSettings
from crosslearning.nn import TaskModels, architectures
from crosslearning.nn._seeds import build

_NAMES = ("batchnorm_cnn", "small_cnn")
_SHARES = (0.02, 0.06, 0.2)  # of the norm of the network


def network(settings: TrainingSettings, n_categories: int) -> Callable[[], torch.nn.Module]:
    """Return what makes the network of the settings, after a try with one image."""
    make = partial(_start, _function(settings.model), settings, n_categories)
    module = build(make, 0)
    image = torch.zeros(1, 3, settings.image_size, settings.image_size)
    try:
        with torch.no_grad():
            shape = tuple(module.eval()(image).shape)
    except RuntimeError as error:
        raise ValueError(
            f"{settings.model_name} cannot take images of {settings.image_size} by "
            f"{settings.image_size} pixels ({error}). Use larger images or another model."
        ) from error
    if shape != (1, n_categories):
        raise ValueError(
            f"The model must give one number for each of the {n_categories} categories; "
            f"{settings.model} gives shape {shape[1:]} for an image."
        )
    return make


def _start(function: Any, settings: TrainingSettings, n_categories: int) -> torch.nn.Module:
    """Make the network, with the weights to start from, and only some parts to be trained."""
    module: torch.nn.Module = function(n_categories)
    if settings.weights:
        wanted = module.state_dict()
        stored = load_file(settings.weights)
        fitting = {
            name: value
            for name, value in stored.items()
            if name in wanted and value.shape == wanted[name].shape
        }
        if not fitting:
            raise ValueError(
                f"{settings.weights} has no tensor of a name and shape that {settings.model_name} "
                f"has, such as {next(iter(wanted), None)!r}."
            )
        module.load_state_dict(fitting, strict=False)
    for name, parameter in module.named_parameters() if settings.only else ():
        parameter.requires_grad_(any(f"{name}.".startswith(f"{one}.") for one in settings.only))
    if not any(parameter.requires_grad for parameter in module.parameters()):
        names = ", ".join(dict.fromkeys(name.split(".")[0] for name, _ in module.named_children()))
        raise ValueError(f"Nothing is trained by {settings.only}; the parts are {names}.")
    return module


def default_epsilons(
    make: Callable[[], torch.nn.Module], blocks: dict[str, float | None] | None = None
) -> tuple[float, ...]:
    """Radii from pooled to separate: between the ends, shares of the norm before training."""
    module = build(make, 0)
    tether = dict.fromkeys(blocks or {"*": None}, 1.0)
    named = {one.name: one.parameters for one in TaskModels(module, [0], epsilon=tether).blocks}
    chosen = named[next(name for name, radius in (blocks or {"*": None}).items() if radius is None)]
    parameters = [module.get_parameter(name).detach() for name in chosen]
    norm = float(torch.nn.utils.parameters_to_vector(parameters).norm())
    return (0.0, *(float(f"{share * norm:.2g}") for share in _SHARES), torch.inf)


def _function(model: str) -> Callable[[int], Any]:
    if ":" not in model and model not in _NAMES:
        raise ValueError(
            f"`model` must be {' or '.join(map(repr, _NAMES))}, or 'package.module:function'; "
            f"got {model!r}."
        )
    return named_function(model)


def named_function(model: str) -> Callable[..., Any]:
    """Find ``package.module:function``, or a function in `architectures`."""
    module, colon, name = model.rpartition(":")
    try:
        found = getattr(import_module(module) if colon else architectures, name)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"There is no model {model!r}: {error}.") from error
    return found  # type: ignore[no-any-return]
