"""The tasks of a table one by one: charts and rows, of few tasks and of very many."""

import math
import re

import pytest

from tests.support.html_page import page_of, values
from tests.support.report_results import table_results


def by_gain(content):
    """Labels of the tasks, those that gain most first."""
    comparison = content["comparison"]
    against = comparison["against"]
    tasks = sorted(comparison["tasks"], key=lambda task: task["cross"] - task[against])
    return [str(task["task"]) for task in tasks]


def with_more_tasks(content, times):
    """Repeat the tasks of results, with labels of their own."""
    for part in (content["comparison"]["tasks"], content["tasks"]):
        part[:] = [row | {"task": 1000 * k + row["task"]} for k in range(times) for row in part]
    (predictor,) = content["coefficients"]["predictors"]
    for name in ("tasks", "intercepts"):
        predictor[name] = predictor[name] * times
    content["size"] |= {"tasks": len(content["tasks"]), "compared": len(content["tasks"])}
    return content


def test_those_that_gain_most_and_least_are_drawn(table_page, tmp_path):
    description = "one pooled model, the blend of 2 separate models and the blend of 2 models"
    first, last = table_page.charts_of(description)
    labels = by_gain(table_results())
    assert [row["label"] for row in values(first)] == labels[:20]
    assert [row["label"] for row in values(last)] == labels[-20:]
    few = table_results("bound")
    (chart,) = page_of(tmp_path, few).charts_of("one pooled model, separate models and")
    assert [row["label"] for row in values(chart)] == by_gain(few)


def test_every_task_is_in_the_charts(table_page):
    labels = {str(task["task"]) for task in table_results()["tasks"]}
    (gains,) = table_page.charts_of("Gain against the rows")
    (atlas,) = table_page.charts_of("Map")
    strips = table_page.charts_of("Coefficients of every shop")
    assert len(strips) == 2  # and the intercept
    for chart in (gains, atlas, *strips):
        assert {row["label"] for row in values(chart) if "label" in row} == labels
    ends = [atlas["layer"][0]["encoding"][axis]["scale"]["domain"][1] for axis in "xy"]
    assert ends[1] / ends[0] == pytest.approx(atlas["height"] / atlas["width"])  # one scale


def test_every_task_is_in_the_table_with_values_to_sort_by(table_page, tmp_path):
    plain, bound = table_results(), table_results("bound")
    pages = ((table_page, plain, 45, 5), (page_of(tmp_path, bound), bound, 6, 7))
    for page, content, tasks, columns in pages:  # with a bound also distance and force
        cells = [a for tag, a in page.elements if tag == "td" and "data-value" in a]
        center = content["center"]["coefficients"] if content["center"] else []
        assert len(cells) == tasks * columns + sum(2 + len(row["between"]) for row in center)
        assert all(math.isfinite(float(cell["data-value"])) for cell in cells)
        headings = [a for tag, a in page.elements if tag == "th" and a.get("aria-sort")]
        assert [heading["aria-sort"] for heading in headings] == ["descending"]


def test_higher_scores_may_be_better(tmp_path):
    content = table_results()
    content["score"] |= {"name": "accuracy", "greater_is_better": True}
    page = page_of(tmp_path, content)
    assert "higher is better" in page
    description = "one pooled model, the blend of 2 separate models and the blend of 2 models"
    first, _ = page.charts_of(description)
    assert [row["label"] for row in values(first)] == by_gain(content)[:-21:-1]


def test_tasks_without_a_score_are_listed_last(tmp_path):
    content = table_results("bound")
    best = by_gain(content)[0]
    task = next(row for row in content["comparison"]["tasks"] if str(row["task"]) == best)
    task |= {"separate": None, "cross": math.nan}
    labels = re.findall(r"\b(10[0-5]) 10 ", page_of(tmp_path, content).text)
    assert len(labels) == 6
    assert labels[-1] == best


def test_no_task_scored_and_no_task_at_its_bound(tmp_path):
    content = table_results("bound")
    for task in content["comparison"]["tasks"]:
        task["cross"] = None
    for task in content["tasks"]:
        task["force"] = 0.0
    page = page_of(tmp_path, content)
    assert "at the bound" not in page
    assert not page.charts_of("Gain against the rows")
    assert not page.charts_of("one pooled model, separate models and")


def test_very_many_tasks_and_columns_stay_small(tmp_path):
    content = with_more_tasks(table_results(), 45)  # 2,025, a sample of 20,000
    content["size"]["tasks"] = 20_000
    (part,) = content["coefficients"]["predictors"]
    content["coefficients"]["features"] = [f"column {j}" for j in range(25)]
    part["center"] = (part["center"] * 13)[:25]
    part["tasks"] = [(row * 13)[:25] for row in part["tasks"]]
    gains = [{"low": k / 5, "high": (k + 1) / 5, "count": 2000} for k in range(-5, 5)]
    page = page_of(tmp_path, content | {"gain_counts": gains})
    assert page.size < 3_000_000
    assert "19,000 tasks in the middle are omitted here; the saved model has them all" in page
    (sampled,) = page.charts_of("Gain against the rows")
    assert len([row for row in values(sampled) if "label" in row]) == 2025
    assert "by size of the shop (2,025 of 20,000)" in page
    (counts,) = page.charts_of("Histogram of the gains")
    assert sum(row["count"] for row in values(counts)) == 20_000
    assert "the 20 of 25 that differ most (one task in 9 is shown)" in page
