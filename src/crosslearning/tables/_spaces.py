"""The rows of a table in each base: columns alone, with splines, with boosted trees."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from crosslearning.linear import SplineFeatures
from crosslearning.tables._basis import BLOCKS, Basis
from crosslearning.tables._boosting import Boosting
from crosslearning.tables.rows import Rows, fitted
from crosslearning.tables.splits import Splits

_MANY_ROWS = 50_000  # beyond which only linear models are tried by default
_WIDEST = 100  # features, likewise
_WORTH, _WORTH_A_ROW = 2.0, 0.0025  # gain in log evidence for which trees are tried
_FEWEST_ROWS = 60  # for trees
_FEWEST_TO_SCREEN = 200  # rows of a fold


class Spaces:
    """Bases that can be tried, and rows in them."""

    def __init__(self, rows: Rows, splits: Splits, base: str, family: str, seed: int) -> None:
        self.rows, self.family = rows, family
        n, p = rows.X.shape
        linear = base in ("linear", "none") or (base == "auto" and (n > _MANY_ROWS or p > _WIDEST))
        self.names: list[str] = []
        if linear:
            return
        splines = SplineFeatures().fit(rows.X, sample_weight=rows.weights)
        self.basis = Basis(splines.mean_, splines.scale_, splines.curves_)
        self._columns = self.basis.apply(rows.X)
        self.boosting = Boosting(rows, splits, family, seed)
        if splines.curves_ and base != "boosting":
            self.names.append("splines")
        if base != "splines" and n >= _FEWEST_ROWS and family != "quantile":
            self.names += ["boosting", *["both"] * bool(splines.curves_)]

    @property
    def blocks(self) -> dict[str, NDArray[Any]]:
        """Blocks of the columns of each base."""
        if not self.names:
            return {}
        known = np.append(self.basis.blocks, np.repeat("stacked", self._n_stacked))
        return {name: known[np.isin(known, BLOCKS[name])] for name in self.names}

    @property
    def _n_stacked(self) -> int:
        classes = self.rows.classes
        return 1 if classes is None or len(classes) == 2 else len(classes)

    def of(self, base: str, split: int | None) -> Rows:
        """Rows in a base; trees predict the training rows of a split out of fold."""
        if base == "linear":
            return self.rows
        X = self._columns[:, self.basis.seen(base)]
        if "stacked" in BLOCKS[base]:
            own = self.boosting.final[1] if split is None else self.boosting.columns(split)
            X = np.hstack([X, own])
        return replace(self.rows, X=X)

    def final(self, *, trees: bool) -> Basis:
        """Return the basis for new rows."""
        return replace(self.basis, stacked=self.boosting.final[0]) if trees else self.basis

    def trees_help(self, estimator: Any) -> bool:
        """Whether predictions of trees as a feature raise the evidence, or reduce the noise.

        If they do not in the first fold, where there are fewer rows to learn the rest from, other
        trees are not grown.
        """
        both = "both" if "both" in self.names else "boosting"
        try:
            first, column = self.boosting.first_fold()
            if len(first) >= _FEWEST_TO_SCREEN:
                X = np.hstack([self._columns[:, self.basis.seen(both)][first], column])
                if not self._gain(estimator, both, replace(self.rows.take(first), X=X)):
                    return False
            return self._gain(estimator, both, self.of(both, None))
        except ValueError:  # such as a class that a part lacks
            return False

    def _gain(self, estimator: Any, base: str, rows: Rows) -> bool:
        stacked = self.blocks[base] == "stacked"
        found = []
        for seen in (stacked | True, ~stacked):
            simple = {"covariance": "levels", "epsilon": np.inf, "blocks": self.blocks[base][seen]}
            model = clone(estimator).set_params(**simple)
            found.append(fitted(model, replace(rows, X=rows.X[:, seen])))
        n, gain = len(rows.y), found[0].log_evidence_ - found[1].log_evidence_
        if self.family in ("poisson", "tweedie"):  # quasi-likelihoods have no evidence to compare
            gain = n * np.log(found[1].noise_sd_ / found[0].noise_sd_)
        return bool(gain > _WORTH + _WORTH_A_ROW * n)
