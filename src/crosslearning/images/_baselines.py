"""The usual alternatives to a radius, and how they compare."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from crosslearning.images import _findings
from crosslearning.images._runs import Runs, by_domain, macro

_STIFFNESSES = (1.0, 10.0, 100.0)


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


def judged(runs: Runs, others: Mapping[str, Runs]) -> list[dict[str, Any]]:
    """Test accuracy of each baseline, with the spring that is best on the validation images.

    The gain is that of the best radius between 0 and infinity by validation, paired by seed.
    """
    springs = [name for name in others if name.startswith("spring")]
    kept = {name: one for name, one in others.items() if name not in springs}
    if springs:
        kept["spring"] = others[max(springs, key=lambda one: macro(others[one].validation).mean())]
    accuracies = {name: by_domain(one.test)[0] for name, one in kept.items()}
    cross = _findings.places(runs).get("cross")
    paired = None
    if cross is not None:
        every = accuracies | {"cross": by_domain(runs.test)[cross]}
        paired = _findings.pairs(runs, every)
    return [
        {
            "method": name,
            "test": _findings.spread(values.mean(-1)),
            "by_seed": values.mean(-1),
            **_findings.gain(paired, name),
        }
        for name, values in accuracies.items()
    ]
