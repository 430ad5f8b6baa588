"""The rows of a table in each base: columns, splines, means of tasks, boosted trees."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from crosslearning.linear import SplineFeatures
from crosslearning.tables.learners.boosting import Boosting
from crosslearning.tables.learners.features import BLOCKS, Basis, TaskMeans
from crosslearning.tables.rows import Rows, fitted
from crosslearning.tables.splits import Splits

_WIDEST = 100  # features, beyond which only linear models are tried by default
_COSTLY = 2e7  # tasks × coefficients³, beyond which a base is not tried if fits are iterated
_WORTH, _WORTH_A_ROW = 2.0, 0.0025  # gain in log evidence for which more features are tried
_FEWEST_ROWS = 60  # for trees
_FEW_ROWS = 1000  # of normal targets, up to which trees are always tried
_FEWEST_TO_SCREEN = 200  # rows of a fold
_CONSTANT = 1e-9  # share of the variance of a column that is within tasks, or between them
_ASKED = {"splines": "curved", "boosting": "stacked"}  # blocks


class Spaces:
    """Bases that can be tried, and rows in them."""

    def __init__(self, rows: Rows, splits: Splits, base: str, family: str, seed: int) -> None:
        self.rows, self.splits, self.family = rows, splits, family
        self._normal = rows.classes is None and family == "gaussian"
        n, p = rows.X.shape
        self.blocks: dict[str, NDArray[np.str_]] = {}
        self.notes: list[str] = []
        if base == "auto" and p > _WIDEST:
            self.notes.append(f"only linear models were tried, since there are {p} features")
        if self.notes or base in ("linear", "none"):
            return
        splines = SplineFeatures().fit(rows.X, sample_weight=rows.weights)
        self.basis = Basis(splines.mean_, splines.scale_, splines.curves_)
        self._columns = self.basis.apply(rows.X, rows.codes)
        shares = self._means(np.arange(n)).shares
        self._averaged = np.flatnonzero(np.minimum(shares, 1.0 - shares) > _CONSTANT)
        self.boosting = Boosting(rows, splits, family, seed)
        self.blocks = self._possible(base)

    def _possible(self, base: str) -> dict[str, NDArray[np.str_]]:
        """Blocks of the columns of each base that can be tried."""
        rows, n_means, n_trees = self.rows, len(self._averaged), 0
        if base != "splines" and len(rows.y) >= _FEWEST_ROWS:
            n_trees = rows.n_scores + (rows.n_scores > 1)
        if self.family == "quantile":
            n_means = n_trees = 0
        known = np.append(self.basis.blocks, np.repeat(["means", "stacked"], [n_means, n_trees]))
        found = {}
        for name, blocks in BLOCKS.items():
            own = known[np.isin(known, blocks)]
            if set(own) != set(blocks) or _ASKED.get(base, blocks[0]) not in blocks:
                continue
            costly = rows.n_tasks * (rows.n_scores * len(own)) ** 3 > _COSTLY
            # Trees alone are too often the best by chance where targets are not normal.
            if self._normal or not (name == "trees" or (costly and base == "auto")):
                found[name] = own
        return found

    def of(self, base: str, split: int | None) -> Rows:
        """Rows in a base; means and trees of a split are those of its training rows.

        Trees predict these out of fold.
        """
        if base == "linear":
            return self.rows
        parts = [self._fixed(base)]
        if "means" in BLOCKS[base]:
            known = np.arange(len(self.rows.y)) if split is None else self.splits.parts[split][0]
            means = self._means(known).take(self._averaged)
            parts.append(means.apply(self._columns, self.rows.codes))
        if "stacked" in BLOCKS[base]:
            trees = self.boosting
            parts.append(trees.final[1] if split is None else trees.columns(split))
        return replace(self.rows, X=np.hstack(parts))

    def _fixed(self, base: str) -> NDArray[np.float64]:
        """Columns of a base that are the same in all splits."""
        return self._columns[:, np.isin(self.basis.blocks, BLOCKS[base])]

    def _means(self, known: NDArray[np.intp]) -> TaskMeans:
        """Take the means of all columns over some of the rows."""
        rows = self.rows.take(known)
        columns = self._columns[known, : rows.X.shape[1]]
        return TaskMeans.of(columns, rows.codes, rows.given_weights, rows.n_tasks)

    def final(self, bases: set[str]) -> Basis:
        """Return the basis for new rows, with what some bases need."""
        basis, needed = self.basis, {block for base in bases for block in BLOCKS[base]}
        if "means" in needed:
            means = self._means(np.arange(len(self.rows.y))).take(self._averaged)
            basis = replace(basis, means=means)
        return replace(basis, stacked=self.boosting.final[0]) if "stacked" in needed else basis

    def trees_in_time(self, estimator: Any) -> bool:  # noqa: ARG002
        """Let trees be grown if there is time for all of them."""
        self.boosting.check_time()
        return True

    def trees_help(self, estimator: Any) -> bool:
        """Whether predictions of trees as a feature raise the evidence, or reduce the noise.

        If they do not in the first fold, where there are fewer rows to learn the rest from, other
        trees are not grown. The evidence of few rows says too little about them.
        """
        self.boosting.check_time()
        if self._normal and len(self.rows.y) < _FEW_ROWS:
            return True
        both = "both" if "both" in self.blocks else "boosting"
        first, column = self.boosting.first_fold()
        if len(first) >= _FEWEST_TO_SCREEN:
            part = replace(self.rows.take(first), X=np.hstack([self._fixed(both)[first], column]))
            if self._gain(estimator, both, "stacked", part) <= _worth(len(first)):
                return False
        gain = self._gain(estimator, both, "stacked", self.of(both, None))
        return gain > _worth(len(self.rows.y))

    def means_help(self, estimator: Any) -> bool:
        """Whether means of tasks as features raise the evidence, or reduce the noise."""
        base = "means" if "means" in self.blocks else "splines-means"
        return self._gain(estimator, base, "means", self.of(base, None)) > _WORTH

    def _gain(self, estimator: Any, base: str, block: str, rows: Rows) -> float:
        """Return by how much a block of a base raises the log evidence."""
        own = self.blocks[base] == block
        found = []
        for seen in (own | True, ~own):
            simple = {"covariance": "levels", "epsilon": np.inf, "blocks": self.blocks[base][seen]}
            model = clone(estimator).set_params(**simple)
            found.append(fitted(model, replace(rows, X=rows.X[:, seen])))
        if self.family in ("poisson", "tweedie"):  # quasi-likelihoods have no evidence to compare
            return float(len(rows.y) * np.log(found[1].noise_sd_ / found[0].noise_sd_))
        return float(found[0].log_evidence_ - found[1].log_evidence_)


def _worth(n_rows: int) -> float:
    """Return the gain for which trees are tried."""
    return _WORTH + _WORTH_A_ROW * n_rows
