"""The paper's experiment with images: settings, choice of a radius, resuming, results, figures."""

import csv
import json
import math
import shutil
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import ttest_rel

from crosslearning.datasets import ImageData
from crosslearning.paper import office_home
from crosslearning.paper.office_home import draw, run, shipped_config
from crosslearning.paper.office_home.choice import chosen, comparison, improvement
from crosslearning.paper.office_home.confusion import common_pairs, worst_categories
from crosslearning.paper.office_home.parts import divide
from crosslearning.paper.office_home.progress import Clock
from crosslearning.paper.office_home.record import Record, record_name
from crosslearning.paper.office_home.results import assemble
from crosslearning.paper.office_home.scores import Sweep, by_domain, macro, over_images
from crosslearning.paper.office_home.statement import statement
from crosslearning.paper.office_home.storage import read_results, write_results

PAPER = shipped_config("paper")
SMALL = replace(
    shipped_config("icons65"), image_size=8, epochs=2, radii=(0.0, 0.02, math.inf), seeds=(0, 1)
)
DOMAINS, CATEGORIES = ("art", "photo"), ("bed", "cup", "pen")


class Squares(ImageData):
    """Images of 8 by 8 pixels whose colour tells the category, in two domains."""

    def __init__(self, each=10, fingerprint="squares"):
        codes = [(d, c) for d in DOMAINS for c in CATEGORIES for _ in range(each)]
        super().__init__(*zip(*codes, strict=True), groups=range(len(codes)))
        self._fingerprint = fingerprint

    @property
    def fingerprint(self):
        return self._fingerprint

    def pixels(self, size, *, progress=None):  # noqa: ARG002
        noise = np.random.default_rng(0).integers(0, 60, (len(self), size, size, 3))
        noise[np.arange(len(self)), :, :, self.category_codes] += 150
        return noise.astype(np.uint8)


def record(epsilon, seed, validation, test):
    """A run that recognises these shares of the images in each domain; errors go one further."""
    size = len(CATEGORIES)

    def counts(shares, images):
        right = np.rint(images * np.asarray(shares)).astype(int)
        eye = np.eye(size, dtype=int)
        return np.array([r * eye + (images - r) * np.roll(eye, 1, axis=1) for r in right])

    return Record(
        epsilon=epsilon,
        seed=seed,
        images=np.array([[30, 60, 300]] * len(DOMAINS)),
        validation=counts(validation, 20),
        test=counts(test, 100),
        distances=np.full(len(DOMAINS), min(epsilon, 7.0)),
        pulls=np.array([0.25, 0.0]),
        loss=[2.0, 1.0],
        seconds=3.0,
        unresolved=epsilon == 1e-7,
    )


def sweep_of(accuracies, seeds=(0, 1)):
    """A sweep from {radius: (validation, test)}, with a little more in later seeds."""
    grid = [
        [record(e, s, np.add(v, 0.1 * s), np.add(t, 0.02 * s)) for s in seeds]
        for e, (v, t) in accuracies.items()
    ]
    return Sweep(DOMAINS, CATEGORIES, grid)


USUAL = {
    0.0: ([0.4, 0.4], [0.40, 0.50]),
    0.1: ([0.5, 0.6], [0.44, 0.55]),
    1.0: ([0.3, 0.7], [0.42, 0.58]),
    math.inf: ([0.2, 0.2], [0.20, 0.40]),
}


def stored(folder, sweep, **settings):
    config = replace(SMALL, radii=sweep.radii, seeds=[r.seed for r in sweep.grid[0]], **settings)
    folder.mkdir(exist_ok=True)
    data = {"name": "squares", "fingerprint": "ff", "images": 60}
    results = assemble(config, sweep, data) | {"reported": office_home.reported()}
    return write_results(folder, results, sweep)


def test_the_paper_is_shipped():
    assert (PAPER.model, PAPER.image_size, PAPER.epochs) == ("alexnet256", 224, 30)
    assert (PAPER.optimizer, PAPER.learning_rate, PAPER.momentum) == ("sgd", 0.001, 0.0)
    assert (PAPER.batch, PAPER.schedule, PAPER.train) == (1, "constant", 0.8)
    assert PAPER.radii == (0.0, *(10.0**k for k in range(-7, 0)), math.inf)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": "vgg"}, r"`model` must be 'alexnet256' or 'small_cnn'; got 'vgg'\."),
        ({"schedule": "step"}, "`schedule` must be 'constant' or 'cosine'"),
        ({"epochs": 0}, "`epochs` must be at least 1; got 0"),
        ({"batch": -1}, "`batch` must be at least 1"),
        ({"train": 1.0}, "`train` must be a share above 0 and below 1; got 1.0"),
        ({"train_fraction": 1.5}, "`train_fraction` must be a share above 0 and at most 1"),
        ({"train_fraction": math.nan}, "got nan"),
        ({"learning_rate": 0.0}, "`learning_rate` must be finite and positive"),
        ({"momentum": 1.0}, "`momentum` must be at least 0 and below 1; got 1.0"),
        ({"radii": ()}, "`radii` must be one or more numbers of at least 0"),
        ({"radii": (math.nan,)}, r"`radii` must be .*; got \(nan,\)"),
        ({"seeds": (-1,)}, r"`seeds` must be .*; got \(-1,\)"),
        ({"image_size": 3}, "`image_size` must be at least 4 for small_cnn; got 3"),
        ({"model": "alexnet256", "image_size": 62}, "at least 63 for alexnet256; got 62"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        replace(SMALL, **settings)


@pytest.mark.parametrize(("model", "size"), [("alexnet256", 63), ("small_cnn", 4)])
def test_the_smallest_images_are_large_enough(model, size):
    torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")
    assert replace(SMALL, model=model, image_size=size).image_size == size
    from crosslearning.nn.architectures import small_cnn
    from crosslearning.paper import alexnet256

    network = {"alexnet256": alexnet256, "small_cnn": small_cnn}[model](3)
    assert network(torch.zeros(1, 3, size, size)).shape == (1, 3)
    with pytest.raises(RuntimeError, match="too small"):
        network(torch.zeros(1, 3, size - 1, size - 1))


def test_radii_are_sorted_and_counted_once():
    assert replace(SMALL, radii=(math.inf, 0.1, 0.0, 0.1)).radii == (0.0, 0.1, math.inf)


def test_accuracies_are_over_categories_then_domains():
    counts = np.array([[[9, 1, 0], [0, 1, 1], [0, 0, 0]], [[1, 0, 0], [0, 0, 0], [0, 0, 0]]])
    np.testing.assert_allclose(by_domain(counts), [(0.9 + 0.5) / 2, 1.0])
    assert macro(counts) == pytest.approx(0.85)
    np.testing.assert_allclose(over_images(counts), [10 / 12, 1.0])
    assert over_images(counts.sum(0)) == pytest.approx(11 / 13)


def test_the_radius_is_chosen_by_validation_and_the_hindsight_is_shown():
    sweep = sweep_of(USUAL)
    choice = chosen(sweep)
    assert (choice["epsilon"], choice["between"]) == (0.1, 0.1)
    assert choice["test"]["mean"] == pytest.approx(0.505)
    assert choice["test"]["std"] == pytest.approx(0.02 / math.sqrt(2))
    assert choice["best_on_test"] == 1.0
    assert [row["epsilon"] for row in choice["domains"]] == [0.1, 1.0]
    assert [row["best_on_test"] for row in choice["domains"]] == [0.1, 1.0]


def test_of_equal_radii_the_smallest_is_chosen():
    same = ([0.5, 0.5], [0.5, 0.5])
    assert chosen(sweep_of({0.0: same, 0.1: same, math.inf: same}))["epsilon"] == 0.0


def test_comparison_is_paired_over_seeds():
    rows = {row["method"]: row for row in comparison(sweep_of(USUAL))}
    assert [row["epsilon"] for row in rows.values()] == [0.0, 0.1, math.inf]
    assert rows["consensus"]["gain"] == pytest.approx(0.045)
    assert rows["consensus"]["standard_error"] == pytest.approx(0.0, abs=1e-12)
    assert rows["agnostic"]["gain"] == pytest.approx(0.195)
    assert rows["cross"]["gain"] is None


def test_two_standard_errors_of_three_seeds_are_no_proof():
    pooled, cross = [0.40, 0.50, 0.45], [0.44, 0.51, 0.46]
    grid = [
        [record(epsilon, seed, [0.5, 0.5], [t, t]) for seed, t in enumerate(tests)]
        for epsilon, tests in ((0.0, pooled), (0.1, cross))
    ]
    sweep = Sweep(DOMAINS, CATEGORIES, grid)
    rows = comparison(sweep)
    assert rows[0]["gain"] == pytest.approx(2 * rows[0]["standard_error"])
    assert rows[0]["p_value"] == pytest.approx(ttest_rel(cross, pooled).pvalue)
    assert "(standard error 1.0, may be chance)" in statement(sweep.radii, chosen(sweep), rows)


def test_a_sweep_that_changes_nothing_proves_nothing():
    same = ([0.5, 0.5], [0.5, 0.5])
    assert comparison(sweep_of({0.0: same, 0.1: same}))[0]["p_value"] == 1


def test_improvement_at_one_radius_and_at_the_best_of_each_domain():
    rows = {(r["domain"], r["over"]): r for r in improvement(sweep_of(USUAL, seeds=(0,)))}
    assert len(rows) == 6
    photo = rows["photo", "agnostic"]
    assert (photo["epsilon"], photo["best_epsilon"]) == (0.1, 1.0)
    assert photo["percent"] == pytest.approx(100 * (55 / 40 - 1))
    assert photo["best_percent"] == pytest.approx(100 * (58 / 40 - 1))
    assert rows["art", "consensus"]["percent"] == pytest.approx(10.0)


def test_what_was_not_run_is_not_compared():
    one = sweep_of({0.1: USUAL[0.1]}, seeds=(0,))
    assert improvement(one) == []
    assert [row["method"] for row in comparison(one)] == ["cross"]
    ends = sweep_of({e: USUAL[e] for e in (0.0, math.inf)})
    assert improvement(ends) == []
    assert chosen(ends)["between"] is None
    assert [row["gain"] for row in comparison(ends)] == [None, None]


@pytest.mark.parametrize(
    ("best", "words"),
    [
        (0.0, "Pooling is best on the validation images (ε = 0)."),
        (0.1, "Cross-learning is best on the validation images (ε = 0.1)."),
        (math.inf, "Separate training is best on the validation images (ε = ∞)."),
    ],
)
def test_the_statement_names_the_winner(best, words):
    sweep = sweep_of(USUAL | {best: ([0.8, 0.8], USUAL[best][1])})
    text = statement(sweep.radii, chosen(sweep), comparison(sweep))
    assert text.startswith(words)
    assert "points better than pooling" in text
    assert "The best on the test images, in hindsight, is ε = 1: 51.0 ± 1.4 %." in text


def test_the_statement_knows_its_limits():
    worse = USUAL | {0.0: ([0.4, 0.4], [0.6, 0.6])}
    one = sweep_of(worse, seeds=(0,))
    text = statement(one.radii, chosen(one), comparison(one))
    assert "points worse than pooling" in text
    assert "This is one seed: it may be chance." in text
    rows = comparison(sweep_of(USUAL))
    rows[0] |= {"gain": 0.01, "standard_error": 0.02, "p_value": 0.7}
    assert "1.0 points better than pooling (standard error 2.0, may be chance)" in statement(
        (0.0, 0.1), chosen(sweep_of(USUAL)), rows
    )
    single = sweep_of({0.1: USUAL[0.1]}, seeds=(0,))
    text = statement(single.radii, chosen(single), comparison(single))
    assert text == "At ε = 0.1 the test accuracy is 49.5 %."


def test_confusions():
    counts = np.array([[[5, 3, 0], [0, 8, 1], [4, 0, 0]], [[1, 0, 0], [0, 0, 0], [0, 2, 0]]])
    pairs = common_pairs(counts, DOMAINS, CATEGORIES, most=2)
    assert pairs == [
        {"domain": "art", "truth": "pen", "predicted": "bed", "count": 4, "of": 4},
        {"domain": "art", "truth": "bed", "predicted": "cup", "count": 3, "of": 8},
        {"domain": "photo", "truth": "pen", "predicted": "cup", "count": 2, "of": 2},
    ]
    worst = worst_categories(counts, CATEGORIES, most=2)
    assert worst == {"categories": ["pen", "bed"], "counts": [[0, 4], [0, 6]], "totals": [6, 9]}


def test_results_are_complete_and_plain(tmp_path):
    sweep = sweep_of({1e-7: USUAL[0.1], **USUAL})
    results = stored(tmp_path, sweep)
    assert results == read_results(tmp_path)
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
    rows = list(csv.DictReader((tmp_path / "results.csv").read_text().splitlines()))
    assert len(rows) == 5 * 2 * 2 * 3
    assert {row["epsilon"] for row in rows} == {"1e-07", "0", "0.1", "1", "inf"}
    right = sum(int(row["test_correct"]) for row in rows if row["epsilon"] == "inf")
    images = sum(int(row["test_images"]) for row in rows if row["epsilon"] == "inf")
    assert right / images == pytest.approx(results["path"][4]["test_images"]["mean"])


def test_a_record_survives_its_file(tmp_path):
    before = record(math.inf, 3, [0.5, 0.5], [0.25, 0.75])
    before.write(tmp_path / "run.json")
    after = Record.read(tmp_path / "run.json", len(CATEGORIES))
    for name, value in vars(before).items():
        np.testing.assert_array_equal(getattr(after, name), value)
    for text in ("{", "[]", "{}", json.dumps({"images": [[1, 2, 3]]})):
        (tmp_path / "run.json").write_text(text)
        with pytest.raises(ValueError, match=r"run\.json is not a finished run .* Delete it"):
            Record.read(tmp_path / "run.json", len(CATEGORIES))


def test_parts_are_apart_and_the_test_part_stays():
    data = Squares()
    train, validation, test = divide(SMALL, data, seed=0)
    everything = np.concatenate([*train, *validation, *test])
    assert sorted(everything) == list(range(len(data)))
    few = divide(replace(SMALL, train_fraction=0.5), data, seed=0)
    for d in range(2):
        np.testing.assert_array_equal(few[2][d], test[d])
        assert set(few[0][d]) | set(few[1][d]) < set(train[d]) | set(validation[d])
    assert any((a != b).any() for a, b in zip(divide(SMALL, data, seed=1)[2], test, strict=True))


def test_a_domain_without_validation_images_is_refused():
    with pytest.raises(ValueError, match=r"Domain 'art' has no images in the \w+ part"):
        divide(SMALL, Squares(each=1), seed=0)


def test_the_clock_counts_what_is_trained_now(monkeypatch):
    now = iter([100.0, 110.0, 120.0])
    monkeypatch.setattr("time.monotonic", lambda: next(now))
    seen = []
    clock = Clock(runs=3, epochs=2, report=seen.append)
    clock.finish()  # trained before
    clock.epoch(0.1, 0, 1)
    clock.epoch(0.1, 0, 2)
    assert [(p.run, p.epoch, p.share) for p in seen] == [(2, 1, 0.5), (2, 2, 4 / 6)]
    assert [p.seconds_left for p in seen] == [30.0, 20.0]


@pytest.mark.parametrize("radii", [tuple(USUAL), (0.1,), (0.0, math.inf), (0.1, math.inf)])
def test_figures_need_the_results_only(radii, tmp_path):
    stored(tmp_path, sweep_of({e: USUAL[e] for e in radii}))
    (tmp_path / "results.csv").unlink()
    names = {path.name for path in draw(tmp_path)}
    bars = {"improvement.png", "improvement.pdf"} if {0.1} < set(radii) else set()
    assert names == {"accuracy.png", "accuracy.pdf"} | bars
    for name in names:
        start = (tmp_path / name).read_bytes()[:5]
        assert start in (b"\x89PNG\r", b"%PDF-")


def test_same_results_same_figures(tmp_path):
    for name in "ab":
        stored(tmp_path / name, sweep_of({0.0: USUAL[0.0]}, seeds=(0,)))
        draw(tmp_path / name)
    for name in ("accuracy.png", "accuracy.pdf"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A sweep, its folder, and the progress it reported."""
    pytest.importorskip("torch", reason="the extra `torch` is not installed")
    folder, seen = tmp_path_factory.mktemp("finished"), []
    results = run(SMALL, Squares(), folder, name="squares", progress=seen.append, command="typed")
    return folder, results, seen


def test_a_sweep_learns_and_is_stored(finished):
    folder, results, seen = finished
    assert results == read_results(folder)
    assert results["title"] == "squares: small_cnn at 8 px"
    assert results["provenance"]["command"] == "typed"
    assert results["chosen"]["test"]["mean"] > 0.5  # by chance it would be 1/3
    consensus, cross, agnostic = results["path"]
    assert consensus["distance"] == pytest.approx(0.0, abs=1e-6)
    assert cross["distance"] == pytest.approx(0.02, rel=1e-3)
    assert agnostic["distance"] > 0.04
    assert agnostic["domains"][0]["pull"] == 0
    assert (folder / "contact_sheet.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in (folder / "runs").iterdir()) == sorted(
        f"{record_name(epsilon, seed)}.json" for epsilon in SMALL.radii for seed in SMALL.seeds
    )
    assert [(p.run, p.epoch) for p in seen] == [(k, e) for k in range(1, 7) for e in (1, 2)]
    assert seen[-1].share == 1
    assert seen[-1].seconds_left == 0


def test_no_finished_run_is_trained_twice(finished, tmp_path, monkeypatch):
    folder = shutil.copytree(finished[0], tmp_path / "copy")
    results = finished[1]
    training = pytest.importorskip("crosslearning.paper.office_home.training")
    monkeypatch.setattr(training, "fit", None)
    again = run(SMALL, Squares(), folder, name="squares", command="typed")
    assert again | {"created": None} == results | {"created": None}


def test_more_seeds_and_radii_may_follow(finished, tmp_path):
    folder = shutil.copytree(finished[0], tmp_path / "copy")
    results = finished[1]
    seen = []
    more = run(replace(SMALL, seeds=(0, 1, 2)), Squares(), folder, progress=seen.append)
    assert {p.seed for p in seen} == {2}
    assert len(more["runs"]) == len(results["runs"]) + 3


@pytest.mark.parametrize(
    ("settings", "data", "message"),
    [
        ({"epochs": 3}, Squares(), "epochs is 2 there and 3 here. Choose another folder."),
        ({}, Squares(fingerprint="new"), "images is 'squares' there and 'new' here."),
    ],
)
def test_a_folder_of_other_runs_is_refused(settings, data, message, finished):
    before = files(finished[0])
    with pytest.raises(ValueError, match=message):
        run(replace(SMALL, **settings), data, finished[0])
    assert files(finished[0]) == before


def test_a_folder_without_runs_takes_other_settings(tmp_path):
    config = replace(SMALL, radii=(0.02,), seeds=(0,), epochs=1)
    (tmp_path / "settings.json").write_text('{"epochs": 7}')
    assert run(config, Squares(), tmp_path)["config"]["epochs"] == 1


@pytest.mark.parametrize("content", ["[]", "{"])
def test_settings_that_are_none_are_refused(content, tmp_path):
    (tmp_path / "settings.json").write_text(content)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "epsilon-0.0-seed-0.json").write_text("{}")
    with pytest.raises(ValueError, match=r"settings.json holds no settings of runs. Choose"):
        run(SMALL, Squares(), tmp_path)


def test_results_of_something_else_are_not_overwritten(tmp_path):
    (tmp_path / "results.json").write_text("{}")
    with pytest.raises(ValueError, match="holds results of something else"):
        run(SMALL, Squares(), tmp_path)
    assert files(tmp_path) == {"results.json": b"{}"}


def test_the_seed_decides_everything(finished, tmp_path):
    again = run(replace(SMALL, radii=(0.02,), seeds=(1,)), Squares(), tmp_path)
    (expected,) = [r for r in finished[1]["runs"] if (r["epsilon"], r["seed"]) == (0.02, 1)]
    assert again["runs"][0] | {"seconds": 0} == expected | {"seconds": 0}


def test_an_interrupted_run_goes_on(finished, tmp_path):
    config = replace(SMALL, radii=(0.02,), seeds=(0,))

    def stop(now):
        if now.epoch == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(config, Squares(), tmp_path, progress=stop)
    assert [path.suffix for path in (tmp_path / "runs").iterdir()] == [".checkpoint"]
    seen = []
    results = run(config, Squares(), tmp_path, progress=seen.append, keep_models=True)
    assert [p.epoch for p in seen] == [2]
    expected = next(r for r in finished[1]["runs"] if (r["epsilon"], r["seed"]) == (0.02, 0))
    assert results["runs"][0] | {"seconds": 0} == expected | {"seconds": 0}
    assert [path.suffix for path in (tmp_path / "runs").iterdir()] == [".json"]
    assert len(list((tmp_path / "models").iterdir())) == 1
