"""The Gaussian that classes are averaged over: against exact integrals, and on real tables."""

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.datasets import load_iris, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from crosslearning import CrossBayesianLogisticRegression
from crosslearning.convex.evidence.laplace import nearest_gaussians
from crosslearning.convex.evidence.mode import LaplaceData
from crosslearning.convex.evidence.posterior import Posterior
from crosslearning.convex.families import Bernoulli, Multinomial
from crosslearning.convex.sums.rows import score_covariances
from tests.support.evidence_oracles import glm_rows

SD = 5.0  # of the prior of coefficients


def separable(n_classes, n=24):
    """Rows of classes that do not overlap, and the posterior at its mode, under a wide prior."""
    rng, q = np.random.default_rng(0), n_classes - 1
    y = np.arange(n) % n_classes
    X = np.column_stack([2.0 * y + rng.uniform(-0.8, 0.8, n) - q, np.ones(n)])
    family = Bernoulli() if n_classes == 2 else Multinomial(n_classes)
    rows = glm_rows(X, 1.0 * y, np.zeros(n, dtype=np.intp), 1, family)
    return rows, LaplaceData.of(rows).at(np.zeros(2 * q), SD**2)


def probabilities(family, scores):
    if family.n_scores > 1:
        return family.probabilities(scores)
    return np.concatenate([family.mean(-scores), family.mean(scores)], axis=-1)


def predicted(family, X, gaussians):
    q, codes = family.n_scores, np.zeros(len(X), dtype=np.intp)
    scores = X @ gaussians.means[0][0].reshape(2, q)
    spread = score_covariances(X, codes, gaussians.covariances[0], np.eye(2 * q))
    if q > 1:
        return family.predictive(scores, spread)
    second = family.predictive(scores[:, 0], spread[:, 0, 0])[0]
    return np.column_stack([1.0 - second, second])


@pytest.mark.parametrize("n_classes", [2, 3])
def test_averages_over_separable_classes_are_near_the_exact_integral(n_classes):
    """The latter by importance sampling, from twice the covariance at the mode."""
    rows, point = separable(n_classes)
    family, q, sds = rows.family, n_classes - 1, np.repeat([SD, 10.0], n_classes - 1)
    at_mode = Posterior.of(point.marginal)
    z = np.random.default_rng(1).normal(size=(100_000, 2 * q))
    thetas = at_mode.means[0] + z @ np.linalg.cholesky(2.0 * at_mode.covariances[0][0]).T
    p = probabilities(family, rows.X @ thetas.reshape(-1, 2, q))
    logs = np.log(p[:, np.arange(len(rows.y)), rows.y.astype(int)] + 1e-300).sum(axis=1)
    logs += 0.5 * np.sum(z**2 - (thetas / sds) ** 2, axis=1)
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    assert 1.0 / np.sum(weights**2) > 1000
    new = np.column_stack([np.linspace(-3.0, 3.0, 25), np.ones(25)])
    scores = new @ thetas[weights > 1e-8].reshape(-1, 2, q)
    exact = np.tensordot(weights[weights > 1e-8], probabilities(family, scores), 1)

    def average(thetas, covariances):
        return rows.products(thetas, covariances)

    nearest = Posterior.of(nearest_gaussians(point.marginal, average))
    errors = [np.abs(predicted(family, new, own) - exact).max() for own in (nearest, at_mode)]
    assert errors[0] < min(0.04, 0.5 * errors[1])


@pytest.mark.filterwarnings("ignore:`fit` got no `tasks`")
@pytest.mark.parametrize("load", [load_iris, pytest.param(load_wine, marks=pytest.mark.slow)])
def test_held_out_classes_are_predicted_as_well_as_by_a_tuned_model(load):
    X, y = load(return_X_y=True)
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    scaled = make_pipeline(StandardScaler(), LogisticRegression(max_iter=5000))
    strengths = {"logisticregression__C": np.logspace(-3, 4, 8)}
    tuned = GridSearchCV(scaled, strengths, scoring="neg_log_loss")
    models = tuned, CrossBayesianLogisticRegression()
    losses = [
        log_loss(y, cross_val_predict(model, X, y, cv=folds, method="predict_proba"))
        for model in models
    ]
    assert losses[1] <= 1.05 * losses[0]


@pytest.mark.filterwarnings("ignore:`fit` got no `tasks`")
def test_probabilities_of_separable_classes_are_confident_and_add_up():
    X, y = load_wine(return_X_y=True)
    model = CrossBayesianLogisticRegression(covariance="pooled").fit(X, y)
    p = model.predict_proba(X)
    assert model.n_iter_ < 25  # the observed curvature is negative here
    np.testing.assert_allclose(p.sum(axis=0), np.bincount(y), rtol=0.01)
    mode = softmax(model._scores(X, None), axis=1)
    assert log_loss(y, p) <= log_loss(y, mode) + 0.03
