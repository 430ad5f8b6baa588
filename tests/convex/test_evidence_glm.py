"""Laplace's approximation: exact where it is, against quadrature and optimisers where it is not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import logsumexp
from scipy.stats import norm

from crosslearning.convex.evidence.gaussian import evidence_fit
from crosslearning.convex.evidence.laplace import laplace_fit, nearest_gaussians
from crosslearning.convex.evidence.mode import LaplaceData
from crosslearning.convex.evidence.posterior import EvidenceStatus, Posterior
from crosslearning.convex.families import (
    Bernoulli,
    Gamma,
    Gaussian,
    Multinomial,
    Poisson,
    Student,
    Tweedie,
)
from crosslearning.convex.sums.rows import score_covariances
from tests.support.evidence_oracles import Rows, glm_rows, log_evidence, new_tasks_of
from tests.support.families import FAMILIES, named, targets


def fitted(X, y, tasks, n_tasks, family, *, weights=None, offset=None, intercept=True, **options):
    rows = glm_rows(
        X, y, tasks, n_tasks, family, weights=weights, offset=offset, intercept=intercept
    )
    return laplace_fit(rows, **options)


def random_rows(family, seed=0, n_tasks=6, p=3, n=90):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(n, p - 1)), np.ones(n)])
    tasks = np.concatenate([np.arange(n_tasks), rng.integers(n_tasks, size=n - n_tasks)])
    offset = 0.3 * rng.normal(size=(n, family.n_scores))
    weights = rng.uniform(0.5, 2.0, size=n)
    y = targets(family, n, rng)
    return glm_rows(X, y, tasks, n_tasks, family, weights=weights, offset=offset)


def data_of(rows, dispersion=1.0):
    return LaplaceData.of(rows, dispersion=dispersion)


@pytest.mark.parametrize("family", FAMILIES, ids=named)
def test_slopes_are_those_of_differences(family):
    rows = random_rows(family)
    data, p, h = data_of(rows, 0.7 if family.has_dispersion else 1.0), rows.n_parameters, 1e-4
    rng = np.random.default_rng(1)
    root, direction = 0.6 * rng.normal(size=(p, p)), rng.normal(size=(p, p))
    point = data.at(root, 1.5)
    up, down = (data.at(root + s * h * direction, 1.5).value for s in (1, -1))
    along = 2.0 * np.sum(point.slopes[0] @ root * direction)
    assert along == pytest.approx((up - down) / (2 * h), rel=1e-4, abs=1e-4)
    up, down = (data.at(root, 1.5 + s * h).value for s in (1, -1))
    assert point.slope_of_ratio.sum() == pytest.approx((up - down) / (2 * h), rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("family", FAMILIES, ids=named)
def test_the_mode_is_that_of_a_general_optimiser(family):
    rows = random_rows(family, n_tasks=3, n=45)
    data, p = data_of(rows), rows.n_parameters
    root = np.linspace(0.3, 1.2, p)
    point = data.at(root, 2.0)

    def negative(x):
        beta, deltas = x[:p], x[p:].reshape(3, p)
        thetas = beta + deltas * root
        scores = np.einsum("rp,rpq->rq", rows.X, thetas[rows.tasks].reshape(len(rows.y), 3, -1))
        logs = family.log_density(rows.y, rows.offset + scores, 1.0)
        prior = np.sum(point.marginal.precision * beta**2) + np.sum(deltas**2)
        return -np.sum(rows.weights * logs) + 0.5 * prior

    best = minimize(negative, np.zeros(4 * p), method="BFGS", options={"gtol": 1e-6})
    assert point.mode.value == pytest.approx(-best.fun, abs=1e-6)
    np.testing.assert_allclose(point.beta, best.x[:p], atol=1e-3)
    np.testing.assert_allclose(
        point.thetas, best.x[:p] + best.x[p:].reshape(3, p) * root, atol=1e-3
    )


def test_exact_for_gaussian_targets():
    rows = random_rows(Gaussian())
    data = LaplaceData.of(rows, dispersion=0.7)
    root, ratio = np.array([0.5, 0.0, 1.2]), 3.0
    # The intercept's own prior is a third column with variance 100 in units of t.
    columns = rows.X * [1.0, 1.0, np.sqrt(100.0 / ratio)]
    dense = Rows(columns, rows.y - rows.offset[:, 0], rows.tasks, rows.weights)
    Sigma = np.diag(root**2 / [1.0, 1.0, 100.0 / ratio])
    expected = log_evidence(dense, Sigma, 0.7, ratio, np.zeros(3, dtype=bool))
    # Weighted densities: a row counts w times, its normalisation among it.
    w = rows.weights
    expected += np.sum(0.5 * (1.0 - w) * np.log(2 * np.pi * 0.7) - 0.5 * np.log(w))
    assert data.at(root, ratio).value == pytest.approx(expected, abs=1e-8)


def test_near_quadrature_for_two_classes():
    rng = np.random.default_rng(0)
    n_tasks, size = 10, 12
    tasks, y = np.repeat(np.arange(n_tasks), size), rng.integers(2, size=n_tasks * size)
    rows = glm_rows(np.ones((len(y), 1)), y.astype(float), tasks, n_tasks, Bernoulli())
    ones = np.bincount(tasks, y)
    nodes, masses = np.polynomial.hermite_e.hermegauss(60)
    masses = masses / masses.sum()
    for sd in (0.0, 0.5, 1.0):
        value = LaplaceData.of(rows).at(np.array([sd]), 1.0).value
        beta = np.linspace(-4, 4, 801)
        score = beta[:, None] + sd * nodes
        by_task = [np.exp(k * score - size * np.logaddexp(0, score)) @ masses for k in ones]
        prior = np.exp(-0.5 * beta**2 / 100.0) / np.sqrt(2 * np.pi * 100.0)
        exact = np.log(np.sum(np.prod(by_task, axis=0) * prior) * (beta[1] - beta[0]))
        assert value == pytest.approx(exact, abs=0.15)


def simulated(family, seed=0, n_tasks=300, n=12000):
    rng = np.random.default_rng(seed)
    tasks = rng.integers(n_tasks, size=n)
    X = np.column_stack([rng.normal(size=n), np.ones(n)])
    thetas = np.array([1.0, 0.3]) + rng.normal(size=(n_tasks, 2)) * [0.5, 1.0]
    offset = rng.uniform(-1, 1, size=n)
    score = np.sum(X * thetas[tasks], axis=1) + offset
    mean = family.mean(score)
    match family:
        case Bernoulli():
            y = rng.random(n) < mean
        case Poisson():
            y = rng.poisson(mean)
        case Gamma():
            y = rng.gamma(2.0, mean / 2.0)
        case Tweedie():
            counts = rng.poisson(mean**0.5 / 0.5)
            y = np.where(counts > 0, rng.gamma(np.maximum(counts, 1)) * 0.5 * mean**0.5, 0.0)
        case _:
            y = mean + 0.5 * rng.standard_t(4, size=n)
    return X, y.astype(float), tasks, n_tasks, offset


@pytest.mark.parametrize(
    ("family", "dispersion"),
    [(Bernoulli(), 1.0), (Poisson(), 1.0), (Gamma(), 0.5), (Tweedie(), 1.0), (Student(), 0.25)],
    ids=["Bernoulli", "Poisson", "Gamma", "Tweedie", "Student"],
)
def test_known_variances_are_recovered(family, dispersion):
    X, y, tasks, n_tasks, offset = simulated(family)
    fit = fitted(X, y, tasks, n_tasks, family=family, offset=offset, covariance="diagonal")
    assert fit.status is EvidenceStatus.CONVERGED
    np.testing.assert_allclose(np.sqrt(np.diagonal(fit.task_covariance)), [0.5, 1.0], rtol=0.15)
    np.testing.assert_allclose(fit.center, [1.0, 0.3], atol=0.2)
    assert fit.noise_variance == pytest.approx(dispersion, rel=0.15)


def test_gaussian_rows_have_the_evidence_of_their_moments():
    rows = Rows.random(3, n_tasks=8, n=80)
    offset = np.linspace(0, 1, 80)
    fit = fitted(
        rows.X, rows.y + 1e3 + offset, rows.tasks, 8, family=Gaussian(), offset=offset, tol=1e-10
    )
    direct = evidence_fit(Rows(rows.X, rows.y, rows.tasks, rows.weights).moments, tol=1e-10)
    assert fit.log_evidence == pytest.approx(direct.log_evidence, abs=1e-5)
    np.testing.assert_allclose(fit.thetas - [0, 0, 1e3], direct.thetas, atol=1e-4)


def scored(fit, X, tasks):
    """Mean scores of rows and their covariances; -1 is a task never seen."""
    thetas = np.vstack([fit.thetas, fit.center])[tasks]
    scores = np.einsum("rp,rpq->rq", X, thetas.reshape(len(X), X.shape[1], -1))
    unseen = fit.posterior.center_covariance + fit.task_covariance
    return scores, score_covariances(X, tasks, fit.posterior.covariances[0], unseen)


def test_order_of_classes_does_not_matter():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(300, 2)), np.ones(300)])
    tasks, y = rng.integers(10, size=300), rng.integers(3, size=300)
    for structure in ("block", "diagonal"):
        one, other = (
            fitted(X, labels.astype(float), tasks, 10, family=Multinomial(3), covariance=structure)
            for labels in (y, np.array([2, 0, 1])[y])
        )
        assert one.log_evidence == pytest.approx(other.log_evidence, abs=1e-5)
        p, q = (Multinomial(3).predictive(*scored(fit, X, tasks)) for fit in (one, other))
        np.testing.assert_allclose(p, q[:, [2, 0, 1]], atol=1e-3)


def test_a_weight_of_two_is_two_rows():
    rows = random_rows(Bernoulli(), n_tasks=5, n=80)
    weights = np.random.default_rng(0).integers(1, 3, size=80)
    twice = np.repeat(np.arange(80), weights)
    options = {"family": Bernoulli(), "covariance": "diagonal"}
    one = fitted(rows.X, rows.y, rows.tasks, 5, weights=weights, **options)
    two = fitted(rows.X[twice], rows.y[twice], rows.tasks[twice], 5, **options)
    assert one.log_evidence == pytest.approx(two.log_evidence, abs=1e-5)


def averaged(rows, point):
    def average(thetas, covariances):
        return rows.products(thetas, covariances, point.dispersion)

    return Posterior.of(nearest_gaussians(point.marginal, average))


@pytest.mark.parametrize("family", [Bernoulli(), Poisson()], ids=named)
def test_means_are_closer_to_those_of_quadrature_than_the_mode_is(family):
    """Two tasks with levels of their own around a centre, all three integrated out."""
    rng = np.random.default_rng(0)
    n, tasks = 24, np.arange(24) % 2
    y = 1.0 * (rng.uniform(size=n) < 0.8 if isinstance(family, Bernoulli) else rng.poisson(0.6, n))
    rows = glm_rows(np.ones((n, 1)), y, tasks, 2, family)
    point = LaplaceData.of(rows).at(np.array([0.5]), 1.0)
    gaussians = averaged(rows, point)
    beta = np.linspace(-8.0, 8.0, 161)[:, None, None]
    levels = np.linspace(-8.0, 8.0, 161)
    own = [
        family.log_density(y[tasks == i, None], levels[:, None], 1.0).sum(axis=0) for i in range(2)
    ]
    own = [one[:, None] if i == 0 else one for i, one in enumerate(own)]
    apart = [levels[:, None] - beta, levels - beta]
    logs = own[0] + own[1] - sum(2.0 * one**2 for one in apart) - 0.005 * beta**2
    density = np.exp(logs - logs.max())
    density /= density.sum()
    expected = [float((density * part).sum()) for part in (beta, levels[:, None], levels)]
    average, mode = (
        np.append(gaussians.center, gaussians.means[0]),
        np.append(point.beta, point.thetas),
    )
    assert np.all(np.abs(average - expected) < 0.35 * np.abs(mode - expected))


@pytest.mark.parametrize("family", [Bernoulli(), Poisson(), Gamma(), Multinomial(4)], ids=named)
def test_a_new_task_is_where_loss_and_prior_balance(family):
    rows = random_rows(family, n_tasks=12, n=240)
    fit = fitted(rows.X, rows.y, rows.tasks, 12, family=family, covariance="block")
    new = random_rows(family, seed=5, n_tasks=2, n=40)
    thetas, covariances = new_tasks_of(new, fit)
    prior = np.linalg.inv(fit.task_covariance + fit.posterior.center_covariance)
    products = new.products(thetas, dispersion=fit.noise_variance)
    A, b = products[:, :-1, :-1], products[:, :-1, -1]
    for i in range(2):
        gradient = b[i] - A[i] @ thetas[i]
        pull = prior @ (thetas[i] - fit.center)
        np.testing.assert_allclose(gradient, pull, atol=1e-3)
        np.testing.assert_allclose(covariances[i], np.linalg.inv(A[i] + prior), atol=1e-6)


def test_wild_targets_do_not_spoil_the_others():
    X, y, tasks, n_tasks, offset = simulated(Student(), n_tasks=50, n=1000)
    options = {"offset": offset, "covariance": "diagonal"}
    clean = fitted(X, y, tasks, n_tasks, family=Student(), **options)
    wild = y.copy()
    wild[::50] += 1e6
    fit = fitted(X, wild, tasks, n_tasks, family=Student(), **options)
    np.testing.assert_allclose(fit.thetas, clean.thetas, atol=0.5)
    np.testing.assert_allclose(fit.task_covariance, clean.task_covariance, atol=0.2)
    spoiled = fitted(X, wild, tasks, n_tasks, family=Gaussian(), **options)
    assert spoiled.noise_variance > 1e6
    none = np.zeros(40, dtype=int)
    spoilt = glm_rows(X[:40], wild[:40], none, 1, Student(), offset=offset[:40])
    sound = glm_rows(X[1:40], y[1:40], none[1:], 1, Student(), offset=offset[1:40])
    new, own = (new_tasks_of(rows, fit)[0] for rows in (spoilt, sound))
    np.testing.assert_allclose(new, own, atol=0.1)


def test_students_evidence_tends_to_the_gaussian_one():
    X, y, tasks, n_tasks, _ = simulated(Student(), n_tasks=20, n=200)
    options = {"covariance": "diagonal", "tol": 1e-9}
    almost = fitted(X, y, tasks, n_tasks, family=Student(1e7), **options)
    gaussian = fitted(X, y, tasks, n_tasks, family=Gaussian(), **options)
    assert almost.log_evidence == pytest.approx(gaussian.log_evidence, abs=1e-2)
    np.testing.assert_allclose(almost.thetas, gaussian.thetas, atol=1e-3)
    covariances = almost.posterior.covariances[0]
    np.testing.assert_allclose(covariances, gaussian.posterior.covariances[0], rtol=1e-3)


def test_students_evidence_and_posterior_are_those_of_quadrature():
    """Levels of 12 tasks around a centre, integrated out one by one, and then the centre."""
    rng = np.random.default_rng(2)
    tasks = np.repeat(np.arange(12), 40)
    y = 2.0 + 0.5 * rng.normal(size=12)[tasks] + rng.standard_t(4, size=480)
    fit = fitted(np.ones((480, 1)), y, tasks, 12, family=Student(), tol=1e-8)
    family, posterior, noise = Student(), fit.posterior, fit.noise_variance
    center, variance = fit.center[0], posterior.center_covariance[0, 0]
    between = np.sqrt(fit.task_covariance[0, 0])
    levels = np.linspace(-5.0, 5.0, 51) * between

    def logs(beta):
        """Log densities of the targets of each task with a level, and that of the level."""
        squares = (y[:, None] - beta - levels) ** 2 / noise
        own = (family.log_density_of(squares) - 0.5 * np.log(noise)).reshape(12, 40, -1).sum(axis=1)
        return own + norm.logpdf(levels, scale=between) + np.log(levels[1] - levels[0])

    centers = center + np.linspace(-5.0, 5.0, 21) * np.sqrt(variance)
    each = np.array([logsumexp(logs(beta), axis=1).sum() for beta in centers])
    density = np.exp(each - logsumexp(each))
    evidence = logsumexp(each) + np.log(centers[1] - centers[0])
    assert fit.log_evidence == pytest.approx(evidence, abs=0.5)
    assert variance == pytest.approx(density @ (centers - density @ centers) ** 2, rel=0.05)
    each = logs(center)
    density = np.exp(each - logsumexp(each, axis=1, keepdims=True))
    means = density @ levels
    np.testing.assert_allclose(fit.thetas[:, 0], center + means, atol=0.03)
    exact = density @ levels**2 - means**2
    own = posterior.covariances[0][:, 0, 0] - posterior.gains[0][:, 0, 0] ** 2 * variance
    assert own.mean() == pytest.approx(exact.mean(), rel=0.05)


def test_a_new_task_of_student_targets_has_fishers_information():
    rows = random_rows(Gaussian(), n_tasks=12, n=240)
    fit = fitted(rows.X, rows.y, rows.tasks, 12, family=Student(), covariance="block")
    new = random_rows(Gaussian(), seed=5, n_tasks=2, n=40).with_family(Student())
    thetas, covariances = new_tasks_of(new, fit)
    prior = np.linalg.inv(fit.task_covariance + fit.posterior.center_covariance)
    precisions = Student().precisions(
        new.expected_squares(thetas, covariances) / fit.noise_variance
    )
    rest = precisions * (new.y - new.offset[:, 0] - np.sum(new.X * thetas[new.tasks], axis=1))
    for i in range(2):
        X = new.X[new.tasks == i]
        weights = new.weights[new.tasks == i]
        A = 5.0 / 7.0 * (X.T * weights) @ X / fit.noise_variance
        np.testing.assert_allclose(covariances[i], np.linalg.inv(A + prior), rtol=1e-6)
        gradient = X.T @ (weights * rest[new.tasks == i]) / fit.noise_variance
        np.testing.assert_allclose(gradient, prior @ (thetas[i] - fit.center), atol=1e-3)


@pytest.mark.parametrize("rounds", [1, 5])
def test_too_few_rounds_are_named(rounds, monkeypatch):
    monkeypatch.setattr("crosslearning.convex.evidence.gaussian._MAX_ROUNDS", rounds)
    X, y, tasks, n_tasks, _ = simulated(Student(), n_tasks=20, n=200)
    fit = fitted(X, y, tasks, n_tasks, family=Student(), tol=1e-9)
    assert fit.status is EvidenceStatus.MAX_ITER


def test_many_equal_targets_do_not_keep_a_robust_fit_from_its_end():
    X, y, tasks, n_tasks, _ = simulated(Student(), n_tasks=20, n=600)
    same = np.random.default_rng(1).random(600) < 0.7
    fit = fitted(X, np.where(same, 0.0, y), tasks, n_tasks, family=Student())
    assert fit.status is EvidenceStatus.CONVERGED


AWKWARD = [Bernoulli(), Poisson(), Gamma(), Tweedie(), Multinomial(4), Student()]


@given(
    st.sampled_from(AWKWARD),
    st.integers(0, 2**32 - 1),
    st.sampled_from([1, 2, 9]),
    st.sampled_from([0, 1, 4]),
    st.sampled_from(["random", "constant", "separable", "large"]),
    st.sampled_from(["auto", "block", "diagonal", "full"]),
)
def test_never_a_nan(family, seed, n_tasks, p, kind, structure):
    rng = np.random.default_rng(seed)
    tasks = np.repeat(np.arange(n_tasks), rng.integers(1, 6, size=n_tasks))
    n = len(tasks)
    X = np.column_stack([rng.normal(size=(n, p)), np.ones(n)])
    y = targets(Gaussian() if isinstance(family, Student) else family, n, rng)
    if kind == "constant":
        y[:] = y[0]
    if kind == "separable" and p:
        y = y[0] * (X[:, 0] > 0) + (isinstance(family, Gamma))
    if kind == "large" and not isinstance(family, Bernoulli | Multinomial):
        y *= 1e6
    fit = fitted(X, y, tasks, n_tasks, family=family, covariance=structure)
    covariances = fit.posterior.covariances[0]
    for array in (fit.thetas, fit.center, fit.task_covariance, covariances):
        assert np.isfinite(array).all()
    assert np.isfinite(fit.log_evidence)
    assert np.all(np.diagonal(fit.task_covariance) >= 0)
    unseen = np.append(tasks[1:], -1)
    scores, spread = scored(fit, X, unseen)
    assert np.isfinite(scores).all()
    assert np.linalg.eigvalsh(spread).min() >= -1e-6 * max(1.0, np.abs(spread).max())


@pytest.mark.parametrize("seed", range(3))
def test_few_evaluations_where_the_observed_curvature_misleads(seed):
    rng = np.random.default_rng(seed)
    n_tasks, n_classes = 40, 4
    tasks = np.repeat(np.arange(n_tasks), 12)
    X = rng.normal(size=(len(tasks), 3))
    slopes = 0.7 * rng.normal(size=(n_tasks, 3, n_classes))
    levels = 3.0 * rng.normal(size=(n_tasks, n_classes))
    scores = np.einsum("rp,rpk->rk", X, slopes[tasks]) + levels[tasks]
    y = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1).astype(float)
    columns = np.column_stack([X, np.ones(len(X))])
    family = Multinomial(n_classes)
    fit = fitted(columns, y, tasks, n_tasks, family, covariance="block")
    assert fit.status is EvidenceStatus.CONVERGED
    assert fit.n_iter <= 20  # 30 to 45 with the observed curvature and damping
