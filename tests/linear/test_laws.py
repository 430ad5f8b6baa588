"""What must not matter, and what must, for every linear model."""

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from crosslearning.linear import CrossLogisticRegression, CrossRidge
from tests.support.linear_laws import Data, Definition, assert_optimal, by_block, random_data

INF = np.inf
few = settings(max_examples=15)

KNOBS: list[dict[str, Any]] = [
    {"epsilon": 0.0},
    {"epsilon": 0.05},
    {"epsilon": 0.7},
    {"epsilon": INF},
    {"epsilon": INF, "stiffness": 2.0},
    {"epsilon": INF, "tension": 1.5},
    {"epsilon": 0.6, "stiffness": 0.5, "tension": 0.5},
    {"epsilon": {"coef": 0.2, "intercept": INF}},
    {"epsilon": {"coef": 0.4, "intercept": 0.1}, "stiffness": {"intercept": 1.0}},
]


@st.composite
def models(draw: st.DrawFn, knobs: Any = None) -> tuple[Any, Data]:
    """Unfitted models, and data with tasks of all sizes."""
    classes = draw(st.sampled_from([0, 2, 3]))
    sizes = draw(st.lists(st.integers(3, 25), min_size=1, max_size=6))
    data = random_data(draw(st.integers(0, 10**6)), tuple(sizes), draw(st.integers(1, 4)), classes)
    estimator = CrossLogisticRegression if classes else CrossRidge
    if draw(st.booleans()):
        rng = np.random.default_rng(draw(st.integers(0, 10**6)))
        data = Data(data.X, data.y, data.tasks, rng.uniform(0.2, 3.0, len(data.y)))
    model = estimator(
        **draw(st.sampled_from(KNOBS) if knobs is None else knobs),
        alpha=draw(st.sampled_from([0.1, 1.0, 20.0])),
        task_weights=draw(st.sampled_from(["samples", "equal"])),
        fit_intercept=draw(st.booleans()),
        standardize=draw(st.booleans()),
    )
    return model, data


def copy(model: Any, **changes: Any) -> Any:
    return type(model)(**(model.get_params() | changes))


def scores(model: Any, data: Data) -> np.ndarray:
    if hasattr(model, "decision_function"):
        return model.decision_function(data.X, data.tasks)
    return model.predict(data.X, data.tasks)


def assert_same(left: np.ndarray, right: np.ndarray) -> None:
    size = 1.0 + np.abs(right).max()
    np.testing.assert_allclose(left, right, rtol=0, atol=1e-6 * size)


@given(models())
def test_optimality_from_the_definition(case):
    model, data = case
    assert_optimal(Definition(data.fitted(model), data))


@given(models(), st.integers(0, 1000))
@few
def test_order_of_rows_does_not_matter(case, seed):
    model, data = case
    left = data.fitted(model)
    order = np.random.default_rng(seed).permutation(len(data.y))
    right = data.take(order).fitted(copy(model))
    for name in ("coef_", "intercept_", "center_coef_", "center_intercept_"):
        assert_same(getattr(right, name), getattr(left, name))


@given(models(), st.integers(0, 1000))
@few
def test_names_and_order_of_tasks_do_not_matter(case, seed):
    model, data = case
    left = data.fitted(model)
    names = np.random.default_rng(seed).permutation(len(left.tasks_))
    renamed = Data(data.X, data.y, np.array([f"task {n}" for n in names])[data.tasks])
    right = copy(model).fit(
        renamed.X, renamed.y, tasks=renamed.tasks, sample_weight=data.sample_weight
    )
    assert right.tasks_.tolist() == [f"task {k}" for k in range(len(names))]
    assert_same(right.coef_[names], left.coef_)
    assert_same(right.center_coef_, left.center_coef_)
    for ours, theirs in zip(by_block(right.forces_), by_block(left.forces_), strict=True):
        assert_same(ours[names], theirs)


@given(models(), st.floats(-50, 50), st.sampled_from([1e-4, 0.5, -2.0, 1e4]))
@few
def test_units_of_a_feature_do_not_matter_if_standardised(case, shift, factor):
    model, data = case
    model = copy(model, standardize=True, fit_intercept=True)
    X = data.X.copy()
    X[:, 0] = factor * (X[:, 0] + shift)
    changed = Data(X, data.y, data.tasks, data.sample_weight)
    left, right = data.fitted(model), changed.fitted(copy(model))
    assert_same(scores(right, changed), scores(left, data))
    for ours, theirs in zip(by_block(right.distances_), by_block(left.distances_), strict=True):
        assert_same(ours, theirs)


@given(models(), st.floats(-1e3, 1e3), st.sampled_from([1e-3, 0.3, 1e4]))
@few
def test_units_of_the_target_scale_the_tether(case, shift, factor):
    model, data = case
    assume(isinstance(model, CrossRidge))
    assume(not np.any([np.any(list(_values(getattr(model, k)))) for k in ("tension",)]))
    model = copy(model, fit_intercept=True)
    epsilon = model.epsilon
    scaled = {k: factor * v for k, v in epsilon.items()} if isinstance(epsilon, dict) else None
    other = copy(model, epsilon=factor * epsilon if scaled is None else scaled)
    changed = Data(data.X, factor * (data.y + shift), data.tasks, data.sample_weight)
    left, right = data.fitted(model), changed.fitted(other)
    assert_same(scores(right, changed) / factor - shift, scores(left, data))


def _values(knob: Any) -> Any:
    return knob.values() if isinstance(knob, dict) else [knob]


@given(models(knobs=st.just({})), st.floats(0, 3), st.floats(0, 3))
@few
def test_objective_does_not_rise_with_epsilon(case, first, second):
    model, data = case
    tight, loose = sorted([first, second])
    blocks = {"coef": tight, "intercept": tight}
    values = [
        data.fitted(copy(model, epsilon=epsilon)).objective_ for epsilon in (0.0, tight, loose, INF)
    ]
    slack = 1e-8 * (1 + abs(values[0]))
    assert np.all(np.diff(values) <= slack)
    # A ball lies within the product of two balls of its radius.
    assert data.fitted(copy(model, epsilon=blocks)).objective_ <= values[1] + slack


@given(models(knobs=st.just({})), st.floats(0.1, 0.8))
@few
def test_forces_are_prices(case, share):
    """-dV/dε is the sum of the forces."""
    model, data = case
    assume(len(set(data.tasks)) > 1)
    separate = data.fitted(copy(model, epsilon=INF))
    epsilon = share * separate.epsilon_max_
    h = 1e-4 * epsilon
    assume(h > 0)
    low, high = (data.fitted(copy(model, epsilon=epsilon + s * h)).objective_ for s in (-1, 1))
    forces = data.fitted(copy(model, epsilon=epsilon)).forces_
    noise = 1e-10 * (1 + abs(low)) / h
    assert (low - high) / (2 * h) == pytest.approx(forces.sum(), rel=1e-3, abs=noise)


def test_forces_of_blocks_are_prices():
    data = random_data(0, (20, 15, 9), 3)
    epsilon = {"coef": 0.3, "intercept": 0.2}
    forces = data.fitted(CrossRidge(epsilon)).forces_
    for block in epsilon:
        low, high = (
            data.fitted(CrossRidge(epsilon | {block: epsilon[block] + h})).objective_
            for h in (-1e-5, 1e-5)
        )
        assert (low - high) / 2e-5 == pytest.approx(forces[block].sum(), rel=1e-5)


@pytest.mark.parametrize("estimator", [CrossRidge, CrossLogisticRegression])
@pytest.mark.parametrize("share", [0.3, 0.7, 0.95])
def test_only_tasks_at_the_bound_are_held(estimator, share):
    data = random_data(1, (20, 15, 9, 30, 12, 18), 2, 2)
    model = estimator(share * data.fitted(estimator(INF)).epsilon_max_)
    problem = Definition(data.fitted(model), data)
    inside = model.distances_ < model.epsilon_ * (1 - 1e-6)
    assert inside.any() or share < 0.5
    assert not inside.all()
    # No bound acts on them: what is left of the gradient is the solver's rounding.
    assert np.all(model.forces_[inside] <= 1e-9 * problem.force_scale)
    assert np.all(model.forces_[~inside] >= 1e-6 * problem.force_scale)
    np.testing.assert_allclose(model.distances_[~inside], model.epsilon_, rtol=1e-12)


def test_weak_tension_in_one_dimension():
    """Between tasks on a line tension has no curvature: the centre must not creep."""
    y, tasks = [0.0, 0.0, 1.0, 1.0, 1.0, 10.0, 10.0], [0, 0, 1, 1, 1, 2, 2]
    model = CrossRidge(np.inf, tension=0.01).fit(np.zeros((7, 1)), y, tasks=tasks)
    assert model.kkt_residual_ <= 1e-8
    assert model.n_iter_ <= 20
