"""The networks that come along."""

import pytest

from crosslearning.paper import alexnet256
from tests.support.networks import TaskModels, architectures, nn, torch


def n_parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def test_alexnet256_is_the_network_of_the_paper():
    net = alexnet256(65)
    assert n_parameters(net) == 4_911_745
    convolutions = [m for m in net.modules() if isinstance(m, nn.Conv2d)]
    assert [c.out_channels for c in convolutions] == [64, 192, 384, 256, 256]
    assert net.features(torch.zeros(1, 3, 224, 224)).shape == (1, 256, 6, 6)
    assert net(torch.zeros(2, 3, 64, 64)).shape == (2, 65)


def test_dropout_of_alexnet():
    shares = [m.p for m in alexnet256(5).modules() if isinstance(m, nn.Dropout)]
    assert shares == [0.5, 0.5]
    net = alexnet256(5, dropout=0.0)
    x = torch.rand(1, 3, 64, 64)
    assert torch.equal(net(x), net.eval()(x))


@pytest.mark.parametrize(
    ("build", "shape", "n_out", "count"),
    [
        (lambda: architectures.small_cnn(7), (3, 32, 32), 7, 30_759),
        (lambda: architectures.small_cnn(2, in_channels=1, width=4), (1, 8, 8), 2, 2_018),
        (lambda: architectures.batchnorm_cnn(65), (3, 64, 64), 65, 131_025),
        (lambda: architectures.batchnorm_cnn(2, in_channels=1, width=4), (1, 16, 16), 2, 6_462),
        (lambda: architectures.mlp(10, 3), (10,), 3, 5_059),
        (lambda: architectures.mlp(12, 3, hidden=(), dropout=0.1), (3, 4), 3, 39),
    ],
)
def test_shapes(build, shape, n_out, count):
    net = build()
    assert net(torch.zeros(5, *shape)).shape == (5, n_out)
    assert n_parameters(net) == count


def test_statistics_of_batchnorm_belong_to_each_task():
    torch.manual_seed(0)
    models = TaskModels(architectures.batchnorm_cnn(2, width=4), ["dark", "bright"], epsilon=0.0)
    for task, level in (("dark", 0.1), ("bright", 0.9)):
        models[task].train()(level + 0.1 * torch.randn(8, 3, 16, 16))
    dark, bright = (models[task].features[1].running_mean for task in models.tasks)
    assert not torch.allclose(dark, bright)
    assert torch.equal(models["dark"].features[1].weight, models["bright"].features[1].weight)
