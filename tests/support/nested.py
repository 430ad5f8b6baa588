"""Tasks in groups, drawn around a common model."""

import numpy as np
import pandas as pd

from crosslearning.convex.evidence.marginal import Hierarchy
from crosslearning.convex.families import Gaussian
from tests.support.evidence_oracles import glm_rows


class NestedRows:
    """Rows of schools in districts: one slope and an intercept, which is last."""

    def __init__(
        self, seed=0, n_groups=12, n_tasks=5, n=8, group_sd=(0.5, 1.0), task_sd=(0.3, 0.7)
    ):
        rng = np.random.default_rng(seed)
        self.parent = np.repeat(np.arange(n_groups), n_tasks)
        self.tasks = np.repeat(np.arange(n_groups * n_tasks), n)
        size = len(self.tasks)
        self.X = np.column_stack([rng.normal(size=size), np.ones(size)])
        self.groups = self.parent[self.tasks]
        offsets = (rng.normal(size=(n_groups, 2)) * group_sd)[self.parent]
        thetas = [1.0, 2.0] + offsets + rng.normal(size=(len(self.parent), 2)) * task_sd
        self.score = np.sum(self.X * thetas[self.tasks], axis=1)
        self.y = self.score + rng.normal(size=size)

    @property
    def features(self):
        return self.X[:, :1]

    @property
    def labels(self):
        """Districts, and schools numbered within them."""
        first = np.searchsorted(self.parent, self.groups)
        return pd.DataFrame({"district": self.groups, "school": self.tasks - first})

    @property
    def moments(self):
        n_tasks = len(self.parent)
        return glm_rows(self.X, self.y, self.tasks, n_tasks, Gaussian()).moments()

    @property
    def hierarchy(self):
        return Hierarchy((self.parent, np.zeros(self.parent.max() + 1, dtype=np.intp)))

    def covariance(self, variances, precision):
        """Covariance of all targets in units of the noise, given variances (tasks, groups)."""
        result = np.eye(len(self.y)) + self.X / precision @ self.X.T
        for unit, S in zip((self.tasks, self.groups), variances, strict=True):
            result += (unit[:, None] == unit) * (self.X * S @ self.X.T)
        return result
