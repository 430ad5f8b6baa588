"""One family of targets of each kind, with possible targets."""

from crosslearning.convex.families import (
    Bernoulli,
    Gamma,
    Gaussian,
    Multinomial,
    NegativeBinomial,
    Ordinal,
    Poisson,
    Quantile,
    Tweedie,
)

FAMILIES = [
    Gaussian(),
    Bernoulli(),
    Poisson(),
    Gamma(),
    Tweedie(1.3),
    Multinomial(4),
    Quantile(0.3, 0.5),
    NegativeBinomial(0.7),
    Ordinal((-1.0, 0.0, 1.5)),
]


def named(family):
    return type(family).__name__


def targets(family, n, rng):
    return {
        "Gaussian": rng.normal(size=n),
        "Quantile": rng.normal(size=n),
        "Bernoulli": rng.integers(2, size=n),
        "Poisson": rng.poisson(2.0, size=n),
        "NegativeBinomial": rng.poisson(2.0, size=n),
        "Gamma": rng.gamma(2.0, size=n),
        "Tweedie": rng.gamma(2.0, size=n) * rng.integers(2, size=n),
        "Multinomial": rng.integers(4, size=n),
        "Ordinal": rng.integers(4, size=n),
    }[named(family)].astype(float)
