"""Spline features of numeric columns, separate from their linear parts."""

from math import factorial
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.preprocessing import SplineTransformer
from sklearn.utils._param_validation import Interval
from sklearn.utils.extmath import svd_flip
from sklearn.utils.validation import (
    _check_feature_names_in,
    _check_sample_weight,
    check_is_fitted,
    validate_data,
)

from crosslearning.convex.sums.columns import Curves, Scaling
from crosslearning.tether import Array

_TAIL = 0.05  # fraction of the rows beyond the end knots, where curves are linear
_LEAST = 1e-4  # smallest variance of a curve worth keeping, relative to the first


def _curves_of(column: int, z: Array, weights: Array, n_knots: int) -> Curves | None:
    """Return curves uncorrelated with z and with one another, the smoothest first."""
    levels = np.linspace(_TAIL, 1.0 - _TAIL, n_knots)
    knots = np.unique(np.quantile(z, levels, weights=weights, method="inverted_cdf"))
    if len(knots) < 3:
        return None
    splines = SplineTransformer(knots=knots[:, None], extrapolation="linear").fit(z[:, None])
    B, line = splines.transform(z[:, None]), np.column_stack([np.ones_like(z), z])
    root = np.sqrt(weights / weights.sum())[:, None]
    linear = np.linalg.lstsq(root * line, root * B)[0]
    # Combine B-splines so that the integrated squared second derivative is a sum of squares.
    basis, half = splines.bsplines_[0], 0.5 * np.diff(knots)[:, None]
    nodes, shares = np.polynomial.legendre.leggauss(2)  # exact for squares of linear functions
    at = (0.5 * (knots[1:] + knots[:-1])[:, None] + half * nodes).ravel()
    bends = basis.derivative(2)(at) * np.sqrt(half * shares).reshape(-1, 1)
    _, sizes, axes = np.linalg.svd(bends, full_matrices=False)
    bent = sizes > 1e-8 * sizes[0]  # excludes constants and linear functions
    smooth = axes[bent].T / sizes[bent]
    curves, sizes, axes = np.linalg.svd(root * (B - line @ linear) @ smooth, full_matrices=False)
    _, axes = svd_flip(curves, axes, u_based_decision=False)
    axes = axes[sizes**2 > _LEAST * sizes[0] ** 2]
    mixing = smooth @ axes.T / sizes[0]
    left = knots[:-1]
    orders = [np.asarray(basis(left, nu)) @ mixing / factorial(nu) for nu in (3, 2, 1, 0)]
    level, slope = linear @ mixing
    orders[2] = orders[2] - slope
    orders[3] = orders[3] - level - left[:, None] * slope
    return Curves(column, knots, np.stack(orders))


class SplineFeatures(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Standardised columns, followed by spline terms of those with enough distinct values.

    The columns themselves carry the linear effects. The spline terms of a column are cubic, linear
    beyond its 5 % and 95 % quantiles, and uncorrelated with the column and with one another. They
    are scaled so that equal priors on their coefficients penalise the integrated squared second
    derivative, as in a smoothing spline. Pass ``blocks_`` to a Bayesian estimator with
    ``standardize=False``: evidence then decides how curved the centre is and how curves differ.

    Parameters
    ----------
    n_knots, min_distinct : int, default=5 and 12
        Number of knots, at quantiles between 5 % and 95 %. Columns with fewer distinct values than
        the second get no spline terms.

    Attributes
    ----------
    blocks_, source_ : array of shape (n_features_out,)
        "linear" or "curved" for each column of the output, and the column of X it is made from.
    n_features_in_, feature_names_in_
        Number and names of the features.

    Examples
    --------
    >>> from crosslearning.datasets import load_hsb82
    >>> from crosslearning.linear import CrossBayesianRidge, SplineFeatures
    >>> pupils = load_hsb82()
    >>> splines = SplineFeatures(n_knots=4)
    >>> X = splines.fit_transform(pupils.X)
    >>> model = CrossBayesianRidge(blocks=splines.blocks_, standardize=False)
    >>> model = model.fit(X, pupils.y, tasks=pupils.tasks)
    >>> len(pupils.X.columns), X.shape[1]
    (3, 7)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_knots": [Interval(Integral, 3, None, closed="left")],
        "min_distinct": [Interval(Integral, 3, None, closed="left")],
    }

    def __init__(self, n_knots: int = 5, *, min_distinct: int = 12) -> None:
        self.n_knots = n_knots
        self.min_distinct = min_distinct

    def fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:  # noqa: ARG002
        """Place the knots at quantiles of the features X, with weights of the rows if given."""
        self._validate_params()
        array = validate_data(self, X, dtype=np.float64)
        weights = _check_sample_weight(
            sample_weight, array, dtype=np.float64, ensure_non_negative=True
        )
        array, weights = array[weights > 0], weights[weights > 0]
        scaling = Scaling.of(array, weights, center=True, scale=True)
        self.mean_, self.scale_ = scaling.mean, scaling.scale
        Z = scaling.columns(array, intercept=False)
        enough = [j for j, z in enumerate(array.T) if len(np.unique(z)) >= self.min_distinct]
        made = (_curves_of(j, Z[:, j], weights, self.n_knots) for j in enough)
        self.curves_ = [curves for curves in made if curves is not None]
        n = Z.shape[1]
        sources = [np.full(curves.coef.shape[2], curves.column) for curves in self.curves_]
        self.source_ = np.concatenate([np.arange(n), *sources])
        self.blocks_ = np.repeat(["linear", "curved"], [n, len(self.source_) - n])
        return self

    def transform(self, X: ArrayLike) -> Array:
        """Return standardised columns and spline terms, shape (n_rows, n_features_out)."""
        check_is_fitted(self)
        array = validate_data(self, X, reset=False, dtype=np.float64)
        Z = Scaling(self.mean_, self.scale_).columns(array, intercept=False)
        return np.column_stack([Z, *(curves(Z[:, curves.column]) for curves in self.curves_)])

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[Any]:
        """Return the names of the columns and their numbered curves."""
        check_is_fitted(self)
        names = _check_feature_names_in(self, input_features)
        made = ((curves, k) for curves in self.curves_ for k in range(curves.coef.shape[2]))
        curved = [f"{names[curves.column]}_curve{k}" for curves, k in made]
        return np.append(names, np.asarray(curved, dtype=object))
