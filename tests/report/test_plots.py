"""Charts in Python: they show the numbers of the object, and need Altair only when drawn."""

import json
import sys
from html import unescape

import numpy as np
import pandas as pd
import pytest

from crosslearning import CrossLogisticRegression, CrossRidge, cross_ridge_path
from crosslearning.evaluation import Comparison
from crosslearning.report import plots
from crosslearning.tables import fit_table

TASKS = np.repeat(["a", "b", "c"], 20)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    return X, X @ [1.0, -2.0] + rng.normal(size=60), TASKS


@pytest.fixture
def comparison():
    scores = np.array([[-4.0, -5.0, -6.0], [-3.0, -4.0, -6.5], [-2.0, -3.5, -5.0]])
    methods, size = ("pooled", "separate", "cross"), np.full(3, 20)
    return Comparison(methods, np.array(["a", "b", "c"]), size, scores, np.ones(3))


def values(plot, field):
    """All values of a field in the data of a chart."""
    data = plot.spec["datasets"].values()
    return [row[field] for part in data for row in part if field in row]


def test_a_comparison_shows_errors_best_first(comparison):
    drawn = values(comparison.plot(), "score")[-3:]  # those before are of the last method alone
    assert drawn == pytest.approx([3.5, 4.5, 5.0], abs=1e-6)
    shown = comparison._repr_html_()
    assert comparison.sentence() in unescape(shown)
    assert "<table" in shown
    assert "<svg" in shown


def test_a_path_shows_every_task_and_the_centre(rows):
    path = cross_ridge_path(*rows, n_epsilons=3)
    plot = path.plot(coefficient=1)
    assert set(values(plot, "label")) == {"a", "b", "c", "centre"}
    expected = [*path.coef[:, :, 1].ravel(), *path.center_coef[:, 1]]
    assert sorted(values(plot, "value")) == pytest.approx(sorted(expected), rel=1e-6)
    assert repr(path) == "<CrossPath of 5 radii for 3 tasks>"
    with pytest.raises(ValueError, match="must be a number from 0 to 1; got 9"):
        path.plot(coefficient=9)


def test_a_path_by_block_is_refused(rows):
    radii = [{"coef": 1.0, "intercept": 2.0}]
    with pytest.raises(ValueError, match="radii by block"):
        cross_ridge_path(*rows, epsilons=radii).plot()


def test_linear_models_show_their_coefficients(rows):
    X, y, tasks = rows
    model = CrossRidge(0.5).fit(X, y, tasks=tasks)
    expected = [*model.coef_.ravel(), *model.intercept_, *model.center_coef_]
    drawn = values(model.plot_tasks(), "value")
    assert sorted(drawn) == pytest.approx(sorted([*expected, model.center_intercept_]), rel=1e-6)
    classes = CrossLogisticRegression(0.5).fit(X, np.digitize(y, [-1, 1]), tasks=tasks)
    assert {"0: intercept", "2: x1"} <= set(values(classes.plot_tasks(), "feature"))


def test_a_table_shows_its_verdict(rows):
    X, y, tasks = rows
    frame = pd.DataFrame({"x": X[:, 0], "z": X[:, 1], "y": y, "task": tasks})
    model = fit_table(frame, task="task", target="y", base="linear")
    assert model.findings.sentence.split(":")[0] in model._repr_html_()
    assert set(values(model.plot_tasks(), "feature")) == {"x", "z", "intercept"}


def test_a_plot_is_saved_by_the_end_of_its_name(comparison, tmp_path):
    plot = comparison.plot()
    plot.save(tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_text().startswith("<svg")
    with pytest.raises(ValueError, match=r"a\.gif"):
        plot.save(tmp_path / "a.gif")
    assert json.loads(plot.chart.to_json())["description"] in repr(plot)


def test_without_altair_there_is_a_message_but_still_a_table(comparison, monkeypatch):
    monkeypatch.setitem(sys.modules, "altair", None)
    monkeypatch.setattr(plots, "find_spec", lambda _: None)
    with pytest.raises(ImportError, match=r"crosslearning\[app\]"):
        comparison.plot()
    assert "<svg" not in comparison._repr_html_()
    assert "<table" in comparison._repr_html_()
