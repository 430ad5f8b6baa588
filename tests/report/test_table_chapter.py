"""The chapter on a table: which model to use, how good it is, and how much tasks differ."""

import shlex
from pathlib import Path

import numpy as np
import pytest

from crosslearning.evaluation.numbers import number, percent
from crosslearning.report import write
from tests.support.html_page import Page, page_of, values
from tests.support.report_results import COMMAND, save, table_results

LEVEL = {"what": "level", "sd": 0.0, "low": None, "high": None}  # that is the same everywhere


def chosen_error(content):
    """Return the typical error of the chosen model."""
    (error,) = (model["error"] for model in content["models"] if model["chosen"])
    return error


def test_the_answer_comes_first(table_page):
    content = table_results()
    level, coverage = content["differences"]["levels"][0]["level"], content["calibration"]
    order = [
        table_page.index(words)
        for words in (
            content["title"],
            content["sentence"],
            f"Use this model {content['chosen_model']['label']} {content['chosen_model']['why']}",
            f"Typical error of a prediction {number(chosen_error(content), 3)} ",
            "Tasks helped by sharing 37 of 45 do better with the blend of 2 models than with",
            *(remark["lead"] + ":" for remark in content["remarks"]),
            f"contained {percent(coverage[2]['observed'])} of the held-out rows",
            f"standard deviation of {number(level['sd'], 3)} ({number(level['low'], 3)} to ",
            COMMAND,
            "The same in Python: from crosslearning.tables import",
        )
    ]
    assert order == sorted(order)


def test_without_a_comparison_no_tasks_are_counted(tmp_path, table_page):
    assert "Tasks helped by sharing" in table_page
    unsaid, same, pooled = table_results(), table_results(), table_results()
    unsaid["verdict"]["effect"] = "nothing"
    labels = same["verdict"]["labels"]
    labels["cross"] = labels[same["verdict"]["against"]]
    pooled["verdict"]["effect"] = "pool"  # by a model with curves, say
    pooled["models"] = [
        model | ({"kind": "pooled"} if model["chosen"] else {}) for model in pooled["models"]
    ]
    for content in (unsaid, same, pooled):
        assert "Tasks helped by sharing" not in page_of(tmp_path, content)


def test_sharing_has_no_credit_for_separate_models(tmp_path, table_page):
    gain = "tasks above 0 do better with the blend of 2 models"
    assert gain in table_page
    content = table_results()
    content["verdict"]["effect"] = "hurts"
    for model in content["models"]:
        model["kind"] = "separate" if model["chosen"] else model["kind"]
    page = page_of(tmp_path, content)
    assert "Tasks helped by separate models 37 of 45 do better with the blend" in page
    assert gain in page
    assert "helped by sharing" not in page
    assert "sharing helps" not in page


def test_every_model_is_shown_with_its_uncertainty(table_page):
    models = {model["label"]: model for model in table_results()["models"]}
    (chart,) = table_page.charts_of("of every model tried")
    rows = {row["label"]: row for row in max(chart["datasets"].values(), key=len)}
    assert list(rows) == sorted(models, key=lambda label: models[label]["difference"])
    assert [label for label, row in rows.items() if row["chosen"]] == ["blend of 2 models"]
    for label, row in rows.items():
        error = models[label]["difference_error"]
        ends = [models[label]["score"] + sign * error for sign in (-1, 0, 1)]
        assert [row["low"], row["at"], row["high"]] == pytest.approx(ends)


@pytest.mark.parametrize("greater", [False, True])
def test_a_model_far_behind_is_at_the_edge_of_the_axis(tmp_path, greater):
    """It must neither squeeze the others nor disappear."""
    content = table_results()
    content["score"]["greater_is_better"] = greater
    worst = content["models"][-1]
    worst |= {"label": "the mean of all that was known before", "score": 250.0, "difference": 249.0}
    (chart,) = page_of(tmp_path, content).charts_of("of every model tried")
    far = next(row for row in values(chart) if row["label"] == worst["label"])
    assert far["text"] == ("← 250.0" if greater else "250.0 →")
    assert far["lines"] == "the mean of all that was\nknown before"  # long names are not cut
    edge = {"value": 0 if greater else "width"}
    marks = [layer["mark"]["type"] for layer in chart["layer"] if layer["encoding"]["x"] == edge]
    assert marks == ["point", "text"]
    scales = [layer["encoding"]["x"].get("scale") for layer in chart["layer"]]
    assert all(scale["domain"][1] < 50 for scale in scales if scale)


def test_the_tile_names_the_best_alternative_of_each_kind(tmp_path):
    content = table_results()
    rivals = {}
    for model in content["models"]:
        if not model["chosen"]:
            rivals.setdefault(model["kind"], model["label"])
    errors = {model["label"]: number(model["error"], 3) for model in content["models"]}
    shown = " ".join(f"{label} {errors[label]}" for label in rivals.values())
    page = page_of(tmp_path, content)
    assert f"{number(chosen_error(content), 3)} {shown}" in page
    assert "Root mean squared error, in units of spending" in page
    assert len(rivals) < len(content["models"]) - 1


@pytest.mark.parametrize(
    ("keys", "charts"),
    [({"calibration", "predicted"}, 1), ({"effects"}, 2), ({"remarks", "warnings"}, 0)],
)
def test_what_was_not_found_leaves_out_its_part_only(tmp_path, table_page, keys, charts):
    page = page_of(tmp_path, table_results() | {key: [] for key in keys})
    assert len(page.text) < len(table_page.text)
    assert len(page.charts) == len(table_page.charts) - charts
    assert "Who gains, who loses" in page


def test_predictions_are_shown_against_what_was_observed(table_page):
    (scatter,) = table_page.charts_of("Actual against predicted")
    assert len(values(scatter)) == 300 + 2  # and the diagonal
    for point in table_results()["calibration"]:
        assert percent(point["observed"]) in table_page


def test_a_bound_is_shown_with_its_forces(tmp_path, table_page):
    content = table_results("bound")
    page = page_of(tmp_path, content)
    assert "All models are within ε = 0.500 of these standard deviations of the centre." in page
    forces = {task["task"]: task["force"] for task in content["tasks"]}
    active = sum(task["distance"] > 0.499999 for task in content["tasks"])
    assert f"{active} of 6 models are at the bound" in page
    assert f"Shop {max(forces, key=forces.get)} is held back most." in page
    (chart,) = page.charts_of("of every model tried")
    unbound = {row["label"] for row in values(chart) if row["text"].endswith(" · no bound")}
    assert unbound == {"common slopes, a level per task", "separate models"}
    assert "do not keep ε, and are for comparison only." in page
    assert "for comparison only" not in table_page
    assert "There is no bound on the distance to the centre" in table_page
    assert "force" not in table_page
    assert "at the bound" not in table_page


def test_differences_between_tasks(table_page):
    differences = table_results()["differences"]
    (shops,) = differences["levels"]
    (chart,) = table_page.charts_of("Standard deviation between")
    assert [row["what"] for row in values(chart)] == [row["what"] for row in shops["shown"]]
    assert [row["sd"] for row in values(chart)] == pytest.approx(
        [row["sd"] for row in shops["shown"]]
    )
    noise = number(differences["noise"], 3)
    assert f"Within a shop, rows vary by {noise} around what their model says." in table_page


def test_tasks_that_do_not_differ(tmp_path):
    content = table_results("bound")
    content["differences"]["levels"][0] |= {"shown": [], "level": LEVEL}
    page = page_of(tmp_path, content)
    assert "The tasks do not differ in this model" in page
    assert not page.charts_of("Standard deviation between")


def test_a_level_that_is_the_same_everywhere_has_no_standard_deviation(tmp_path):
    content = table_results("bound")
    (shops,) = content["differences"]["levels"]
    shops |= {"level": LEVEL, "shown": [shops["shown"][1] | {"low": None, "high": None}]}
    page = page_of(tmp_path, content)
    assert "The level of spending does not differ between tasks; the effects of columns do" in page
    (chart,) = page.charts_of("Standard deviation between")
    assert [row["what"] for row in values(chart)] == [shops["shown"][0]["what"]]
    assert values(chart)[0]["columns"] == "age, income"


def test_effects_share_a_vertical_axis(table_page):
    first, second = table_page.charts_of("Partial effect")
    assert "of age on spending" in first["description"]
    tasks = [row for row in values(first) if row["task"] != "centre"]
    assert len(tasks) == 23  # of 45
    assert all(len(row["x"]) == len(row["y"]) == 21 for row in tasks)
    scales = [chart["layer"][0]["encoding"]["y"]["scale"]["domain"] for chart in (first, second)]
    assert scales[0] == scales[1]


def test_a_held_out_table_and_a_horizon(tmp_path, table_page):
    assert "error of every model, on held-out rows" in table_page
    page = page_of(tmp_path, table_results("held-out table"))
    assert "On the 36 rows of the held-out table, the chosen model has " in page
    assert "These are at most 2 later in year than the rows that the model knew" in page


def test_effects_of_categories_are_strokes(tmp_path):
    (chart,) = page_of(tmp_path, table_results("held-out table")).charts_of("of season on")
    assert [layer["mark"]["type"] for layer in chart["layer"]] == ["tick", "point"]
    assert {tuple(row["x"]) for row in values(chart)} == {("spring", "summer")}


def test_columns_that_are_constant_within_tasks_have_no_slopes(tmp_path):
    content = table_results("bound") | {"constant_within_tasks": ["income"]}
    page = page_of(tmp_path, content)
    assert "so their effects cannot differ between tasks: income." in page
    strips = page.charts_of("Coefficients of every")[0]
    assert {row["feature"] for row in values(strips)} == {"age"}
    content["constant_within_tasks"] = ["age", "income"]
    assert len(page_of(tmp_path, content).charts_of("Coefficients of every")) == 1  # intercept


def test_coefficients_that_do_not_differ_are_sorted_by_size(tmp_path):
    content = table_results("bound")
    (part,), rng = content["coefficients"]["predictors"], np.random.default_rng(0)
    content["coefficients"]["features"] = [f"column {k}" for k in range(25)]
    part["center"] = rng.normal(size=25).tolist()
    part["tasks"] = [part["center"]] * 6
    page = page_of(tmp_path, content)
    assert "the 20 of 25 that are largest" in page
    strips = page.charts_of("Coefficients of every")[0]
    assert values(strips)[0]["value"] == pytest.approx(max(part["center"], key=abs))


def test_classes(tmp_path):
    content = table_results("classes")
    page = page_of(tmp_path, content)
    correct, reliable = chosen_error(content), content["reliability"]
    assert f"Predictions that are correct {number(correct, 3)} %" in page
    assert "compared by log loss, and may rank differently here" in page
    assert not page.charts_of("Actual against predicted")
    assert f"On held-out rows they are off by {100 * reliable['off']:.1f} points" in page
    assert f"How often spending = {reliable['class']} was true" in page
    (chart,) = page.charts_of("predicted probabilities of held-out rows")
    shown = [row["observed"] for row in values(chart) if "count" in row]
    assert shown == pytest.approx([row["observed"] for row in reliable["bins"]], rel=1e-6)
    assert f"Predicted {content['effects'][0]['what']} as one column changes" in page
    assert "in log-odds, differs between tasks" in page
    assert "for comparison" not in page
    content["score"]["name"] = "accuracy"
    assert "may rank differently" not in page_of(tmp_path, content)
    content["reliability"]["class"] = None
    assert "How often the predicted spending was true" in page_of(tmp_path, content)


def test_classes_have_coefficients_each(tmp_path):
    content = table_results("bound")
    (part,) = content["coefficients"]["predictors"]
    parts = [part | {"class": name} for name in ("low", "high")]
    content["coefficients"]["predictors"] = parts
    page = page_of(tmp_path, content)
    assert "Coefficients of class low" in page
    assert "Intercept of class high" in page


def test_of_many_classes_those_that_differ_most_are_shown(tmp_path):
    content = table_results("bound")
    (part,) = content["coefficients"]["predictors"]
    slopes = np.array(part["tasks"])
    content["coefficients"]["predictors"] = [
        part | {"class": f"c{k}", "tasks": (scale * slopes).tolist()}
        for k, scale in enumerate([1.0, 2.0, 0.5, 3.0, 0.1, 4.0, 5.0, 6.0])
    ]
    page, some = page_of(tmp_path, content), "(shown for the 6 of 8 classes that differ most)"
    for k in range(8):
        assert (f"Coefficients of class c{k} {some}" in page) == (k not in (2, 4))
    assert page.index("of class c7") < page.index("of class c6") < page.index("of class c0")


def test_counts_have_factors_and_intervals_of_whole_numbers(tmp_path):
    content = table_results("counts")
    page = page_of(tmp_path, content)
    factor = number(content["differences"]["factor"], 2)
    assert f"about two in three are within a factor of {factor} of the centre" in page
    assert "in the logarithm of spending, differs between tasks" in page
    assert "rows vary by" not in page
    assert "An interval of whole counts cannot contain exactly its share" in page


def test_a_folder_with_a_model_shows_how_to_predict(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = save(Path("fits") / "my shops", table_results("bound"))
    assert "crosslearning predict" not in Page(write(folder))
    (folder / "model.npz").touch()
    command = "crosslearning predict 'fits/my shops' new.csv"
    assert f"{command} --out predicted.csv" in Page(write(folder))
    assert Path(shlex.split(command)[2], "model.npz").is_file()


def test_provenance(table_page):
    provenance = table_results()["provenance"]
    versions = [f"{name} {version}" for name, version in provenance["versions"].items()]
    facts = [COMMAND, "seed 0", provenance["fingerprint"], "2 columns used as features"]
    for words in facts + versions:
        assert words in table_page
