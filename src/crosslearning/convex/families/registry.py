"""Which family: from names and attributes of estimators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crosslearning.convex.families.base import Family, OneScore
from crosslearning.convex.families.classes import Bernoulli, Multinomial
from crosslearning.convex.families.gamma import Gamma
from crosslearning.convex.families.gaussian import Gaussian
from crosslearning.convex.families.poisson import Poisson
from crosslearning.convex.families.quantile import Quantile
from crosslearning.convex.families.student import Student
from crosslearning.convex.families.tweedie import Tweedie

_FAMILIES: dict[str, tuple[type[OneScore], tuple[str, ...]]] = {  # and names of their parameters
    "gaussian": (Gaussian, ()),
    "student": (Student, ("df",)),
    "poisson": (Poisson, ()),
    "gamma": (Gamma, ()),
    "tweedie": (Tweedie, ("power",)),
    "quantile": (Quantile, ("quantile",)),
}
FAMILIES = tuple(_FAMILIES)


def family_of_numbers(attributes: Mapping[str, Any]) -> OneScore:
    """Distribution of numeric targets, from a name in `FAMILIES`, ``family``, and its parameter."""
    family, parameters = _FAMILIES[attributes.get("family", "gaussian")]
    return family(*(attributes[name] for name in parameters))


def family_of_classes(n_classes: int) -> Bernoulli | Multinomial:
    """Distribution of a target that is one of several classes."""
    return Bernoulli() if n_classes == 2 else Multinomial(n_classes)


def family_of(attributes: Mapping[str, Any]) -> Family:
    """Distribution of the targets of an estimator with these attributes."""
    if "classes_" in attributes:
        return family_of_classes(len(attributes["classes_"]))
    return family_of_numbers(attributes)
