"""The problem of a linear model as its docstring states it, by other code than the library's."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp, softmax

from crosslearning.linear import CrossLogisticRegression

KKT = 1e-8  # relative residual that the estimators promise
PREDICTION = 1e-6  # agreement with estimators that stop at a tolerance of their own

FREE = {"epsilon": np.inf, "stiffness": 0.0, "tension": 0.0}


@dataclass(frozen=True, eq=False)
class Data:
    X: np.ndarray
    y: np.ndarray
    tasks: np.ndarray
    sample_weight: np.ndarray | None = None

    def fitted(self, model: Any) -> Any:
        return model.fit(self.X, self.y, tasks=self.tasks, sample_weight=self.sample_weight)

    def take(self, rows: np.ndarray) -> "Data":
        weight = None if self.sample_weight is None else self.sample_weight[rows]
        return Data(self.X[rows], self.y[rows], self.tasks[rows], weight)


def random_data(seed: int, sizes: tuple[int, ...], p: int, n_classes: int = 0) -> Data:
    """Tasks around a common model; scaled and shifted columns; classes if wanted."""
    rng = np.random.default_rng(seed)
    tasks = np.repeat(np.arange(len(sizes)), sizes)
    X = rng.normal(size=(len(tasks), p)) * np.linspace(0.5, 3.0, p) + np.linspace(-1.0, 2.0, p)
    k = max(n_classes - 1, 1)
    coef = rng.normal(size=(p, k)) + 0.7 * rng.normal(size=(len(sizes), p, k))
    scores = np.einsum("rp,rpk->rk", X, coef[tasks]) + rng.normal(size=(len(sizes), k))[tasks]
    if not n_classes:
        return Data(X, scores[:, 0] + rng.normal(size=len(tasks)), tasks)
    scores = np.hstack([np.zeros((len(tasks), 1)), scores - scores.mean(axis=0)])
    classes = (scores + 2.0 * rng.gumbel(size=scores.shape)).argmax(axis=1)
    first = np.cumsum(sizes) - sizes
    for k in range(n_classes):  # every task has rows of every class
        classes[first + k] = k
    return Data(X, classes, tasks)


@dataclass(frozen=True, eq=False)
class Definition:
    """Objective of a fitted or unfitted model on data.

    Parameters of a task are its coefficients for scaled columns, score after score, and then the
    intercepts; there is one score per class if there are more than 2 classes.
    """

    model: Any
    data: Data

    @cached_property
    def weight(self) -> np.ndarray:
        given = self.data.sample_weight
        return np.ones(len(self.data.y)) if given is None else np.asarray(given, float)

    @cached_property
    def labels(self) -> list[Any]:
        return sorted(set(self.data.tasks.tolist()))

    @cached_property
    def rows(self) -> list[np.ndarray]:
        return [np.flatnonzero(self.data.tasks == label) for label in self.labels]

    @cached_property
    def mean(self) -> np.ndarray:
        shifts = self.model.standardize and self.model.fit_intercept
        mean = np.average(self.data.X, axis=0, weights=self.weight)
        return mean if shifts else np.zeros_like(mean)

    @cached_property
    def scale(self) -> np.ndarray:
        center = np.average(self.data.X, axis=0, weights=self.weight)
        spread = np.sqrt(np.average((self.data.X - center) ** 2, axis=0, weights=self.weight))
        constant = np.ptp(self.data.X, axis=0) == 0
        return np.where(constant | (not self.model.standardize), 1.0, spread)

    @cached_property
    def columns(self) -> np.ndarray:
        Z = (self.data.X - self.mean) / self.scale
        return np.hstack([Z, np.ones((len(Z), 1))]) if self.model.fit_intercept else Z

    @cached_property
    def shares(self) -> np.ndarray:
        """Share of each task in the whole: by rows, or all the same."""
        own = np.array([self.weight[rows].sum() for rows in self.rows])
        equal = self.model.task_weights == "equal"
        return np.full(len(own), 1 / len(own)) if equal else own / own.sum()

    @cached_property
    def row_weights(self) -> list[np.ndarray]:
        total = self.weight.sum()
        return [
            self.weight[rows] * (share * total / self.weight[rows].sum())
            for rows, share in zip(self.rows, self.shares, strict=True)
        ]

    @cached_property
    def classifies(self) -> bool:
        return isinstance(self.model, CrossLogisticRegression)

    @cached_property
    def one_hot(self) -> np.ndarray:
        return (self.data.y[:, None] == np.unique(self.data.y)).astype(float)

    @cached_property
    def n_scores(self) -> int:
        return self.one_hot.shape[1] if self.classifies and self.one_hot.shape[1] > 2 else 1

    def matrix(self, theta: np.ndarray) -> np.ndarray:
        """Parameters as a matrix of shape (columns, scores)."""
        p = self.data.X.shape[1] * self.n_scores
        coef = theta[:p].reshape(self.n_scores, -1).T
        return np.vstack([coef, theta[p:]]) if self.model.fit_intercept else coef

    def vector(self, coef: np.ndarray, intercept: np.ndarray) -> np.ndarray:
        """Parameters from coefficients and intercepts on the user's scale."""
        coef = np.reshape(coef, (self.n_scores, -1))
        own = np.ravel(intercept) + coef @ self.mean
        parts = [(coef * self.scale).ravel()] + [own] * self.model.fit_intercept
        return np.concatenate(parts)

    def parameters(self) -> tuple[np.ndarray, np.ndarray]:
        """Tasks and centre of the fitted model."""
        m = self.model
        pairs = zip(m.coef_, m.intercept_, strict=True)
        center = self.vector(m.center_coef_, m.center_intercept_)
        return np.array([self.vector(*pair) for pair in pairs]), center

    def gradients(self, thetas: np.ndarray) -> np.ndarray:
        """∇f_i(θ_i)."""
        return np.array([self._gradient(i, theta) for i, theta in enumerate(thetas)])

    def _loss(self, i: int, theta: np.ndarray) -> float:
        rows, weight, p = self.rows[i], self.row_weights[i], self.data.X.shape[1]
        scores = self.columns[rows] @ self.matrix(theta)
        coef = theta[: p * self.n_scores]
        ridge = 0.5 * self.model.alpha * self.shares[i] * coef @ coef
        if not self.classifies:
            return 0.5 * weight @ (self.data.y[rows] - scores[:, 0]) ** 2 + ridge
        if self.n_scores == 1:
            scores = np.hstack([np.zeros_like(scores), scores])
        logs = logsumexp(scores, axis=1) - (self.one_hot[rows] * scores).sum(axis=1)
        return weight @ logs + ridge

    def _gradient(self, i: int, theta: np.ndarray) -> np.ndarray:
        rows, p = self.rows[i], self.data.X.shape[1]
        Z = self.columns[rows]
        scores = Z @ self.matrix(theta)
        if not self.classifies:
            error = scores - self.data.y[rows, None]
        elif self.n_scores == 1:
            error = 1 / (1 + np.exp(-scores)) - self.one_hot[rows, 1:]
        else:
            error = softmax(scores, axis=1) - self.one_hot[rows]
        slope = Z.T @ (self.row_weights[i][:, None] * error)
        slope[:p] += self.model.alpha * self.shares[i] * self.matrix(theta)[:p]
        return np.concatenate([slope[:p].T.ravel(), slope[p:].ravel()])

    @cached_property
    def blocks(self) -> list[tuple[slice, dict[str, float]]]:
        """Positions and tether of each block."""
        knobs = {name: getattr(self.model, name) for name in FREE}
        p = self.data.X.shape[1] * self.n_scores
        if not any(isinstance(knob, dict) for knob in knobs.values()):
            return [(slice(None), knobs)]
        places = {"coef": slice(0, p), "intercept": slice(p, None)}
        if not self.model.fit_intercept:
            del places["intercept"]

        def own(name: str, knob: Any, block: str) -> float:
            return knob.get(block, FREE[name]) if isinstance(knob, dict) else knob

        return [
            (place, {name: own(name, knob, block) for name, knob in knobs.items()})
            for block, place in places.items()
        ]

    def penalty(self, thetas: np.ndarray, center: np.ndarray) -> float:
        total = 0.0
        for place, tether in self.blocks:
            d = np.linalg.norm((thetas - center)[:, place], axis=1)
            total += tether["tension"] * d.sum() + 0.5 * tether["stiffness"] * (d**2).sum()
        return total

    def objective(self, thetas: np.ndarray, center: np.ndarray) -> float:
        losses = sum(self._loss(i, theta) for i, theta in enumerate(thetas))
        return float(losses + self.penalty(thetas, center))

    @cached_property
    def force_scale(self) -> float:
        """Size of the gradient of a task whose errors are as large as its targets."""
        y = self.data.y - np.mean(self.data.y) if not self.classifies else np.ones(len(self.data.y))
        return max(
            np.sqrt((w @ (self.columns[r] ** 2).sum(axis=1)) * (w @ y[r] ** 2))
            for r, w in zip(self.rows, self.row_weights, strict=True)
        )


def by_block(value: Any) -> list[np.ndarray]:
    """Values of `distances_` or `forces_`, block after block."""
    return list(value.values()) if isinstance(value, dict) else [value]


def assert_optimal(definition: Definition, tolerance: float = 10 * KKT) -> None:
    """Check the optimality conditions, and what the model reports, from their definition."""
    model, (thetas, center) = definition.model, definition.parameters()
    forces = -definition.gradients(thetas)
    limit = tolerance * definition.force_scale
    assert model.kkt_residual_ <= KKT
    assert np.abs(forces.sum(axis=0)).max() <= limit
    assert model.objective_ == pytest.approx(definition.objective(thetas, center), rel=1e-9)
    parts = zip(definition.blocks, by_block(model.distances_), by_block(model.forces_), strict=True)
    for (place, tether), distances, sizes in parts:
        offsets, force = (thetas - center)[:, place], forces[:, place]
        d = np.linalg.norm(offsets, axis=1)
        size = 1 + np.abs(thetas).max()
        np.testing.assert_allclose(distances, d, rtol=1e-9, atol=1e-9 * size)
        np.testing.assert_allclose(sizes, np.linalg.norm(force, axis=1), atol=limit)
        assert np.all(distances <= tether["epsilon"] + 1e-11 * size)
        for delta, pull in zip(offsets, force, strict=True):
            _assert_held(delta, pull, tether, limit, 1e-7 * size)


def _assert_held(
    delta: np.ndarray, pull: np.ndarray, tether: dict[str, float], limit: float, small: float
) -> None:
    """The force of a task is a subgradient of its tether."""
    d = np.linalg.norm(delta)
    if d <= small:
        bound = np.inf if tether["epsilon"] <= small else tether["tension"]
        bound += tether["stiffness"] * small
        assert np.linalg.norm(pull) <= bound + limit
        return
    along = pull @ delta / d
    assert np.linalg.norm(pull - along * delta / d) <= limit
    least = tether["tension"] + tether["stiffness"] * d
    assert along >= least - limit
    if d < tether["epsilon"] - small:
        assert along <= least + limit
