"""Curves of columns: what they span, what they leave to the linear part, and how they end."""

import numpy as np
import pandas as pd
import pytest
from scipy.interpolate import make_smoothing_spline

from crosslearning.linear import CrossBayesianRidge, SplineFeatures


def columns(seed=0, n=400):
    rng = np.random.default_rng(seed)
    few = rng.integers(5, size=n).astype(float)
    return np.column_stack([rng.normal(size=n), few, np.exp(rng.normal(size=n)), np.zeros(n)])


@pytest.mark.parametrize("weighted", [False, True])
def test_curves_are_uncorrelated_with_their_column_and_one_another(weighted):
    X = columns()
    weights = np.random.default_rng(1).uniform(0.1, 2.0, size=len(X)) if weighted else None
    splines = SplineFeatures().fit(X, sample_weight=weights)
    Z, shares = splines.transform(X), np.ones(len(X)) if weights is None else weights
    shares = shares / shares.sum()
    np.testing.assert_allclose(shares @ Z, 0.0, atol=1e-10)
    for j in (0, 2):
        own = Z[:, splines.source_ == j]
        moments = own.T @ (shares[:, None] * own)
        np.testing.assert_allclose(moments, np.diag(np.diagonal(moments)), atol=1e-8)
        sizes = np.diagonal(moments)
        np.testing.assert_allclose(sizes[:2], 1.0)  # the column, and its smoothest curve
        assert np.all(np.diff(sizes[1:]) < 0)
    assert splines.blocks_.tolist() == ["linear"] * 4 + ["curved"] * (Z.shape[1] - 4)
    assert set(splines.source_[4:]) == {0, 2}


def test_equal_priors_penalise_second_derivatives():
    """The best curve for a given penalty is the smoothing spline on the same knots."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(size=200))
    splines = SplineFeatures(n_knots=6).fit(x[:, None])
    grid = np.linspace(x.min(), x.max(), 20_001)
    low, high = np.quantile(x, [0.05, 0.95], method="inverted_cdf")
    curves = splines.transform(grid[:, None])[:, 1:]
    step = grid[1] - grid[0]
    bends = (np.diff(curves, n=2, axis=0) / step**2)[(grid[1:-1] > low) & (grid[1:-1] < high)]
    roughness = step * bends.T @ bends
    scale = roughness[0, 0]
    np.testing.assert_allclose(roughness / scale, np.eye(len(roughness)), atol=0.02)


def test_straight_beyond_the_last_knots():
    X = columns()[:, :1]
    splines = SplineFeatures().fit(X)
    far = np.linspace(5.0, 100.0, 20)[:, None]
    for sign in (-1.0, 1.0):
        np.testing.assert_allclose(
            np.diff(splines.transform(sign * far), n=2, axis=0), 0, atol=1e-8
        )


def test_splines_of_one_task_are_a_smoothing_spline():
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(-2, 2, size=300))
    y = np.sin(2 * x) + 0.2 * rng.normal(size=300)
    splines = SplineFeatures(n_knots=12)
    Z = splines.fit_transform(x[:, None])
    model = CrossBayesianRidge(blocks=splines.blocks_, standardize=False)
    model.fit(Z, y, tasks=np.zeros(len(y)))
    smooth = make_smoothing_spline(x, y)(x)
    inner = np.abs(x) < 1.7
    assert np.mean((model.predict(Z) - smooth)[inner] ** 2) < 0.01
    assert np.mean((model.predict(Z) - np.sin(2 * x))[inner] ** 2) < 0.005


def test_names_and_frames():
    frame = pd.DataFrame(columns(), columns=list("abcd"))
    splines = SplineFeatures(n_knots=3).set_output(transform="pandas")
    out = splines.fit_transform(frame)
    assert out.columns.tolist()[:5] == ["a", "b", "c", "d", "a_curve0"]
    assert len(out.columns) == len(splines.blocks_)


def test_columns_that_are_mostly_one_value_stay_straight():
    x = np.zeros(400)
    x[:15] = np.arange(15)
    assert SplineFeatures().fit(x[:, None]).blocks_.tolist() == ["linear"]
