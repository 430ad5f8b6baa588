"""The chapter on images: which radius to use, domain by domain, and what goes wrong."""

import pytest

from crosslearning.evaluation.numbers import percent, spread
from tests.support.html_page import page_of, values
from tests.support.report_results import EPSILONS, images_results


def test_the_answer_comes_first(images_page):
    content = images_results()
    order = [
        images_page.index(words)
        for words in (
            content["title"],
            content["sentence"],
            "Use these networks separate best of 6 radii on valid",
            f"Test accuracy {spread(content['chosen']['test'])}",
            "Gain over ",
        )
    ]
    assert order == sorted(order)


def test_accuracy_by_radius(images_page):
    content = images_results()
    path, domains = images_page.charts_of("against the radius")
    curve = max(path["datasets"].values(), key=len)
    shown = [row["score"] for row in curve]
    assert shown == [row["test"]["mean"] for row in content["path"]]
    baselines = sorted(content["baselines"], key=lambda row: -row["test"]["mean"])
    lines = [row["name"] for row in values(path) if "name" in row]
    assert lines == [f"{row['method']} {percent(row['test']['mean'])}" for row in baselines]
    assert {row["series"] for row in values(domains)} == {"Art", "Clipart"}
    assert len([row for row in values(domains) if "score" in row]) >= 2 * len(EPSILONS)


def test_accuracy_by_domain(images_page):
    content = images_results()
    pooled, separate = content["path"][0]["domains"][0], content["path"][-1]["domains"][0]
    about = content["data"]["domains"][0]
    assert f"{about['domain']} {about['images']} {about['test']} " in images_page
    assert percent(pooled["test"]["mean"]) in images_page
    assert percent(separate["test"]["mean"]) in images_page


def test_mistakes(images_page):
    content = images_results()
    pair = max(content["mistakes"], key=lambda pair: pair["count"])
    names = (pair["truth"], pair["predicted"], pair["domain"])
    assert " ".join([*names, f"{pair['count']} of {pair['of']}"]) in images_page
    (reliable,) = images_page.charts_of("predicted probabilities of held-out images")
    assert len(values(reliable)) == len(content["reliability"]["bins"]) + 2  # and the diagonal
    assert f"Here they are off by {100 * content['reliability']['off']:.1f} points" in images_page


def test_the_contact_sheet(images_page):
    (sheet,) = [a for tag, a in images_page.elements if tag == "img"]
    assert sheet["src"].startswith("data:image/png;base64,")


def test_results_beside_those_of_the_paper(images_page, tmp_path):
    content = images_results()
    reported = {(r["domain"], r["over"]): r for r in content["reported"]["improvement"]}
    ours = [row for row in content["improvement"] if (row["domain"], row["over"]) in reported]
    assert len(ours) == 4  # two domains, over pooled and over separate networks
    assert "Art separate" in images_page
    assert "187 %" in images_page
    assert "Compared with the paper" in images_page
    for row in content["improvement"]:
        row["domain"] += " of ours"
    assert "Compared with the paper" not in page_of(tmp_path, content)


@pytest.mark.parametrize("epsilon", [0.0, "inf"])
def test_bands_stay_within_0_and_1_and_names_clear_of_the_curve(tmp_path, epsilon):
    content = images_results()
    content["chosen"]["epsilons"] = {"Art": epsilon, "Clipart": epsilon}
    for point in content["path"]:
        point["test"]["std"] = 0.95
    chart = page_of(tmp_path, content).charts_of("against the radius")[0]
    banded = [row for row in values(chart) if "low" in row]
    assert {row["low"] for row in banded} == {0.0}
    assert {row["high"] for row in banded} == {1.0}
    for row in values(chart):  # a name is where the curve is not
        if "level" in row:
            ends = [point for point in banded if point["place"] == row["place"]]
            assert all(point["score"] != row["level"] for point in ends)


def test_one_radius_one_seed_and_no_extras(tmp_path):
    content = images_results(radii=[0.1])
    content["path"][0]["test"]["std"] = content["chosen"]["test"]["std"] = None
    content["chosen"] |= {"epsilons": {"Art": 0.1, "Clipart": 0.1}, "between": None}
    content["comparison"] = content["mistakes"] = []
    for name in ("reported", "improvement", "baselines", "reliability"):
        del content[name]
    page = page_of(tmp_path, content)
    assert "Use these networks cross-learned, ε = 0.1" in page
    assert "crosslearning predict" not in page
    assert "no network with 0 < ε < ∞ to compare" in page
    assert "Most frequent mistakes" not in page
    assert "Improvement in every domain" not in page


def test_networks_that_were_kept_can_predict(tmp_path):
    (tmp_path / "out" / "models").mkdir(parents=True)
    page = page_of(tmp_path / "out", images_results())
    assert "crosslearning predict out new-images" in page
