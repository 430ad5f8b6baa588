"""The report as a file: what it says, in which order, and that nothing can break out of it."""

import json
import math
import re
import shlex
from html.parser import HTMLParser
from pathlib import Path

import altair as alt
import numpy as np
import pytest
from PIL import Image

from crosslearning.cli import main
from crosslearning.evaluation.calibration import reliability
from crosslearning.paper.gaussian import experiment as gaussian
from crosslearning.report import write
from crosslearning.report.chapters.chapter import Figure, figures_in
from crosslearning.report.charts.effects import partial_effect
from crosslearning.report.charts.export import export
from crosslearning.report.page import chapter
from crosslearning.report.reading import Results
from tests.support.report_results import images_results, save, table_results

LARGEST = 3_000_000
HOSTILE = "</script><script>alert(1)</script><b>"


class Page(HTMLParser):
    """Elements, words and charts of a page."""

    def __init__(self, path):
        super().__init__()
        self.size = path.stat().st_size
        self.elements, self.words, self.charts, self.scripts = [], [], [], []
        self.inside = None
        self.feed(path.read_text(encoding="utf-8"))
        self.text = re.sub(r"\s+", " ", " ".join(self.words))

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.inside = tag if tag in ("script", "style") else None
        if tag == "script":
            self.scripts.append(dict(attrs).get("type"))

    def handle_endtag(self, _):
        self.inside = None

    def handle_data(self, data):
        if self.inside == "script" and self.scripts[-1] == "application/json":
            content = json.loads(data)
            if "$schema" in content:
                self.charts.append(content)
        elif self.inside is None:
            self.words.append(data)

    def __contains__(self, words):
        return words in self.text

    def charts_of(self, description):
        return [chart for chart in self.charts if description in chart["description"]]


def page_of(folder, content):
    return Page(write(save(folder, content)))


def values(chart):
    """All rows of a chart, whatever layer they belong to."""
    return [row for rows in chart["datasets"].values() for row in rows]


@pytest.fixture(scope="module")
def table_page(tmp_path_factory):
    return page_of(tmp_path_factory.mktemp("table"), table_results())


@pytest.fixture(scope="module")
def images_page(tmp_path_factory):
    folder = save(tmp_path_factory.mktemp("images"), images_results())
    Image.new("RGB", (60, 30)).save(folder / "contact_sheet.png")
    return Page(write(folder))


def test_a_table_says_what_to_do_first(table_page):
    text = table_page.text
    order = [
        text.index(words)
        for words in (
            "spending by shop",
            "Sharing helps: cross-learning is better than separate models by 1.5 ± 0.2.",
            "Use this model splines, cross-learned It has the smallest error of the six",
            "Typical error of a prediction 5.43 ",
            "one pooled model with a level for every shop 5.60 separate models 5.57",
            "Tasks helped by sharing 48 of 60 do better with splines, cross-learned than with",
            "Shop 100 gains most:",
            "Shop 159 loses most:",
            "Column day looks like a date",
            "Scores are nested: a model's settings, too, were chosen without the rows",
            "contain 90 % of new rows contained 91.2 % of the held-out rows (50 %: 51.2",
            "by a standard deviation of 1.60 (1.30 to 1.90)",
            "Within a shop, rows vary by 5.20",
            "All models are within ε = 2.00 of these standard deviations of the centre.",
            "59 of 60 models are at the bound",
            "Shop 159 is held back most.",
            "One stroke per shop",
            "thick for the centre, thin for each shop",
            "For every shop:",
            "force is how fast the error of a shop on its own rows would fall",
            "crosslearning fit shops.csv --task shop --target spending --seed 0",
            "The same in Python: import crosslearning as cl",
        )
    ]
    assert order == sorted(order)


def test_a_choice_shows_all_models_with_how_sure_they_are(table_page):
    (chart,) = table_page.charts_of("of every model tried")
    rows = {row["label"]: row for row in values(chart)}
    assert [row["score"] for row in rows.values()] == [29.5, 30.1, 31.0, 31.4, 33.0, 250.0]
    assert [label for label, row in rows.items() if row["chosen"]] == ["splines, cross-learned"]
    rival = rows["separate models"]
    assert (rival["low"], rival["at"], rival["high"]) == (30.7, 31.0, 31.3)
    far = rows["the mean of what was learned from"]  # must not squeeze the others, nor hide
    assert far["text"] == "250.0 →"
    assert far["lines"] == "the mean of what was learned\nfrom"  # long names are not cut
    edge = [layer for layer in chart["layer"] if layer["encoding"]["x"] == {"value": "width"}]
    assert [layer["mark"]["type"] for layer in edge] == ["point", "text"]
    scales = [layer["encoding"]["x"].get("scale") for layer in chart["layer"]]
    assert [scale["domain"][1] < 50 for scale in scales if scale] == [True] * 2


def test_models_that_are_scored_by_what_is_greater(tmp_path):
    content = table_results(range(3))
    content["score"] |= {"name": "accuracy", "greater_is_better": True}
    for model, score in zip(content["models"], (0.9, 0.89, 0.88, 0.87, 0.86, 0.2), strict=True):
        model |= {"score": score, "difference": 0.9 - score}
    (chart,) = page_of(tmp_path, content).charts_of("of every model tried")
    *near, far = {row["label"]: row for row in values(chart)}.values()
    assert [row["at"] for row in near] == pytest.approx([0.9, 0.89, 0.88, 0.87, 0.86])
    assert far["text"] == "← 0.2000"
    assert any(layer["encoding"]["x"] == {"value": 0} for layer in chart["layer"])


def test_the_tile_names_the_best_alternative_of_each_kind(tmp_path):
    content = table_results(range(3))
    labels = {model["label"]: model["score"] ** 0.5 for model in content["models"]}
    rows = [{"label": name, "value": value} for name, value in labels.items()]
    content["typical_error"]["rows"] = [{"label": "this model", "value": 5.43}, *rows[:0:-1]]
    page = page_of(tmp_path, content)
    assert "5.43 linear, cross-learned 5.49 one pooled model with a level for every shop" in page
    assert "5.74" not in page
    assert "Root mean squared error, in units of EUR" in page


def test_a_choice_shows_what_was_found(table_page):
    (spread,) = table_page.charts_of("Standard deviation between")
    assert [row["what"] for row in values(spread)] == ["level", "income", "age", "within a shop"]
    assert values(spread)[-1]["text"] == "5.20 →"  # beyond the axis, which it would stretch
    assert values(spread)[-1]["at"] < 5.2
    first, second = table_page.charts_of("Partial effect")
    assert "of age on spending" in first["description"]
    tasks = [row for row in values(first) if row["task"] != "centre"]
    assert len(tasks) == 60
    assert all(len(row["x"]) == len(row["y"]) == 25 for row in tasks)
    scales = [chart["layer"][0]["encoding"]["y"]["scale"]["domain"] for chart in (first, second)]
    assert scales[0] == scales[1]  # so that effects can be compared
    (scatter,) = table_page.charts_of("Actual against predicted")
    assert len(values(scatter)) == 500 + 2  # and the diagonal
    assert len(table_page.charts_of("nominal coverage")) == 1


def test_a_long_page_has_a_list_of_contents(table_page):
    targets = [a["href"] for tag, a in table_page.elements if tag == "a"]
    named = [a["id"] for tag, a in table_page.elements if tag == "h3"]
    assert targets == [f"#{name}" for name in named]
    assert len(set(named)) == len(named) == 7


@pytest.mark.parametrize(
    ("keys", "charts"),
    [({"calibration", "predicted"}, 2), ({"effects"}, 2), ({"remarks", "warnings"}, 0)],
)
def test_what_was_not_found_leaves_out_its_part_only(tmp_path, table_page, keys, charts):
    page = page_of(tmp_path, table_results() | {key: [] for key in keys})
    assert len(page.text) < len(table_page.text)
    assert len(page.charts) == len(table_page.charts) - charts
    assert "Who gains, who loses" in page


def test_without_a_bound_there_are_no_forces(tmp_path):
    content = table_results(range(3))
    del content["chosen"]
    content["spread"]["epsilon"] = None
    page = page_of(tmp_path, content)
    assert "There is no bound on the distance to the centre" in page
    assert "force" not in page
    assert "at the bound" not in page


def test_columns_that_are_constant_within_tasks_have_no_slopes(tmp_path):
    content = table_results() | {"constant_within_tasks": ["income"]}
    page = page_of(tmp_path, content)
    assert "so their effects cannot differ between tasks: income." in page
    income = page.charts_of("of income on")[0]
    assert {row["task"] for row in values(income)} == {"centre"}
    strips = page.charts_of("Coefficients of every")[0]
    assert {row["feature"] for row in values(strips)} == {"age"}
    content["constant_within_tasks"] = ["age", "income"]
    assert len(page_of(tmp_path, content).charts_of("Coefficients of every")) == 1  # intercept


def test_classes_are_told_by_the_share_that_is_correct(tmp_path):
    content = table_results() | {"target_kind": "classification"}
    content["typical_error"] |= {"value": 87.25, "unit": "%", "what": "percent correct"}
    content["spread"] |= {"noise": {"sd": None}, "unit": "log-odds"}
    content["typical_error"]["rows"] = [{"label": "separate models", "value": 88.0}]
    content["score"]["name"] = "log loss"
    for effect in content["effects"]:
        effect["what"] = "probability of spending = high"
    del content["predicted"], content["calibration"]
    p = np.array([0.1, 0.2, 0.8, 0.9])
    content["reliability"] = {"class": "high", **reliability(p, p > 0.5)}
    page = page_of(tmp_path, content)
    assert "Predictions that are correct 87.2 %" in page
    assert "chosen by log loss, which also counts how sure a prediction was, and may rank" in page
    assert not page.charts_of("Actual against predicted")
    assert "On held-out rows they are off by 15.0 points on average." in page
    assert "How often spending = high was true, by its predicted probability" in page
    (chart,) = page.charts_of("predicted probabilities of held-out rows")
    assert [row["observed"] for row in values(chart) if "observed" in row] == [0, 0, 1, 1]
    assert "Predicted probability of spending = high as one column changes" in page
    assert "in log-odds, differs between tasks" in page
    assert "for comparison" not in page
    content["reliability"]["class"] = None
    assert "How often the predicted spending was true" in page_of(tmp_path, content)


def test_counts_are_told_on_their_scale(tmp_path):
    content = table_results(range(3)) | {"family": "poisson"}
    content["spread"] |= {
        "unit": "the logarithm of spending",
        "factor": 4.95,
        "noise": {"sd": None},
    }
    page = page_of(tmp_path, content)
    assert "about two in three are within a factor of 5.0 of the centre" in page
    assert "The level of spending, in the logarithm of spending, differs between tasks" in page
    assert "rows vary by" not in page
    assert "An interval of whole counts cannot contain exactly its share" in page


def test_tasks_that_do_not_differ(tmp_path):
    content = table_results(range(3))
    content["spread"] |= {"shown": [], "level": {"sd": 0.0, "low": None, "high": None}}
    content["map"]["tasks"] = [[0.0, 0.0]] * 3
    page = page_of(tmp_path, content)
    assert "The tasks do not differ in this model: it is the same for all of them." in page
    assert not page.charts_of("Standard deviation between")
    assert not page.charts_of("Map")
    content["spread"] = None
    assert "Separate models share nothing, so they cannot tell" in page_of(tmp_path, content)


def test_a_level_that_is_the_same_everywhere_has_no_standard_deviation(tmp_path):
    content = table_results(range(3))
    shared = {"what": "the effect of every column", "columns": ["age", "income"], "sd": 0.4}
    content["spread"] |= {"level": {"sd": 0.0, "low": None, "high": None}}
    content["spread"]["shown"] = [{**content["spread"]["features"][0], **shared, "low": None}]
    content["spread"]["shown"][0]["high"] = None
    page = page_of(tmp_path, content)
    assert "The level of spending does not differ between tasks; the effects of columns do" in page
    (chart,) = page.charts_of("Standard deviation between")
    assert [row["what"] for row in values(chart)] == [shared["what"], "within a shop"]
    assert values(chart)[0]["columns"] == "age, income"


def test_a_held_out_table_and_a_horizon_are_told(tmp_path):
    content = table_results(range(3)) | {"horizon": {"column": "year", "reach": "2"}}
    content |= {"holdout": {"rows": 240}}  # as of a table in chunks: scores are those of the folds
    page = page_of(tmp_path, content)
    assert "of every model on held-out rows. Scores are nested" in page
    assert "error of every model, nested" in page
    content["models"][0]["folds"] = 1.0
    content["score"]["rows"] = "on the 240 rows of the held-out table"
    page = page_of(tmp_path, content)
    assert "error of every model, on the held-out table" in page
    assert "of every model on the 240 rows of the held-out table. The model was chosen" in page
    assert "These are at most 2 later in year than the rows that the model knew" in page


def test_coefficients_that_do_not_differ_are_sorted_by_size(tmp_path):
    content = table_results(range(3), features=[f"column {k}" for k in range(25)])
    part = content["coefficients"]
    part["tasks"] = [part["center"]] * 3
    page = page_of(tmp_path, content)
    assert "the 20 of 25 that are largest" in page
    strips = page.charts_of("Coefficients of every")[0]
    assert values(strips)[0]["value"] == pytest.approx(max(part["center"], key=abs))


def test_effects_of_categories_are_strokes(tmp_path):
    content = table_results(range(3))
    effect = {"feature": "region", "what": "spending", "grid": ["the cold north", "the south"]}
    effect |= {"center": [1.0, 2.0], "tasks": [{"task": 0, "values": [1.5, 2.5]}]}
    content["effects"] = [effect]
    (chart,) = page_of(tmp_path, content).charts_of("of region on")
    assert [layer["mark"]["type"] for layer in chart["layer"]] == ["tick", "point"]


def test_a_folder_with_a_model_tells_how_to_predict(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = save(Path("fits") / "my shops", table_results(range(3)))
    assert "crosslearning predict" not in Page(write(folder))
    (folder / "model.npz").touch()
    page = Page(write(folder))
    command = "crosslearning predict 'fits/my shops' new.csv"
    assert f"{command} --out predicted.csv To fit it again:" in page
    assert f"the six models that were tried. {command}" in page
    assert Path(shlex.split(command)[2], "model.npz").is_file()


def test_years_have_no_comma(tmp_path):
    effect = {"feature": "year", "what": "spending", "grid": [1960.0, 1970.0, 2000.0]}
    effect |= {"center": [1200.0, 15_000.0, 30_000.0], "tasks": []}
    spec = partial_effect(effect, (1200.0, 30_000.0), kind="shop")
    (path,) = export(Figure("effect", "year", spec), tmp_path, ["svg"])
    labels = re.findall(r">([\d,.]+k?)<", path.read_text())
    assert labels[:3] == ["1960", "1970", "2000"]
    assert not any("," in label for label in labels)


def test_a_table_says_how_to_make_it_again(table_page):
    for words in (
        "crosslearning fit shops.csv --task shop --target spending",
        "seed 0",
        "00ff00ff",
        "3.2 s",
        "numpy 2.4.0",
        "2 columns used as features",
    ):
        assert words in table_page


def test_a_table_shows_its_charts(table_page):
    first, last = table_page.charts_of("one pooled model, separate models and splines")
    assert [row["label"] for row in values(first)] == [str(k) for k in range(100, 120)]
    assert [row["label"] for row in values(last)] == [str(k) for k in range(140, 160)]
    assert len(table_page.charts_of("Gain against the rows")) == 1
    assert len(table_page.charts_of("Coefficients of every shop")) == 2  # and the intercept
    (atlas,) = table_page.charts_of("Map")
    ends = [atlas["layer"][0]["encoding"][axis]["scale"]["domain"][1] for axis in "xy"]
    assert ends[1] / ends[0] == pytest.approx(atlas["height"] / atlas["width"])  # one scale


def test_bands_stay_within_0_and_1_and_names_clear_of_the_curve(tmp_path):
    content = images_results(std=0.9)
    for epsilon in (0.0, "inf"):
        content["chosen"]["epsilon"] = epsilon
        chart = page_of(tmp_path, content).charts_of("against the radius")[0]
        banded = [row for row in values(chart) if "low" in row]
        assert {row["low"] for row in banded} == {0.0}
        assert {row["high"] for row in banded} == {1.0}
        levels = [row for row in values(chart) if "level" in row]
        for row in levels:  # a name is where the curve is not
            ends = [point for point in banded if point["place"] == row["place"]]
            assert all(point["score"] != row["level"] for point in ends)


def test_every_task_is_in_the_table_with_values_to_sort_by(table_page):
    cells = [
        attributes["data-value"]
        for tag, attributes in table_page.elements
        if tag == "td" and "data-value" in attributes
    ]
    assert len(cells) == 60 * 7
    assert cells[0] == "5"
    headings = [a for tag, a in table_page.elements if tag == "th" and a.get("aria-sort")]
    assert [heading["aria-sort"] for heading in headings] == ["descending"]


def test_images(images_page):
    text = images_page.text
    assert "Use these networks cross-learned, ε = 0.1 best of 6 radii on valid" in images_page
    for words in (
        "Test accuracy 65.0 ± 1.0 %",
        "Gain over pooled, the better extreme +10.0 points",
        "Domain icons gains most: test accuracy 55.0 % alone, 70.0 % cross-learned (100 test",
        "Radii below 1e-7 are not resolved.",
        "Cross-learned right, pooled wrong: 30 test images. The other way round: 7.",
        "thing 0 photos, 90.0 % separate: thing 1",
        "Here they are off by 10.0 points on average.",
        "own BatchNorm (FedBN) 55.0 ± 1.0 % +10.0 ± 1.0 points",
        "Most frequent mistakes",
        "thing 11 thing 0 icons 4 of 10",
        "at the best ε of each domain on its test images. Reported: the paper, Office-Home",
        "icons separate 12.5 % 10.0 %",
        "1 h 6 min",
    ):
        assert words in text
    assert len(images_page.charts_of("against the radius")) == 2
    path = images_page.charts_of("against the radius")[0]
    lines = [row["name"] for row in values(path) if "name" in row]
    assert lines == ["spring 60.0\xa0%", "own BatchNorm (FedBN) 55.0\xa0%"]  # the best first
    (bars,) = images_page.charts_of("Test accuracy of each domain")
    assert {row["method"] for row in values(bars)} == {"pooled", "cross-learned", "separate"}
    (confusion,) = images_page.charts_of("Confusion")
    assert len(values(confusion)) == 144
    (reliable,) = images_page.charts_of("predicted probabilities of held-out images")
    assert len(values(reliable)) == 4 + 2  # and the diagonal
    sheet, *examples = [a for tag, a in images_page.elements if tag == "img"]
    assert [a["alt"] for a in examples] == ["thing 0 in photos"] * 2
    assert sheet["src"].startswith("data:image/png;base64,")
    assert (sheet["width"], sheet["height"]) == ("60", "30")


def test_charts_follow_the_schema(table_page, images_page, tmp_path):
    gaussian.run(gaussian.GaussianConfig(realizations=50), tmp_path)
    for page in (table_page, images_page, Page(write(tmp_path))):
        for chart in page.charts:
            alt.Chart.from_dict(chart | {"datasets": {}}, validate=True)


def test_chapters_come_in_a_stated_order(tmp_path):
    save(tmp_path, {**table_results(range(3)), "title": "first"})
    save(tmp_path / "b", {**table_results(range(3)), "title": "third"})
    save(tmp_path / "a", {**table_results(range(3)), "title": "second"})
    gaussian.run(gaussian.GaussianConfig(realizations=50), tmp_path / "c")
    (tmp_path / "model").mkdir()
    page = Page(write(tmp_path))
    targets = [a["href"] for tag, a in page.elements if tag == "a"]
    assert targets[:4] == [f"#chapter-{k}" for k in (1, 2, 3, 4)]
    names = [a["id"] for _, a in page.elements if "id" in a]
    assert len(set(names)) == len(names)
    assert {target[1:] for target in targets} <= set(names)
    titles = ["first", "second", "third", "The idea"]
    assert [page.text.index(title) for title in titles] == sorted(map(page.text.index, titles))


def test_the_page_stands_alone(table_page, images_page):
    for page in (table_page, images_page):
        assert page.size < LARGEST
        policy = next(a["content"] for tag, a in page.elements if "http-equiv" in a)
        assert "default-src 'none'" in policy
        assert "unsafe-eval" not in policy
        links = [a.get(name) for _, a in page.elements for name in ("src", "href")]
        assert all(link.startswith(("data:", "#")) for link in links if link)


def test_labels_cannot_break_out(tmp_path):
    content = table_results([HOSTILE, "a & b", "quote \" and ' it"], features=(HOSTILE, "x.y[0]"))
    content |= {"title": HOSTILE, "task": HOSTILE, "target": HOSTILE, "sentence": HOSTILE}
    content["notes"] = [HOSTILE]
    content["provenance"]["command"] = HOSTILE
    save(tmp_path / "table", content)
    save(tmp_path / "images", images_results((HOSTILE, "photos")))
    page = write(tmp_path)
    assert "<script>alert" not in page.read_text(encoding="utf-8")
    parsed = Page(page)
    assert HOSTILE in parsed
    assert not any(tag == "b" for tag, _ in parsed.elements)
    assert any(HOSTILE in json.dumps(chart) for chart in parsed.charts)


@pytest.mark.parametrize("tasks", [1, 2, 41])
def test_few_tasks(tmp_path, tasks):
    content = table_results(range(tasks))
    if tasks == 1:
        content["map"]["tasks"] = [[0.3]]
    page = page_of(tmp_path, content)
    assert len(page.charts_of("one pooled model, separate models and splines")) == (
        2 if tasks > 40 else 1
    )


def test_many_tasks_and_features_stay_small(tmp_path):
    features = [f"feature {j}" for j in range(25)]
    content = table_results(range(2_000), features=features)  # as of many more
    content["size"]["tasks"] = 20_000
    gains = [{"low": k / 5, "high": (k + 1) / 5, "gain": k, "count": 2000} for k in range(-5, 5)]
    page = page_of(tmp_path, content | {"gain_counts": gains})
    assert page.size < LARGEST
    assert "19,000 tasks in the middle are omitted here; the saved model has them all" in page
    (sampled,) = page.charts_of("Gain against the rows")
    assert len([row for row in values(sampled) if "label" in row]) == 2000
    assert "by size of the shop (2,000 of 20,000)" in page
    (counts,) = page.charts_of("Histogram of the gains")
    assert sum(row["count"] for row in values(counts)) == 20_000
    assert "the 20 of 25 that differ most (one task in 8 is shown)" in page


def test_classes_have_coefficients_each(tmp_path):
    content = table_results(range(5))
    part = content["coefficients"]
    features = part.pop("features")
    content["coefficients"] = {
        "features": features,
        "classes": [{"class": name, **part} for name in ("low", "high")],
    }
    page = page_of(tmp_path, content)
    assert "Coefficients of class low" in page
    assert "Intercept of class high" in page


def test_higher_scores_may_be_better(tmp_path):
    content = table_results()
    content["score"] |= {"name": "accuracy", "greater_is_better": True}
    page = page_of(tmp_path, content)
    assert "higher is better" in page
    labels = re.findall(r"\b1[0-5][0-9](?= \d+ )", page.text)
    assert labels.index("159") < labels.index("100")  # those that gain most first


def test_tasks_without_a_score_are_listed_last(tmp_path):
    content = table_results(range(4))
    content["comparison"]["tasks"][0] |= {"separate": None, "cross": math.nan}
    page = page_of(tmp_path, content)
    labels = re.findall(r"\b[0-3] (?:5|8|11|14) ", page.text)
    assert labels[-1].startswith("0 ")


def test_nobody_scored_nobody_held(tmp_path):
    content = table_results(range(2))
    for task in content["comparison"]["tasks"]:
        task["cross"] = None
    for task in content["tasks"]:
        task["force"]["all"] = 0.0
    page = page_of(tmp_path, content)
    assert "at the bound" not in page
    assert not page.charts_of("Gain against the rows")
    assert not page.charts_of("one pooled model, separate models and splines")


def test_one_radius_one_seed_and_no_extras(tmp_path):
    content = images_results(std=None, radii=[1e-6])
    content["chosen"]["between"] = None
    content["comparison"] = content["confusion"]["pairs"] = []
    for name in ("reported", "improvement", "baselines", "reliability", "examples"):
        del content[name]
    page = page_of(tmp_path, content)
    assert "Use these networks cross-learned, ε = 1e-6" in page
    assert "crosslearning predict" not in page
    assert "no network with 0 < ε < ∞ to compare" in page
    assert "Most frequent mistakes" not in page
    assert "Improvement in every domain" not in page


def test_other_domains_are_not_put_beside_the_paper(tmp_path):
    content = images_results()
    content["improvement"] = [
        {**row, "domain": row["domain"] + " of ours"} for row in content["improvement"]
    ]
    assert "Compared with the paper" not in page_of(tmp_path, content)


@pytest.mark.parametrize(
    ("gap", "words"),
    [
        (2.0, "differ by at most 1.98"),
        (0.0, "The true means are equal, so one pooled mean is best"),
        (20.0, "too far off to be shown"),
    ],
)
def test_gaussian(tmp_path, gap, words):
    gaussian.run(gaussian.GaussianConfig(gap=gap, realizations=50), tmp_path)
    page = Page(write(tmp_path))
    assert words in page
    assert f"crosslearning reproduce gaussian --gap {gap}" in page
    assert len(page.charts_of("two cross-learned means")) == 1


def test_another_file(tmp_path):
    folder = save(tmp_path / "results", table_results(range(3)))
    page = write(str(folder), out=tmp_path / "new" / "page.html")
    assert page == tmp_path / "new" / "page.html"
    assert page.is_file()
    assert [path.name for path in folder.iterdir()] == ["results.json"]


def test_charts_are_files_beside_the_page_if_asked_for(tmp_path):
    gaussian.run(gaussian.GaussianConfig(realizations=50), tmp_path / "results" / "idea")
    assert main(["report", str(tmp_path / "results"), "--format", "svg", "--format", "png"]) == 0
    place = tmp_path / "results" / "figures" / "idea"
    assert {path.name for path in place.iterdir()} == {"gaussian.png", "gaussian.svg"}
    assert "Mean squared error of each mean" in (place / "gaussian.svg").read_text()
    page = write(tmp_path / "results", out=tmp_path / "page.html", formats=iter(["svg"]))
    assert [path.name for path in tmp_path.rglob("page.html")] == [page.name]
    assert (tmp_path / "figures" / "idea" / "gaussian.svg").is_file()
    assert main(["report", str(tmp_path / "results"), "--format", "gif"]) == 2


def test_every_chart_has_a_name_of_its_own(tmp_path, table_page, images_page):
    for page, content in ((table_page, table_results()), (images_page, images_results())):
        found = chapter(Results(content["kind"], tmp_path / "results.json", content))
        names = [figure.name for figure in figures_in(found.details)]
        assert len(set(names)) == len(names) == len(page.charts)
        assert all(re.fullmatch("[a-z]+(-[a-z0-9]+)*", name) for name in names)
