"""Learners that are added: which tables they are tried on, new tasks, words, and saving."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

from crosslearning.tables import TableModel, fit_table
from crosslearning.tables.forecast import Learned
from crosslearning.tables.learners import LEARNERS
from crosslearning.tables.learners.learner import Learner


@dataclass(frozen=True, eq=False, kw_only=True)
class Levels(Learned):
    """The level of the target where x is positive, and where it is not, in each task."""

    levels: np.ndarray  # by task, of all tasks in the last row
    cost = 1

    def outputs(self, columns):
        task = np.full(len(columns), -1) if self.pooled is None else columns[:, -1].astype(int)
        return self.levels[task, (columns[:, 0] > 0).astype(int)]


@dataclass(eq=False)
class Steps(Learner):
    pooled, cross = "pooled steps", "steps that know the task"
    words, plural = "steps", True
    kinds, bases = ("regression",), ("auto", "linear")

    def learn(self, rows, sds, with_task):
        side = (rows.X[:, 0] > 0).astype(int)
        pairs = [(rows.codes == k, side == s) for k in range(rows.n_tasks) for s in (0, 1)]
        levels = [rows.y[a & b].mean() if (a & b).any() else rows.y.mean() for a, b in pairs]
        levels += [rows.y[side == s].mean() for s in (0, 1)]
        pooled = self.learn(rows, sds, False) if with_task else None
        shared = {"sds": sds, "smallest": rows.smallest, "pooled": pooled}
        return Levels(levels=np.reshape(levels, (-1, 2)), **shared)

    def held_out(self, *, with_task):
        done = []
        for train, test in self.splits.parts:
            part = self.rows.take(test)
            learned = self.learn(self.rows.take(train), np.zeros(2), with_task)
            done.append(learned.predict(part.X, part.codes))
            yield done

    def final(self, sds, *, with_task):
        return self.learn(self.rows, sds, with_task)


@pytest.fixture
def steps(monkeypatch):
    monkeypatch.setitem(LEARNERS, "steps", Steps)


def table(classes=False):
    rng = np.random.default_rng(0)
    x, g = rng.uniform(-1, 1, 600), np.arange(600) % 6
    y = np.where(x > 0, g, -g) + 0.1 * rng.normal(size=600)
    return pd.DataFrame({"x": x, "g": g, "y": np.where(y > 0, "a", "b") if classes else y})


GIVEN = {"task": "g", "target": "y", "base": "linear", "folds": 3}


@pytest.mark.usefixtures("steps")
def test_a_learner_is_tried_described_and_saved(tmp_path):
    frame = table()
    model = fit_table(frame, **GIVEN)
    found = model.results
    assert found["chosen_model"]["parts"][0]["label"] == "steps that know the task"
    assert "without steps" in found["sentence"].lower()
    assert found["beyond_linear"].startswith("With steps, the model is better")
    model.save(tmp_path)
    again = TableModel.load(tmp_path).predict(frame)
    pd.testing.assert_frame_equal(again, model.predict(frame))
    new = model.predict(frame.head(20).assign(g=99))
    assert (new["std"] > 2 * again["std"].head(20)).all()  # as their errors are


@pytest.mark.usefixtures("steps")
def test_a_learner_of_numbers_is_not_tried_on_classes():
    models = fit_table(table(classes=True), **GIVEN).results["models"]
    assert not any("steps" in model["label"] for model in models)


@pytest.mark.usefixtures("steps")
def test_a_learner_is_tried_with_its_bases_only():
    given = GIVEN | {"base": "boosting"}
    models = fit_table(table().head(200), **given).results["models"]
    assert not any("steps" in model["label"] for model in models)
