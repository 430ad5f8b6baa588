"""The report as a file: it stands alone, lists its parts, and nothing can break out of it."""

import json
import re

import altair as alt

from crosslearning.cli import main
from crosslearning.paper.gaussian import experiment as gaussian
from crosslearning.report import write
from crosslearning.report.page import chapter, read
from crosslearning.report.plots import Figure, export
from crosslearning.report.tasks import partial_effect
from crosslearning.tables.findings import PartialEffect
from tests.support.html_page import Page
from tests.support.report_results import images_results, save, table_results

LARGEST = 3_000_000
HOSTILE = "</script><script>alert(1)</script><b>"


def replaced(content, old, new):
    """Replace a string wherever it is in results."""
    if isinstance(content, dict):
        pairs = content.items()
        return {new if key == old else key: replaced(value, old, new) for key, value in pairs}
    if isinstance(content, list):
        return [replaced(value, old, new) for value in content]
    return new if content == old else content


def test_the_page_stands_alone(table_page, images_page):
    for page in (table_page, images_page):
        assert page.size < LARGEST
        policy = next(a["content"] for tag, a in page.elements if "http-equiv" in a)
        assert "default-src 'none'" in policy
        assert "unsafe-eval" not in policy
        links = [a.get(name) for _, a in page.elements for name in ("src", "href")]
        assert all(link.startswith(("data:", "#")) for link in links if link)


def test_charts_follow_the_schema(table_page, images_page, tmp_path):
    gaussian.run(gaussian.GaussianConfig(realizations=50), tmp_path)
    for page in (table_page, images_page, Page(write(tmp_path))):
        for chart in page.charts:
            alt.Chart.from_dict(chart | {"datasets": {}}, validate=True)


def test_a_long_page_has_a_list_of_contents(table_page):
    targets = [a["href"] for tag, a in table_page.elements if tag == "a"]
    named = [a["id"] for tag, a in table_page.elements if tag == "h3"]
    assert targets == [f"#{name}" for name in named]
    assert len(set(named)) == len(named) == 6


def test_chapters_come_in_a_stated_order(tmp_path):
    save(tmp_path, table_results("bound") | {"title": "first"})
    save(tmp_path / "b", table_results("bound") | {"title": "third"})
    save(tmp_path / "a", table_results("bound") | {"title": "second"})
    gaussian.run(gaussian.GaussianConfig(realizations=50), tmp_path / "c")
    (tmp_path / "model").mkdir()
    page = Page(write(tmp_path))
    targets = [a["href"] for tag, a in page.elements if tag == "a"]
    assert targets[:4] == [f"#chapter-{k}" for k in (1, 2, 3, 4)]
    names = [a["id"] for _, a in page.elements if "id" in a]
    assert len(set(names)) == len(names)
    assert {target[1:] for target in targets} <= set(names)
    headings = re.findall("first|second|third|The idea", page.text)
    assert list(dict.fromkeys(headings)) == ["first", "second", "third", "The idea"]


def test_labels_cannot_break_out(tmp_path):
    content = table_results("bound")
    for old, new in ((100, HOSTILE), (101, "a & b"), (102, "quote \" and ' it")):
        content = replaced(content, old, new)
    for old, new in (("age", HOSTILE), ("income", "x.y[0]"), ("shop", HOSTILE)):
        content = replaced(content, old, new)
    content |= {"title": HOSTILE, "target": HOSTILE, "sentence": HOSTILE, "notes": [HOSTILE]}
    content["provenance"]["command"] = HOSTILE
    save(tmp_path / "table", content)
    save(tmp_path / "images", replaced(images_results(), "Art", HOSTILE))
    page = write(tmp_path)
    assert "<script>alert" not in page.read_text(encoding="utf-8")
    parsed = Page(page)
    assert HOSTILE in parsed
    assert not any(tag == "b" for tag, _ in parsed.elements)
    assert sum(HOSTILE in json.dumps(chart) for chart in parsed.charts) == 9


def test_another_file(tmp_path):
    folder = save(tmp_path / "results", table_results("bound"))
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
        (results,) = read(save(tmp_path / content["kind"], content))
        names = [figure.name for figure in chapter(results).figures()]
        assert len(set(names)) == len(names) == len(page.charts)
        assert all(re.fullmatch("[a-z]+(-[a-z0-9]+)*", name) for name in names)


def test_years_have_no_comma(tmp_path):
    effect = PartialEffect(
        feature="year",
        what="spending",
        probability=False,
        grid=(1960.0, 1970.0, 2000.0),
        center=(1200.0, 15_000.0, 30_000.0),
        tasks=(),
        lines=(),
    )
    spec = partial_effect(effect, (1200.0, 30_000.0), kind="shop")
    (path,) = export(Figure("effect", "year", spec), tmp_path, ["svg"])
    labels = re.findall(r">([\d,.]+k?)<", path.read_text())
    assert labels[:3] == ["1960", "1970", "2000"]
    assert not any("," in label for label in labels)
