"""Whether a fit says that sharing helps: tasks that differ, and labels that mean nothing."""

import numpy as np
import pandas as pd
import pytest

from crosslearning.evaluation.numbers import number
from crosslearning.tables import fit_table
from tests.support.tables import shops


def test_headline_list_and_saved_model_agree(regression):
    """One number for the model that is saved, wherever it is told."""
    found = regression.results
    scores = [model["score"] for model in found["models"]]
    assert scores == sorted(scores)
    chosen = found["models"][0]
    assert chosen["chosen"]
    assert sum(model["chosen"] for model in found["models"]) == 1
    assert chosen["name"] == found["chosen_model"]["name"]
    assert chosen["score"] == pytest.approx(chosen["error"] ** 2)
    structure = {"cross": "auto"}.get(chosen["name"], chosen["name"])
    assert regression.state["parameters"]["covariance"] == structure
    assert found["chosen_model"]["parts"][0] == {
        "name": chosen["name"],
        "label": chosen["label"],
        "weight": 1.0,
    }
    ends = {"pooled", "cross", "separate"}
    assert ends | {"levels"} | {f"{end}-robust" for end in ends} == {
        m["name"] for m in found["models"]
    } - {"blend"}
    explanation = found["score"]["explanation"]
    nested = number(-np.mean(found["comparison"]["scores"][-1]))
    assert f"choosing the model without the rows that it is scored on gives {nested}" in explanation
    for among, scores in zip(("pooled", "separate"), found["comparison"]["scores"], strict=False):
        assert f"among {among} models {number(-np.mean(scores))}" in explanation


@pytest.mark.parametrize("tails", ["heavy", "light"])
def test_robust_models_are_tried_where_tails_are_heavy(tails):
    rng = np.random.default_rng(0)
    noise = rng.standard_t(3, 240) if tails == "heavy" else rng.uniform(-1.0, 1.0, 240)
    x = rng.normal(size=240)
    frame = pd.DataFrame({"x": x, "y": x + noise, "g": np.arange(240) % 6})
    models = fit_table(frame, task="g", target="y", base="linear", folds=2).results["models"]
    assert any("robust" in model["name"] for model in models) == (tails == "heavy")


def tasks_alike(seed, tasks=12, rows=20):
    """Tasks that do not differ at all."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=tasks * rows)
    y = x + rng.normal(size=len(x))
    return pd.DataFrame({"x": x, "y": y, "g": np.arange(len(x)) % tasks})


def says_that_tasks_matter(frame, base, **options):
    found = fit_table(frame, task="g", target="y", base=base, **options).results
    return found["verdict"]["effect"] in ("helps", "differ")


def test_few_labels_that_mean_nothing_seem_to_help():
    frames, quick = map(tasks_alike, range(6)), {"folds": 2, "family": "gaussian"}
    assert sum(says_that_tasks_matter(frame, "linear", **quick) for frame in frames) <= 1


@pytest.mark.slow
def test_labels_that_mean_nothing_do_not_help():
    """At most one in twenty of such tables may say that sharing helps beyond one model."""
    bases = ["linear" if seed % 4 else "splines" for seed in range(40)]  # splines take longer
    wrong = [says_that_tasks_matter(tasks_alike(seed), base) for seed, base in enumerate(bases)]
    assert sum(wrong) <= 2


@pytest.mark.slow
def test_curves_in_a_wide_table_are_not_credited_to_random_groups():
    """With 14 columns curves have more coefficients than tasks are tried with by themselves."""
    wrong = 0
    for seed in range(7):
        rng = np.random.default_rng(seed)
        X = rng.uniform(size=(200, 14))
        y = 20 * (X[:, 0] - 0.5) ** 2 + 3 * np.sin(6 * X[:, 1]) + X[:, 2] + rng.normal(size=200)
        frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(14)]).assign(y=y)
        frame["g"] = rng.integers(12, size=200).astype(str)
        results = fit_table(frame, task="g", target="y", base="splines").results
        assert results["beyond_linear"].startswith("With curves")
        wrong += results["verdict"]["effect"] in ("helps", "differ")
    assert wrong <= 1


def test_pooled_is_saved_where_it_is_best():
    given = {"task": "g", "target": "y", "base": "linear", "folds": 2, "family": "gaussian"}
    for seed in range(10):
        model = fit_table(tasks_alike(seed), **given)
        if model.results["chosen_model"]["name"] == "pooled":
            break
    frame = tasks_alike(seed)
    assert model.results["sentence"].startswith("One model for all is best here")
    said = model.predict(frame.head(1).assign(g=[0]))["prediction"]
    other = model.predict(frame.head(1).assign(g=[5]))["prediction"]
    assert said[0] == pytest.approx(other[0], abs=1e-12)


def test_tasks_that_have_nothing_in_common_have_models_of_their_own():
    rng = np.random.default_rng(7)
    frame = tasks_alike(0, tasks=4, rows=80)
    slopes = np.array([30.0, -1.0, 0.0, -0.3])[frame["g"]]
    frame["y"] = slopes * frame["x"] + 0.1 * rng.normal(size=len(frame))
    model = fit_table(frame, task="g", target="y", base="linear")
    coef = model.estimator.coef_[:, 0]
    np.testing.assert_allclose(coef, [30.0, -1.0, 0.0, -0.3], atol=0.05)


def test_a_bound_counts_standard_deviations_of_the_tasks():
    rng = np.random.default_rng(1)
    tasks = np.repeat(np.arange(60), 12)
    x = rng.normal(size=720)
    slope = 1 + 0.7 * rng.normal(size=60)
    y = slope[tasks] * x + 2 * rng.normal(size=60)[tasks] + 2 * rng.normal(size=720)
    frame = pd.DataFrame({"x": x, "y": y, "g": tasks})
    found = fit_table(frame, task="g", target="y", epsilon=2.0, base="linear", folds=2).results
    assert found["chosen_model"]["name"] in ("cross", "cross-robust")
    assert found["epsilon"] == 2.0
    assert max(task["distance"] for task in found["tasks"]) <= 2.0 + 1e-6


def test_a_bound_leaves_the_rivals_as_they_are():
    scores = {}
    given = {"task": "shop", "target": "sales", "base": "linear", "features": ["price"], "folds": 2}
    for epsilon in (0.0, 0.5, np.inf):
        found = fit_table(shops(), **given, epsilon=epsilon).results
        scores[epsilon] = {model["name"]: model["score"] for model in found["models"]}
    for name in ("pooled", "levels", "separate"):
        assert scores[0.0][name] == scores[0.5][name] == scores[np.inf][name]
    assert "cross" not in scores[0.0]  # which is the pooled model
    assert scores[np.inf]["cross"] < scores[0.5]["cross"] < scores[0.5]["pooled"]


def test_nothing_to_learn_is_said():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(30, 3))).add_prefix("x").assign(g=np.arange(30) % 3)
    frame["y"] = rng.normal(size=30)
    found = fit_table(frame, task="g", target="y", base="linear").results
    assert found["models"][0]["score"] > found["score"]["baseline"]
    assert found["sentence"].startswith("No model is better than predicting the training mean. ")


def test_a_choice_that_is_worse_than_the_mean_is_said_to_be():
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(rng.normal(size=(30, 3))).add_prefix("x").assign(g=np.arange(30) % 3)
    frame["y"] = rng.normal(size=30)
    found = fit_table(frame, task="g", target="y", base="linear").results
    assert found["models"][0]["score"] < found["score"]["baseline"]
    start = "The chosen model is no better than predicting the training mean. "
    assert found["sentence"].startswith(start)


def test_few_rows_of_noise_do_no_worse_than_class_frequencies():
    """However many columns there are to be misled by; separate models suffer most."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(72, 8))).add_prefix("x")
    frame = frame.assign(g=np.arange(72) % 6, y=rng.choice(list("abc"), 72))
    found = fit_table(frame, task="g", target="y", base="linear").results
    scores = {model["name"]: model["score"] for model in found["models"]}
    assert found["models"][0]["score"] < 1.01 * found["score"]["baseline"]
    assert scores["separate"] < 1.15 * found["score"]["baseline"]
    assert "does not help beyond" in found["sentence"]
