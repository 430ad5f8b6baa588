"""Trained networks in use: predictions for image files, exported networks, and the commands."""

import json
import math
import shutil
import sys

import numpy as np
import pandas as pd
import pytest

from crosslearning.cli import main
from crosslearning.images import ImageDomains, TrainingSettings
from tests.support.cli import check_failure

torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")
Image = pytest.importorskip("PIL.Image")

from crosslearning.images import export, predict, predicting, train  # noqa: E402
from crosslearning.images.networks import network  # noqa: E402
from crosslearning.nn import TaskModels  # noqa: E402

CATEGORIES = ("bed", "cup", "pen")
SETTINGS = TrainingSettings(
    model="batchnorm_cnn", image_size=16, epochs=2, batch=4, epsilons=(0.5, math.inf), seeds=(3,)
)
CHOSEN = {"epsilon": 0.5, "epsilons": {"art": 0.5, "photo": "inf"}}


def draw(path, channel, rng):
    pixels = rng.integers(0, 60, (16, 16, 3), dtype=np.uint8)
    pixels[:, :, channel] += 150
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder of images and a folder of networks that were trained on them, at two radii."""
    root, rng = tmp_path_factory.mktemp("images"), np.random.default_rng(0)
    for domain in ("art", "photo"):
        for channel, category in enumerate(CATEGORIES):
            for k in range(10):
                draw(root / domain / category / f"{k}.png", channel, rng)
    out = tmp_path_factory.mktemp("trained") / "out"
    results = train(ImageDomains(root, cache_dir=root / "cache"), out, SETTINGS)
    results["chosen"] |= CHOSEN
    (out / "results.json").write_text(json.dumps(results))
    return root, out


@pytest.fixture(scope="module")
def new(tmp_path_factory):
    """New images: of a domain, of none, and one that is broken."""
    root, rng = tmp_path_factory.mktemp("new"), np.random.default_rng(1)
    for channel, category in enumerate(CATEGORIES):
        draw(root / "photo" / category / "x.png", channel, rng)
    draw(root / "sketch" / "chair" / "y.png", 1, rng)
    (root / "photo" / "bed" / "broken.png").write_bytes(b"no image")
    (root / "photo" / "bed" / ".hidden.png").write_bytes(b"")
    return root


def probabilities(out, path, domain):
    """What the network of a domain says, from the parts that are stored."""
    about = json.loads((out / "models" / "seed-3.json").read_text())
    make = network(SETTINGS, len(CATEGORIES))
    radius = CHOSEN["epsilons"].get(domain, CHOSEN["epsilon"])
    models = TaskModels.load(out / "models" / f"epsilon-{radius}-seed-3.safetensors", make())
    module = (models.center if domain is None else models[domain]).eval()
    x = np.asarray(Image.open(path), dtype=np.float32) / 255
    x = (x - np.float32(about["mean"])) / np.float32(about["std"])
    with torch.no_grad():
        return module(torch.from_numpy(x.transpose(2, 0, 1))[None]).softmax(1)[0].numpy()


def test_each_image_is_predicted_by_the_network_of_its_domain(trained, new):
    predictions = predict(trained[1], new, top=3)
    table = predictions.table
    names = ["photo/bed/x.png", "photo/cup/x.png", "photo/pen/x.png", "sketch/chair/y.png"]
    assert table["path"].tolist() == [str(new / name) for name in names]
    assert table["domain"].tolist() == ["photo"] * 3 + [""]
    assert table["truth"].tolist() == [*CATEGORIES, ""]
    assert predictions.by_centre == 1
    assert predictions.unreadable == {str(new / "photo/bed/broken.png"): "UnidentifiedImageError"}
    for row in table.to_dict("records"):
        expected = probabilities(trained[1], row["path"], row["domain"] or None)
        order = np.argsort(-expected)
        named = [row["category"], row["category_2"], row["category_3"]]
        assert named == [CATEGORIES[k] for k in order]
        given = [row["probability"], row["probability_2"], row["probability_3"]]
        np.testing.assert_allclose(given, expected[order], rtol=1e-4)
    assert predictions.accuracy == (table["category"] == table["truth"])[:3].mean()


def test_the_domain_can_be_given_and_files_are_named_one_by_one(trained, new):
    files = [new / "sketch" / "chair" / "y.png", new / "photo" / "cup" / "x.png"]
    seen = []
    predictions = predict(trained[1], files, task="art", progress=lambda *now: seen.append(now))
    assert predictions.table["domain"].tolist() == ["art", "art"]
    expected = [probabilities(trained[1], path, "art").max() for path in files]
    np.testing.assert_allclose(predictions.table["probability"], expected, rtol=1e-4)
    assert seen == [(2, 2)]
    assert predict(trained[1], files[:1]).accuracy is None
    assert predict(trained[1], files, task="film").by_centre == 2


@pytest.mark.parametrize("task", ["art", None])
def test_an_exported_network_gives_the_same_numbers(task, trained, new, tmp_path):
    from safetensors import safe_open

    about = export(trained[1], tmp_path / "net.safetensors", task=task)
    normalised = json.loads((trained[1] / "models" / "seed-3.json").read_text())
    assert about == {
        "domain": task,
        "image_size": 16,
        "categories": list(CATEGORIES),
        "normalised_inside": {name: normalised[name] for name in ("mean", "std")},
    }
    path = new / "photo" / "cup" / "x.png"
    x = torch.from_numpy(np.asarray(Image.open(path)).transpose(2, 0, 1).copy())[None] / 255
    expected = probabilities(trained[1], path, task)
    with safe_open(tmp_path / "net.safetensors", framework="pt") as file:
        assert json.loads(file.metadata()["about"]) == about
        weights = {name.removeprefix("inner."): file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    net = network(SETTINGS, 3)()
    normalised = (x - weights.pop("mean")) / weights.pop("std")
    net.load_state_dict(weights)
    np.testing.assert_allclose(
        net.eval()(normalised).softmax(1)[0].detach(), expected, rtol=1e-4, atol=1e-6
    )


def test_an_onnx_graph_gives_the_same_numbers(trained, new, tmp_path):
    pytest.importorskip("onnxscript", reason="the extra `onnx` is not installed")
    onnx = pytest.importorskip("onnx")
    about = export(trained[1], tmp_path / "net.onnx", task="art")
    assert [file.name for file in tmp_path.iterdir()] == ["net.onnx"]
    model = onnx.load(tmp_path / "net.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert {one.key: json.loads(one.value) for one in model.metadata_props} == {"about": about}
    assert b".py" not in model.SerializeToString()  # no line of code, nor path of this machine
    path = new / "photo" / "cup" / "x.png"
    x = np.asarray(Image.open(path), dtype=np.float32).transpose(2, 0, 1)[None] / 255
    run = onnx.reference.ReferenceEvaluator(model).run
    for n in (1, 5):
        (scores,) = run(["scores"], {"images": x.repeat(n, 0)})
        shares = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
        expected = probabilities(trained[1], path, "art")
        np.testing.assert_allclose(shares, [expected] * n, rtol=1e-4)


def test_a_file_with_other_outputs_is_not_kept(trained, tmp_path, monkeypatch):
    write = predicting._WRITERS[".safetensors"]
    monkeypatch.setitem(predicting._WRITERS, ".safetensors", lambda *given: write(*given) + 1)
    with pytest.raises(RuntimeError, match="outputs of the exported network differ by"):
        export(trained[1], tmp_path / "net.safetensors")
    assert not list(tmp_path.iterdir())


def test_onnx_is_an_extra(trained, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    assert main(["export", str(trained[1]), "-o", str(tmp_path / "net.onnx")]) != 0
    check_failure('Install it with `pip install "crosslearning[onnx]"`.', capsys)
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_used_is_refused(trained, new, tmp_path):
    out = trained[1]
    with pytest.raises(ValueError, match=r"end in .onnx or .safetensors; got 'net.h5'"):
        export(out, tmp_path / "net.h5")
    with pytest.raises(ValueError, match="must be one of the domains art, photo; got 'film'"):
        export(out, tmp_path / "net.onnx", task="film")
    with pytest.raises(ValueError, match="`top` counts categories and must be from 1 to 3; got 4"):
        predict(out, new, top=4)
    with pytest.raises(ValueError, match="holds no networks for images"):
        predict(tmp_path, new)
    with pytest.raises(ValueError, match="nowhere does not exist"):
        predict(out, tmp_path / "nowhere")
    with pytest.raises(ValueError, match="found none in"):
        predict(out, tmp_path)
    with pytest.raises(ValueError, match="none of 1 is"):
        predict(out, new / "photo" / "bed" / "broken.png")
    unfinished = shutil.copytree(out, tmp_path / "unfinished")
    (unfinished / "results.json").unlink()
    with pytest.raises(ValueError, match=r"is not finished. Start it again"):
        predict(unfinished, new)


@pytest.mark.parametrize("version", [1, None])
def test_a_folder_of_another_version_is_refused(version, trained, new, tmp_path, capsys):
    old = shutil.copytree(trained[1], tmp_path / "old")
    results = json.loads((old / "results.json").read_text())
    del results["chosen"]["epsilons"]  # as in version 1
    (old / "results.json").write_text(json.dumps(results | {"version": version}))
    message = f"{old / 'results.json'} must have version 2; got {version}. Train again, into "
    assert main(["predict", str(old), str(new)]) == 2
    check_failure(message, capsys)
    assert main(["export", str(old), "-o", str(tmp_path / "net.safetensors")]) == 2
    check_failure(message, capsys)


def test_predict_as_a_command(trained, new, tmp_path, capsys):
    out, target = str(trained[1]), tmp_path / "predictions.csv"
    assert main(["predict", out, str(new), "--top", "2", "-o", str(target)]) == 0
    printed = capsys.readouterr()
    assert printed.out == f"4 predictions in {target}\n"
    assert "Skipped because they cannot be read: 1: " in printed.err
    assert "1 image belongs to no training domain; predicted by the centre" in printed.err
    assert "% of 3 images in folders of categories" in printed.err
    assert list(pd.read_csv(target)) == [
        "path", "domain", "category", "probability", "category_2", "probability_2", "truth",
    ]  # fmt: skip
    assert main(["predict", out, str(new), "-o", str(target), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["images"], summary["by_centre"], len(summary["unreadable"])) == (4, 1, 1)
    assert main(["predict", out, str(new), "--coverage", "0.8"]) == 2
    check_failure("--coverage is for tables, not for images.", capsys)
    assert main(["predict", out, str(new), "--task", "moon"]) == 2
    check_failure("--task must be one of the domains art, photo; got 'moon'.", capsys)


def test_export_as_a_command(trained, tmp_path, capsys):
    target = tmp_path / "art.safetensors"
    assert main(["export", str(trained[1]), "--task", "art", "-o", str(target)]) == 0
    assert f"art in {target}: " in capsys.readouterr().out
    assert target.exists()
    assert main(["export", str(trained[1]), "-o", str(tmp_path / "none" / "net.safetensors")]) != 0
    check_failure(f"Cannot write to {tmp_path / 'none'}: No such file or directory.", capsys)
