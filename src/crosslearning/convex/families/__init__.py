"""Distributions of a target given its linear scores, by kind of target, and their registry.

All are log-concave in their scores, except Student's, which has its own fit.

Legend
------
y : targets, of any shape (...).
scores : linear predictors of shape (..., n_scores): one, or one less than the classes if those are
    more than two. `score` is the only one of a family that has one.
slope, curvature : first derivative of the log density by the scores, and minus the second.
dispersion : factor of the variance of the targets, by which slope and curvature are divided.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from crosslearning.convex.families.base import Family, OneScore
from crosslearning.convex.families.classes import Bernoulli, Multinomial, Ordinal, contrasts
from crosslearning.convex.families.gaussian import Gaussian, Quantile, Student
from crosslearning.convex.families.positive import Gamma, NegativeBinomial, Poisson, Tweedie
from crosslearning.tether import Array

__all__ = [
    "AVERAGED", "FAMILIES", "LEARNED", "REGISTRY", "Bernoulli", "Family", "Gamma", "Gaussian",
    "Multinomial", "NegativeBinomial", "OneScore", "Ordinal", "Poisson", "Quantile", "Student",
    "Tweedie", "contrasts", "family_of", "recognised_family",
]  # fmt: skip

AVERAGED = Bernoulli, Multinomial, Ordinal, Poisson  # posteriors of these are averaged

_FAMILIES: list[type[OneScore]]
_FAMILIES = [Gaussian, Student, Poisson, NegativeBinomial, Gamma, Tweedie, Quantile]
REGISTRY = {family.name: family for family in _FAMILIES}
FAMILIES = tuple(REGISTRY)
_WITH_SHAPES: list[type[Family]] = [*_FAMILIES, Ordinal]
LEARNED = [name for family in _WITH_SHAPES for name in family.learned()]


def recognised_family(y: Array) -> tuple[str, str]:
    """Return the name of the family that numbers look like, and why."""
    for name, family in REGISTRY.items():
        if why := family.recognised(y):
            return name, why
    whole = bool(np.all(y == np.floor(y)))
    return "gaussian", "whole numbers" if whole else "numbers with decimals"


def family_of(attributes: Mapping[str, Any]) -> Family:
    """Distribution of the targets of an estimator with these attributes."""
    if "classes_" not in attributes:
        return REGISTRY[attributes.get("family", "gaussian")].of(attributes)
    n_classes = len(attributes["classes_"])
    if n_classes == 2:
        return Bernoulli()
    return Ordinal.of(attributes) if attributes.get("ordered") else Multinomial(n_classes)
