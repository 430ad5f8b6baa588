"""Intervals of the variances between tasks."""

import numpy as np
import pytest
from scipy.stats import chi2

from crosslearning.convex.evidence.gaussian import evidence_fit
from crosslearning.convex.families import Gaussian
from tests.support.evidence_oracles import glm_rows


def one_way(seed, n_tasks=12, size=8, sd=1.0, noise=1.0):
    rng = np.random.default_rng(seed)
    tasks = np.repeat(np.arange(n_tasks), size)
    y = sd * rng.normal(size=n_tasks)[tasks] + noise * rng.normal(size=n_tasks * size)
    ones = np.ones((len(y), 1))
    return y, glm_rows(ones, y, tasks, n_tasks, Gaussian()).moments()


def test_equally_large_tasks_have_the_interval_of_the_analysis_of_variance():
    n_tasks, size = 12, 400  # so many rows that the noise is known
    y, moments = one_way(0, n_tasks, size)
    fit = evidence_fit(moments, tol=1e-10)
    means = y.reshape(n_tasks, size).mean(axis=1)
    within = fit.noise_variance / size
    levels = [[0.975], [0.025]]
    ends = (n_tasks - 1) * means.var(ddof=1) / chi2.ppf(levels, n_tasks - 1) - within
    np.testing.assert_allclose(fit.variance_law.interval(0.95), ends, rtol=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("sd", [0.0, 0.3, 1.0])
def test_intervals_cover_the_variance(sd):
    inside = 0
    for seed in range(100):
        lower, upper = evidence_fit(one_way(seed, sd=sd)[1]).variance_law.interval(0.9)
        inside += lower[0] <= sd**2 <= upper[0]
    assert 84 <= inside <= 96 or (sd == 0.0 and inside >= 90)


def test_a_variance_that_is_not_estimated_has_no_interval():
    fit = evidence_fit(one_way(0)[1], "pooled")
    assert np.isnan(fit.variance_law.interval(0.9)).all()
