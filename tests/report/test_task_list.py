"""The tasks of a table one by one: charts and rows, of few tasks and of very many."""

import math
import re

from tests.support.html_page import page_of, values
from tests.support.report_results import table_results


def by_gain(content):
    """Labels of the tasks, those that gain most first."""
    comparison = content["comparison"]
    scores = dict(zip(comparison["methods"], comparison["scores"], strict=True))
    rows = zip(
        comparison["labels"], scores["cross"], scores[content["verdict"]["against"]], strict=True
    )
    return [str(label) for label, _, _ in sorted(rows, key=lambda row: row[2] - row[1])]


def with_more_tasks(content, times):
    """Repeat the tasks of results, with labels of their own."""
    rows = content["tasks"]
    rows[:] = [row | {"task": 1000 * k + row["task"]} for k in range(times) for row in rows]
    comparison = content["comparison"]
    comparison["labels"] = [row["task"] for row in rows]
    for name in ("rows", "shares"):
        comparison[name] *= times
    comparison["scores"] = [scores * times for scores in comparison["scores"]]
    (predictor,) = content["coefficients"]["predictors"]
    for name in ("tasks", "intercepts"):
        predictor[name] = predictor[name] * times
    content["size"] |= {"tasks": len(rows), "compared": len(rows)}
    return content


def test_every_task_is_in_the_charts(table_page):
    labels = {str(task["task"]) for task in table_results()["tasks"]}
    (gains,) = table_page.charts_of("Gain against the rows")
    strips = table_page.charts_of("Coefficients of every shop")
    assert len(strips) == 2  # and the intercept
    for chart in (gains, *strips):
        assert {row["label"] for row in values(chart) if "label" in row} == labels


def test_every_task_is_in_the_table_with_values_to_sort_by(table_page, tmp_path):
    plain, bound = table_results(), table_results("bound")
    pages = ((table_page, plain, 45, 5), (page_of(tmp_path, bound), bound, 6, 7))
    for page, content, tasks, columns in pages:  # with a bound also distance and force
        cells = [a for tag, a in page.elements if tag == "td" and "data-value" in a]
        center = sum(2 + len(row["between"]) for row in content["center"])
        assert len(cells) == tasks * columns + center
        assert all(math.isfinite(float(cell["data-value"])) for cell in cells)
        headings = [a for tag, a in page.elements if tag == "th" and a.get("aria-sort")]
        assert [heading["aria-sort"] for heading in headings] == ["descending"]


def test_higher_scores_may_be_better(tmp_path):
    content = table_results()
    content["score"] |= {"name": "accuracy", "greater_is_better": True}
    page = page_of(tmp_path, content)
    assert "higher is better" in page
    (gains,) = page.charts_of("Gain against the rows")
    assert [row["label"] for row in values(gains) if "label" in row] == by_gain(content)


def test_tasks_without_a_score_are_listed_last(tmp_path):
    content = table_results("bound")
    best = by_gain(content)[0]
    comparison = content["comparison"]
    task = [str(label) for label in comparison["labels"]].index(best)
    comparison["scores"][1][task], comparison["scores"][2][task] = None, math.nan
    labels = re.findall(r"\b(10[0-5]) 10 ", page_of(tmp_path, content).text)
    assert len(labels) == 6
    assert labels[-1] == best


def test_no_task_scored_and_no_task_at_its_bound(tmp_path):
    content = table_results("bound")
    content["comparison"]["scores"][-1] = [None] * 6
    for task in content["tasks"]:
        task["force"] = 0.0
    page = page_of(tmp_path, content)
    assert "at the bound" not in page
    assert not page.charts_of("Gain against the rows")


def test_very_many_tasks_and_columns_stay_small(tmp_path):
    content = with_more_tasks(table_results(), 45)  # 2,025, a sample of 20,000
    content["size"] |= {"tasks": 20_000, "compared": 20_000}
    (part,) = content["coefficients"]["predictors"]
    content["coefficients"]["features"] = [f"column {j}" for j in range(25)]
    part["center"] = (part["center"] * 13)[:25]
    part["tasks"] = [(row * 13)[:25] for row in part["tasks"]]
    page = page_of(tmp_path, content)
    assert page.size < 3_000_000
    assert "19,000 tasks in the middle are omitted here" in page
    (sampled,) = page.charts_of("Gain against the rows")
    assert len([row for row in values(sampled) if "label" in row]) == 2025
    assert "by size of the shop (2,025 of 20,000)" in page
    assert "the 20 of 25 that differ most (one task in 9 is shown)" in page
