"""The paper's experiment with images: its settings, its improvements, its figures."""

import json
import math

import pytest

from crosslearning import report
from crosslearning.images import TrainingSettings
from crosslearning.paper.office_home import improvement, reported, shipped_config

from tests.support.report_results import EPSILONS, images_results, save  # isort: skip


def test_the_paper_is_shipped():
    paper = shipped_config("paper")
    assert (paper.model_name, paper.image_size, paper.epochs) == ("alexnet256", 224, 30)
    assert (paper.optimizer, paper.learning_rate, paper.momentum) == ("sgd", 0.001, 0.0)
    assert (paper.batch, paper.schedule, paper.train) == (1, "constant", 0.8)
    assert (paper.augment, paper.weight_decay) == (False, 0.0)
    assert paper.epsilons == (0.0, *(10.0**k for k in range(-7, 0)), math.inf)


def test_the_small_one_is_like_it_but_small():
    small = shipped_config("pictures32")
    assert (small.model, small.image_size, small.seeds) == ("small_cnn", 48, (0, 1))
    assert small.epsilons[0] == 0
    assert small.epsilons[-1] == math.inf


def results(accuracies, between=0.1):
    """Results at radii with these accuracies in two domains."""
    path = [
        {
            "epsilon": epsilon,
            "test": {"mean": sum(shares) / 2},
            "domains": [
                {"domain": domain, "test": {"mean": share}}
                for domain, share in zip(("art", "photo"), shares, strict=True)
            ],
        }
        for epsilon, shares in accuracies.items()
    ]
    radii = None if between is None else {"art": between, "photo": between}
    return {"path": path, "chosen": {"between": radii}}


USUAL = {0.0: (0.40, 0.50), 0.1: (0.44, 0.55), 1.0: (0.42, 0.58), math.inf: (0.20, 0.40)}


def test_improvement_at_one_radius_and_at_the_best_of_each_domain():
    rows = {(r["domain"], r["over"]): r for r in improvement(results(USUAL))}
    assert len(rows) == 6
    photo = rows["photo", "agnostic"]
    assert (photo["epsilon"], photo["best_epsilon"]) == (0.1, 1.0)
    assert photo["percent"] == pytest.approx(100 * (55 / 40 - 1))
    assert photo["best_percent"] == pytest.approx(100 * (58 / 40 - 1))
    assert rows["art", "consensus"]["percent"] == pytest.approx(10.0)
    assert rows["all", "consensus"]["percent"] == pytest.approx(10.0)
    assert rows["art", "agnostic"]["best_epsilon"] == 0.1


def test_what_was_not_run_is_not_compared():
    assert improvement(results({0.1: USUAL[0.1]})) == []
    assert improvement(results({e: USUAL[e] for e in (0.0, math.inf)}, between=None)) == []
    over = {row["over"] for row in improvement(results({e: USUAL[e] for e in (0.1, math.inf)}))}
    assert over == {"agnostic"}


def test_nothing_is_compared_with_what_recognises_nothing():
    rows = improvement(results({0.0: (0.0, 0.5), 0.1: (0.4, 0.5)}))
    assert math.isnan(rows[0]["percent"])


def test_what_the_paper_reports_is_there():
    paper = reported()
    assert (paper["agnostic"], paper["consensus"], paper["best_epsilon"]) == (0.2444, 0.3397, 1e-6)
    assert len(paper["improvement"]) == 8


@pytest.mark.parametrize(
    ("radii", "of_the_paper", "kinds"),
    [
        (EPSILONS, True, ["png", "pdf", "svg"]),
        (EPSILONS, False, ["svg"]),
        ([0.1], True, ["svg"]),
        ([0.1], False, ["svg"]),
        ([0.0, math.inf], True, ["svg"]),
        ([0.0, math.inf], False, ["svg"]),
    ],
)
def test_figures_need_the_results_only(radii, of_the_paper, kinds, tmp_path):
    content = images_results(radii=radii)
    if not of_the_paper:
        del content["improvement"], content["reported"]
    save(tmp_path, content)
    names = {path.name for path in report.draw(tmp_path, kinds)}
    drawn = {"accuracy", "domains"} | ({"improvement"} if of_the_paper else set())
    assert names == {f"{name}.{kind}" for name in drawn for kind in kinds}
    starts = {"png": b"\x89PNG\r", "pdf": b"%PDF-", "svg": b"<svg "}
    for name in names:
        data = (tmp_path / name).read_bytes()
        assert data.startswith(starts[name[-3:]])
        assert b"var(--" not in data


def test_same_results_same_figures(tmp_path):
    for name in "ab":
        save(tmp_path / name, images_results())
        report.draw(tmp_path / name, ["png", "svg"])
    for name in ("accuracy.png", "accuracy.svg", "improvement.svg"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_run_keeps_the_paper_beside_the_results(tmp_path):
    pytest.importorskip("torch", reason="the extra `torch` is not installed")
    from crosslearning.paper import office_home
    from tests.support.image_training import Squares

    config = TrainingSettings(
        model="small_cnn", image_size=8, epochs=1, epsilons=(0.0, 0.1, math.inf), augment=False
    )
    content = office_home.run(Squares(), tmp_path, config, name="squares")
    assert content == json.loads((tmp_path / "results.json").read_text())
    assert content["reported"] == reported()
    assert {row["over"] for row in content["improvement"]} == {"agnostic", "consensus"}
    assert not (tmp_path / "models").exists()
    assert {path.stem for path in report.draw(tmp_path, ["png"])} == {
        "accuracy", "domains", "improvement"
    }  # fmt: skip
