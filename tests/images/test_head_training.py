"""Training of linear heads on frozen features: the path of radii, resuming, results, prediction."""

import math
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.support.image_training import CATEGORIES, DOMAINS, Squares, assert_calibrated

torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")

from crosslearning.images import export, heads, predict, train  # noqa: E402
from tests.support.image_heads import BACKBONE, SETTINGS  # noqa: E402

EMBEDDED, SECOND_SEED = "50", "run 10"  # points in the training; the first seed has seven runs


def interrupted(folder, when):
    """Train until some point, and raise there."""

    def stop(now):
        if when in (str(now.get("embedded")), f"run {now.get('run')}"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(Squares(), folder / "out", SETTINGS, name="squares", progress=stop)


def killed(folder, when):
    """Train until some point in a process that is killed there."""
    command = [sys.executable, "-m", "tests.support.killed_once", "heads", folder / "out", when]
    done = subprocess.run(command, capture_output=True, cwd=Path(__file__).parents[2], text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr


def stopped_twice(stop, folder):
    """Train with two stops; return the results, and how many features were there at each stop."""
    left = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        patch.setattr("crosslearning.images.networks._AT_A_TIME", 25)
        for when in (EMBEDDED, SECOND_SEED):
            stop(folder, when)
            left.append(len(list((folder / "cache/crosslearning/features").glob("[!.]*.npy"))))
        return train(Squares(), folder / "out", SETTINGS, name="squares"), left


@pytest.fixture(scope="module")
def finished_heads(tmp_path_factory):
    """The folder and the results of heads that were trained without a stop."""
    folder = tmp_path_factory.mktemp("heads")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        results = train(Squares(), folder / "out", SETTINGS, name="squares")
    return folder / "out", results


@pytest.mark.parametrize("stop", [interrupted, pytest.param(killed, marks=pytest.mark.slow)])
def test_stopped_heads_go_on_to_the_same_numbers(stop, finished_heads, tmp_path):
    results, left = stopped_twice(stop, tmp_path)
    assert left == [2, 3]
    assert results["runs"] == finished_heads[1]["runs"]


def test_nothing_changes_beyond_the_radius_of_separate_heads():
    data = Squares()
    rng = np.random.default_rng(0)
    common = rng.normal(size=(len(CATEGORIES), 30))[data.category_codes]
    by_domain = rng.normal(size=(len(DOMAINS), len(CATEGORIES), 30))
    vectors = (
        common + by_domain[data.domain_codes, data.category_codes] + 2 * rng.normal(size=(60, 30))
    )
    training = heads.HeadTraining(SETTINGS, data, vectors.astype(np.float32), 0)

    def path(*epsilons):
        return [training.fit(epsilon)[1] for epsilon in epsilons]

    far = max(row["distance"] for row in path(0.0, math.inf)[-1])
    path = path(0.0, 0.3 * far, 1.01 * far, 2 * far, math.inf)
    for rows in path[2:]:
        assert max(row["distance"] for row in rows) == pytest.approx(far, rel=1e-3)
        assert not any(row["pull"] for row in rows)
        assert rows == path[-1]
    assert max(row["distance"] for row in path[1]) == pytest.approx(0.3 * far, rel=1e-3)


def test_heads_are_judged_and_reported_as_networks_are(finished_heads):
    folder, results = finished_heads
    assert results["title"] == "squares: linear heads on colours at 8 px"
    assert results["chosen"]["test"]["mean"] > 0.9
    assert results["config"]["backbone"] == BACKBONE
    assert not {"model", "epochs", "optimizer"} & set(results["config"])  # which had no effect
    radii = [float(point["epsilon"]) for point in results["path"]]
    assert (radii[0], radii[-1], len(radii)) == (0.0, math.inf, 7)
    for point in results["path"]:
        assert point["distance"] <= float(point["epsilon"]) * (1 + 1e-4) + 1e-6
    assert len(list((folder / "models").glob("epsilon-*.safetensors"))) == 14
    assert_calibrated(results, sum(domain["test"] for domain in results["data"]["domains"]))


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """A folder of image files ``domain/category/number.png``."""
    Image = pytest.importorskip("PIL.Image")
    root, data = tmp_path_factory.mktemp("pictures"), Squares()
    for k, image in list(enumerate(data.pixels(8)))[::7]:
        domain, category = DOMAINS[data.domain_codes[k]], CATEGORIES[data.category_codes[k]]
        path = root / domain / category / f"{k}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path)
    return root


def test_heads_predict_images(finished_heads, pictures, tmp_path):
    predictions = predict(finished_heads[0], pictures)
    assert predictions.accuracy > 0.9
    assert set(predictions.table["domain"]) == set(DOMAINS)
    # The file holds the backbone, too, and is checked to give the same numbers.
    export(finished_heads[0], tmp_path / "net.safetensors", task="art")


@pytest.mark.slow  # networks in ONNX files are tested in `test_predicting.py`
def test_a_graph_of_heads_and_their_backbone_predicts_the_same(finished_heads, pictures, tmp_path):
    pytest.importorskip("onnxscript", reason="the extra `onnx` is not installed")
    session = pytest.importorskip("onnxruntime").InferenceSession
    Image = pytest.importorskip("PIL.Image")
    row = predict(finished_heads[0], pictures / "art").table.iloc[0]
    x = np.asarray(Image.open(row["path"]), np.float32).transpose(2, 0, 1)[None] / 255
    export(finished_heads[0], tmp_path / "net.onnx", task="art")
    (scores,) = session(tmp_path / "net.onnx").run(None, {"images": x})
    probability = float(torch.from_numpy(scores).softmax(1).max())
    assert probability == pytest.approx(row["probability"], rel=1e-4)
