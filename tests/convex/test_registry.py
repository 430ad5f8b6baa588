"""The registry of families, and what each tells of itself."""

import numpy as np
import pytest

from crosslearning.convex.families import (
    FAMILIES,
    REGISTRY,
    Bernoulli,
    Gamma,
    Gaussian,
    Poisson,
    Tweedie,
    family_of,
    recognised_family,
)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_is_made_from_the_attributes_of_an_estimator(name):
    attributes = {"df": 3.0, "power": 1.2, "quantile": 0.3, "overdispersion_": 2.0}
    family = family_of({"family": name, **attributes})
    assert type(family) is REGISTRY[name]
    assert (family.name, bool(family.words)) == (name, True)
    assert family.link in ("identity", "log")
    for parameter in family.parameters:
        assert getattr(family, parameter.rstrip("_")) == attributes[parameter]


@pytest.mark.parametrize(
    ("draw", "name", "words"),
    [
        (lambda rng: rng.poisson(2.0, 500), "poisson", "counts"),
        (lambda rng: rng.gamma(0.5, size=500), "gamma", "positive amounts"),
        (lambda rng: rng.normal(size=500), "gaussian", "numbers with decimals"),
        (lambda rng: rng.integers(50, 100, 500), "gaussian", "whole numbers"),
    ],
)
def test_families_are_recognised(draw, name, words):
    family, why = recognised_family(1.0 * draw(np.random.default_rng(0)))
    assert family == name
    assert why.startswith(words)


@pytest.mark.parametrize("family", [Gaussian(), Poisson(), Gamma(), Tweedie(1.4)], ids=str)
def test_the_deviance_compares_log_densities(family):
    y, score = np.array([0.7, 2.0, 5.0]), np.array([0.1, 0.4, 2.0])
    mean = family.mean(score)
    perfect = y if family.link == "identity" else np.log(y)
    logs = [family.log_density(y, s[:, None], 1.0) for s in (perfect, score)]
    np.testing.assert_allclose(family.deviance(y, mean), 2.0 * (logs[0] - logs[1]))
    np.testing.assert_allclose(family.deviance(y, y), 0.0, atol=1e-12)


def test_the_deviance_of_zero_is_finite():
    zero, mean = np.zeros(1), np.array([2.0])
    assert Poisson().deviance(zero, mean) == pytest.approx(4.0)
    assert np.isfinite(Tweedie().deviance(zero, mean))
    assert Bernoulli().deviance(zero, np.array([0.2])) == pytest.approx(-2.0 * np.log(0.8))
