"""The rows of a table in each base: columns, splines, means of tasks."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from crosslearning.convex.families import REGISTRY
from crosslearning.extras import require
from crosslearning.linear import SplineFeatures
from crosslearning.tables.learners.boosting import Boosting
from crosslearning.tables.learners.features import BLOCKS, Basis, TaskMeans
from crosslearning.tables.rows import Rows, Splits, fitted

_WIDEST = 100  # features, beyond which curves are not tried by default
_COSTLY = 2e7  # tasks × coefficients³, beyond which a base is not tried if fits are iterated
_WORTH = 2.0  # gain in log evidence for which means of tasks are tried
_FEWEST_ROWS = 60  # for trees
_CONSTANT = 1e-9  # share of the variance of a column that is within tasks, or between them


class Spaces:
    """Bases that can be tried, and rows in them."""

    def __init__(self, rows: Rows, splits: Splits, base: str, family: str, seed: int) -> None:
        self.rows, self.splits, self.family = rows, splits, family
        self.n_scores = 1 if family == "ordinal" else rows.n_scores
        self._normal = rows.classes is None and family == "gaussian"
        n, p = rows.X.shape
        self.blocks: dict[str, NDArray[np.str_]] = {}
        self.notes: list[str] = []
        self.boosting = Boosting(rows, splits, family, seed)
        self.trees = base in ("auto", "boosting") and n >= _FEWEST_ROWS and family != "quantile"
        self.trees = self.trees and self._trees_can_be_grown()
        if base == "auto" and p > _WIDEST:
            self.notes.append(f"curves were not tried, since there are {p} features")
        elif base in ("auto", "splines"):
            splines = SplineFeatures().fit(rows.X, sample_weight=rows.weights)
            self.basis = Basis(splines.mean_, splines.scale_, splines.curves_)
            self._columns = self.basis.apply(rows.X, rows.codes)
            shares = self._means(np.arange(n)).shares
            self._averaged = np.flatnonzero(np.minimum(shares, 1.0 - shares) > _CONSTANT)
            self.blocks = self._possible(base)

    def _trees_can_be_grown(self) -> bool:
        """Whether LightGBM can be imported; if not, a note says why."""
        try:
            require("Growing boosted trees", "lightgbm")
        except (ImportError, OSError) as reason:  # such as a missing OpenMP library
            self.notes.append(f"boosted trees were not tried: {reason}")
            return False
        return True

    def _possible(self, base: str) -> dict[str, NDArray[np.str_]]:
        """Blocks of the columns of each base that can be tried."""
        rows, n_means = self.rows, 0 if self.family == "quantile" else len(self._averaged)
        columns = np.append(self.basis.blocks, np.repeat("means", n_means))
        possible = {}
        for name, blocks in BLOCKS.items():
            used = columns[np.isin(columns, blocks)]
            costly = rows.n_tasks * (self.n_scores * len(used)) ** 3 > _COSTLY
            affordable = self._normal or not costly
            chosen = affordable if base == "auto" else "curved" in blocks
            if chosen and set(used) == set(blocks):
                possible[name] = used
        return possible

    def of(self, base: str, split: int | None) -> Rows:
        """Rows in a base; means of a split are those of its training rows."""
        if base == "linear":
            return self.rows
        parts = [self._fixed(base)]
        if "means" in BLOCKS[base]:
            train = np.arange(len(self.rows.y)) if split is None else self.splits.parts[split][0]
            means = self._means(train).take(self._averaged)
            parts.append(means.apply(self._columns, self.rows.codes))
        return replace(self.rows, X=np.hstack(parts))

    def _fixed(self, base: str) -> NDArray[np.float64]:
        """Columns of a base that are the same in all splits."""
        return self._columns[:, np.isin(self.basis.blocks, BLOCKS[base])]

    def _means(self, train: NDArray[np.intp]) -> TaskMeans:
        """Take the means of all columns over some of the rows."""
        rows = self.rows.take(train)
        columns = self._columns[train, : rows.X.shape[1]]
        return TaskMeans.of(columns, rows.codes, rows.row_weights, rows.n_tasks)

    def final(self, bases: set[str]) -> Basis:
        """Return the basis for new rows, with what some bases need."""
        basis, needed = self.basis, {block for base in bases for block in BLOCKS[base]}
        if "means" in needed:
            means = self._means(np.arange(len(self.rows.y))).take(self._averaged)
            basis = replace(basis, means=means)
        return basis

    def means_help(self, estimator: Any) -> bool:
        """Whether means of tasks as features raise the log evidence, or reduce the noise."""
        base = "means" if "means" in self.blocks else "splines-means"
        rows, blocks = self.of(base, None), self.blocks[base]
        models = []
        for kept in (np.ones(len(blocks), dtype=bool), blocks != "means"):
            simple = {"covariance": "levels", "epsilon": np.inf, "blocks": blocks[kept]}
            model = clone(estimator).set_params(**simple)
            models.append(fitted(model, replace(rows, X=rows.X[:, kept])))
        full, plain = models
        if rows.classes is None and REGISTRY[self.family].quasi:  # without evidence to compare
            return bool(len(rows.y) * np.log(plain.noise_sd_ / full.noise_sd_) > _WORTH)
        return bool(full.log_evidence_ - plain.log_evidence_ > _WORTH)
