"""From runs to results: accuracies, the chosen radius, paired comparisons, sentences and files."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_rel

from crosslearning.archive import to_json
from crosslearning.images._results import (
    Runs,
    assemble,
    by_domain,
    chosen,
    common_mistakes,
    compared,
    comparison,
    statement,
)
from tests.support.image_training import CATEGORIES, DOMAINS, SMALL


def counts(shares, images):
    """Tables of runs that recognise these shares of the images; errors go one further."""
    right = np.rint(images * np.asarray(shares)).astype(int)[..., None, None]
    eye = np.eye(len(CATEGORIES), dtype=int)
    return right * eye + (images - right) * np.roll(eye, 1, axis=1)


def runs_at(epsilons, validation, test, epsilon_by="all", losses=None):
    """Runs with these accuracies by radius, seed and domain; losses rank radii alike by default."""
    shape = np.shape(test)
    radii = np.array(epsilons)[:, None, None]
    return Runs(
        DOMAINS,
        CATEGORIES,
        tuple(epsilons),
        tuple(range(shape[1])),
        images=np.array([[30, 60, 300]] * len(DOMAINS)),
        validation=counts(validation, 20),
        test=counts(test, 100),
        losses=1 - np.asarray(validation) if losses is None else losses,
        distances=np.broadcast_to(np.clip(radii, 2e-7 * (radii > 0), 7.0), shape),
        pulls=np.broadcast_to([0.25, 0.0], shape),
        epsilon_by=epsilon_by,
    )


def runs_of(accuracies, seeds=2, **options):
    """Runs from {radius: (validation, test)}, with a little more in later seeds."""
    steps = np.arange(seeds)[:, None] * [[[0.1]], [[0.02]]]
    shares = np.array(list(accuracies.values()))[:, :, None] + steps
    validation, test = shares.swapaxes(0, 1)
    return runs_at(list(accuracies), validation, test, **options)


USUAL = {
    0.0: ([0.4, 0.4], [0.40, 0.50]),
    0.1: ([0.5, 0.6], [0.44, 0.55]),
    1.0: ([0.3, 0.7], [0.42, 0.58]),
    math.inf: ([0.2, 0.2], [0.20, 0.40]),
}


def results_of(runs):
    settings = replace(SMALL, epsilons=runs.epsilons, seeds=runs.seeds)
    data = {"name": "squares", "fingerprint": "ff", "images": 60}
    return to_json(assemble(settings, runs, data), digits=6, infinity=True)


def test_accuracies_are_means_over_categories():
    counts = np.array([[[9, 1, 0], [0, 1, 1], [0, 0, 0]], [[1, 0, 0], [0, 0, 0], [0, 0, 0]]])
    np.testing.assert_allclose(by_domain(counts), [(0.9 + 0.5) / 2, 1.0])


def test_the_radius_is_chosen_by_validation_and_the_hindsight_is_shown():
    runs = runs_of(USUAL)
    choice = chosen(runs)
    assert choice["epsilon"] == 0.1
    assert choice["epsilons"] == choice["between"] == {"art": 0.1, "photo": 0.1}
    assert choice["test"]["mean"] == pytest.approx(0.505)
    assert choice["test"]["std"] == pytest.approx(0.02 / math.sqrt(2))
    assert choice["best_on_test"] == {"art": 1.0, "photo": 1.0}
    assert choice["best_test"]["mean"] == pytest.approx(0.51)


def test_each_domain_has_its_best_radius():
    runs = runs_of(USUAL | {0.0: ([0.6, 0.4], [0.45, 0.50])}, epsilon_by="domain")
    choice = chosen(runs)
    assert choice["epsilon"] == 0.1  # of networks for new domains
    assert choice["epsilons"] == {"art": 0.0, "photo": 1.0}
    assert choice["between"] == {"art": 0.1, "photo": 1.0}
    assert choice["test"]["mean"] == pytest.approx((0.46 + 0.59) / 2)
    rows = {row["method"]: row for row in comparison(runs)}
    assert rows["cross"]["test"]["mean"] == pytest.approx((0.45 + 0.59) / 2)
    assert rows["pooled"]["gain"] == pytest.approx((0.44 + 0.58 - 0.45 - 0.50) / 2)
    text = statement(runs)
    assert text.startswith("On the validation images the best ε is 0 (art) and 1 (photo). With ")
    assert "Of the radii between 0 and ∞, the best is 0.1 (art) and 1 (photo)." in text
    assert "In hindsight" not in text  # they are the same
    wrong = {row["domain"]: row["count"] for row in results_of(runs)["mistakes"]}
    assert wrong == {"art": 55 + 53, "photo": 42 + 40}


def test_losses_are_log_losses_of_validation_images():
    sure, unsure = [0, 0, 0.9, 0.1], [0, 0, 0.4, 1.0]  # truth, prediction, probability, log loss
    wrong, far = [0, 1, 0.5, 0.8], [0, 1, 0.9, 4.0]
    rows = [
        {"epsilon": epsilon, "seed": 0, "task": domain, "images": [1, 2, 1], "validation": images}
        for epsilon, images in ((0.0, [unsure, unsure]), (1.0, [sure, wrong]), (2.0, [sure, far]))
        for domain in DOMAINS
    ]
    table = pd.DataFrame(rows).assign(test=[[sure]] * 6, distance=0.0, pull=0.0)
    runs = Runs.of(table, CATEGORIES, "all")
    np.testing.assert_allclose(runs.losses[:, 0], np.repeat([[1.0], [0.45], [2.05]], 2, axis=1))
    assert chosen(runs)["epsilon"] == 1.0  # accuracy is greatest at 0


@pytest.mark.parametrize(
    ("epsilon_by", "best", "between"),
    [
        ("all", {"art": math.inf, "photo": math.inf}, {"art": 0.1, "photo": 0.1}),
        ("domain", {"art": math.inf, "photo": 0.0}, {"art": 1.0, "photo": 0.1}),
    ],
)
def test_log_loss_chooses_even_if_accuracy_would_choose_otherwise(epsilon_by, best, between):
    losses = np.repeat([[[0.9, 0.1]], [[0.6, 0.3]], [[0.5, 0.8]], [[0.2, 0.4]]], 2, axis=1)
    # Accuracy would choose another radius in each of these cases, or see a tie of 0 and infinity.
    validation = np.repeat([[[0.9, 0.5]], [[0.4, 0.2]], [[0.3, 0.7]], [[0.6, 0.8]]], 2, axis=1)
    radii = (0.0, 0.1, 1.0, math.inf)
    choice = chosen(runs_at(radii, validation, validation, epsilon_by, losses))
    assert choice["epsilon"] == math.inf
    assert choice["epsilons"] == best
    assert choice["between"] == between
    text = statement(runs_at(radii, validation, validation, epsilon_by, losses))
    start = "Separate training is best on" if epsilon_by == "all" else "On"
    assert text.startswith(f"{start} the validation images")


def test_of_equal_radii_the_smallest_is_chosen():
    same = ([0.5, 0.5], [0.5, 0.5])
    assert chosen(runs_of({0.0: same, 0.1: same, math.inf: same}))["epsilon"] == 0.0


def test_comparison_is_paired_over_seeds():
    rows = {row["method"]: row for row in comparison(runs_of(USUAL))}
    assert [row["epsilons"]["art"] for row in rows.values()] == [0.0, 0.1, math.inf]
    assert rows["pooled"]["gain"] == pytest.approx(0.045)
    assert rows["pooled"]["standard_error"] == pytest.approx(0.0, abs=1e-12)
    assert rows["separate"]["gain"] == pytest.approx(0.195)
    assert rows["cross"]["gain"] is None


def test_two_standard_errors_of_three_seeds_are_no_proof():
    pooled, cross = [0.40, 0.50, 0.45], [0.44, 0.51, 0.46]
    test = np.repeat([pooled, cross], 2).reshape(2, 3, 2)
    runs = runs_at([0.0, 0.1], np.full((2, 3, 2), 0.5), test)
    rows = comparison(runs)
    assert rows[0]["gain"] == pytest.approx(2 * rows[0]["standard_error"])
    assert rows[0]["p_value"] == pytest.approx(ttest_rel(cross, pooled).pvalue)
    text = statement(runs)
    assert "These 3 runs cannot tell whether sharing helps" in text
    assert "better than one pooled model, the best alternative, by 2.0 ± 1.0 points in test" in text


def test_a_sweep_that_changes_nothing_proves_nothing():
    same = ([0.5, 0.5], [0.5, 0.5])
    assert comparison(runs_of({0.0: same, 0.1: same}))[0]["p_value"] == 1


def test_what_was_not_run_is_not_compared():
    one = runs_of({0.1: USUAL[0.1]}, seeds=1)
    assert [row["method"] for row in comparison(one)] == ["cross"]
    ends = runs_of({e: USUAL[e] for e in (0.0, math.inf)})
    assert chosen(ends)["between"] is None
    assert [row["gain"] for row in comparison(ends)] == [None, None]
    assert compared(one) is compared(ends) is None


@pytest.mark.parametrize(
    ("best", "words"),
    [
        (0.0, "Pooling is best on the validation images (ε = 0)."),
        (0.1, "Cross-learning is best on the validation images (ε = 0.1)."),
        (math.inf, "Separate training is best on the validation images (ε = ∞)."),
    ],
)
def test_the_statement_names_the_winner(best, words):
    runs = runs_of(USUAL | {best: ([0.8, 0.8], USUAL[best][1])})
    text = statement(runs)
    assert text.startswith(words)
    assert "Sharing helps: cross-learning is better than one pooled model by " in text
    assert "In hindsight, the best on the test images would reach 51.0 ± 1.4 %." in text


@pytest.mark.parametrize("ties", [(0.0, 0.1, 1.0, math.inf), (0.0, 1.0), (0.1, math.inf)])
def test_of_equal_radii_none_is_called_the_best(ties):
    runs = runs_of(USUAL | {radius: ([0.8, 0.8], USUAL[radius][1]) for radius in ties})
    radius = {0.0: "0", 0.1: "0.1"}[ties[0]]
    start = "On the validation images several radii are equally good; the smallest is taken"
    assert statement(runs).startswith(f"{start} (ε = {radius}). Its test accuracy is ")


def test_the_statement_knows_its_limits():
    worse = USUAL | {0.0: ([0.4, 0.4], [0.6, 0.6])}
    one = runs_of(worse, seeds=1)
    text = statement(one)
    assert "One run cannot tell whether sharing helps: cross-learning is worse than one" in text
    assert "points in test accuracy" in text
    single = runs_of({0.1: USUAL[0.1]}, seeds=1)
    text = statement(single)
    assert text == "At ε = 0.1 the test accuracy is 49.5 %."


def test_mistakes():
    counts = np.array([[[5, 3, 0], [0, 8, 1], [4, 0, 0]], [[1, 0, 0], [0, 0, 0], [0, 2, 0]]])
    pairs = common_mistakes(counts, DOMAINS, CATEGORIES, most=2)
    assert pairs == [
        {"domain": "art", "truth": "pen", "predicted": "bed", "count": 4, "of": 4},
        {"domain": "art", "truth": "bed", "predicted": "cup", "count": 3, "of": 8},
        {"domain": "photo", "truth": "pen", "predicted": "cup", "count": 2, "of": 2},
    ]


def test_results_are_complete_and_plain():
    results = results_of(runs_of({1e-7: USUAL[0.1], **USUAL}))
    assert results["kind"] == "images"
    assert [point["epsilon"] for point in results["path"]] == [1e-7, 0, 0.1, 1, "inf"]
    assert results["path"][4]["distance"] == 7
    assert results["path"][2]["domains"][0]["pull"] == 0.25
    assert len(results["runs"]) == 10
    assert results["notes"] == ["ε = 1e-7: too small for float32; distances are those of rounding."]
    assert results["data"]["domains"][0] == {
        "domain": "art", "images": 390, "train": 30, "validation": 60, "test": 300
    }  # fmt: skip
    category = results["categories"][0]
    assert (category["domain"], category["category"], category["images"]) == ("art", "bed", 200)
    assert category["accuracy"][2] == pytest.approx(0.45)
