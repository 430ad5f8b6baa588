"""Distributions of a target given its linear scores, one file each, and their registry.

A family has a log density and three derivatives of it. All are log-concave in their scores, except
Student's, which has its own fit.

Legend
------
y : targets, of any shape (...).
scores : linear predictors of shape (..., n_scores): one, or one less than the classes if those are
    more than two. `score` is the only one of a family that has one.
slope, curvature : first derivative of the log density by the scores, and minus the second.
dispersion : factor of the variance of the targets, by which slope and curvature are divided.
"""

from crosslearning.convex.families.base import Family, OneScore
from crosslearning.convex.families.classes import Bernoulli, Multinomial, contrasts
from crosslearning.convex.families.gamma import Gamma
from crosslearning.convex.families.gaussian import Gaussian
from crosslearning.convex.families.negative_binomial import NegativeBinomial
from crosslearning.convex.families.ordinal import Ordinal
from crosslearning.convex.families.poisson import Poisson
from crosslearning.convex.families.quantile import Quantile
from crosslearning.convex.families.registry import (
    FAMILIES,
    LEARNED,
    REGISTRY,
    family_of,
    family_of_classes,
    family_of_numbers,
    recognised_family,
)
from crosslearning.convex.families.student import Student
from crosslearning.convex.families.tweedie import Tweedie

__all__ = [
    "AVERAGED", "FAMILIES", "LEARNED", "REGISTRY", "Bernoulli", "Family", "Gamma", "Gaussian",
    "Multinomial", "NegativeBinomial", "OneScore", "Ordinal", "Poisson", "Quantile", "Student",
    "Tweedie", "contrasts", "family_of", "family_of_classes", "family_of_numbers",
    "recognised_family",
]  # fmt: skip

AVERAGED = Bernoulli, Multinomial, Ordinal, Poisson  # posteriors of these are averaged
