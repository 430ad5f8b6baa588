"""Settings of a training: what is refused, the smallest images, the default radii."""

import math
from dataclasses import replace

import pytest

from tests.support.image_training import SMALL, Squares, train


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"schedule": "step"}, "`schedule` must be 'constant' or 'cosine'"),
        ({"epochs": 0}, "`epochs` must be at least 1; got 0"),
        ({"pooled_share": 1.5}, "`pooled_share` must be a share from 0 to 1; got 1.5"),
        ({"batch": -1}, "`batch` must be at least 1"),
        ({"train": 1.0}, "`train` must be a share above 0 and below 1; got 1.0"),
        ({"train_fraction": 1.5}, "`train_fraction` must be a share above 0 and at most 1"),
        ({"train_fraction": math.nan}, "got nan"),
        ({"learning_rate": 0.0}, "`learning_rate` must be finite and positive"),
        ({"momentum": 1.0}, "`momentum` must be at least 0 and below 1; got 1.0"),
        ({"epsilon_by": "task"}, "`epsilon_by` must be 'domain' or 'all'; got 'task'"),
        ({"epsilons": ()}, "`epsilons` must be one or more numbers of at least 0"),
        ({"epsilons": (math.nan,)}, r"`epsilons` must be .*; got \(nan,\)"),
        ({"seeds": (-1,)}, r"`seeds` must be .*; got \(-1,\)"),
        ({"weight_decay": -1.0}, "`weight_decay` must be finite and at least 0"),
        ({"image_size": 0}, "`image_size` must be at least 1; got 0"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        replace(SMALL, **settings)


def test_one_block_gets_the_radii():
    with pytest.raises(ValueError, match="`blocks` must be None for exactly one block"):
        replace(SMALL, blocks={"features": 0.1, "classifier": 0.2})


def test_radii_are_sorted_and_counted_once():
    assert replace(SMALL, epsilons=(math.inf, 0.1, 0.0, 0.1)).epsilons == (0.0, 0.1, math.inf)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"model": "vgg"},
            "`model` must be 'batchnorm_cnn' or 'small_cnn', or 'package",
        ),
        (
            {"model": "nowhere:net"},
            "Model 'nowhere:net' cannot be imported: No module named 'nowhere'",
        ),
        ({"model": "crosslearning.paper:vgg"}, "Model 'crosslearning.paper:vgg'"),
        (
            {"model": "tests.support.networks:two_numbers"},
            r"each of the 3 categories; .* shape \(2,\)",
        ),
        ({"image_size": 3}, "small_cnn must accept images of 3 by 3 pixels .* Use larger images"),
        (
            {"model": "crosslearning.paper:alexnet256", "image_size": 62},
            "alexnet256 must accept images of 62 by 62 pixels",
        ),
        ({"model": "batchnorm_cnn", "image_size": 15}, "batchnorm_cnn must accept images of 15"),
    ],
)
def test_networks_that_do_not_fit_are_refused_before_anything_is_written(
    settings, message, tmp_path
):
    pytest.importorskip("torch", reason="the extra `torch` is not installed")
    with pytest.raises(ValueError, match=message):
        train(replace(SMALL, **settings), Squares(), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("model", "size"),
    [("crosslearning.paper:alexnet256", 63), ("small_cnn", 4), ("batchnorm_cnn", 16)],
)
def test_the_smallest_images_are_large_enough(model, size):
    torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")
    from crosslearning.images.networks import network

    make = network(replace(SMALL, model=model, image_size=size), 3)
    assert make()(torch.zeros(2, 3, size, size)).shape == (2, 3)


def test_default_radii_are_shares_of_the_norm():
    torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")
    from crosslearning.images.networks import default_epsilons

    def make():
        layer = torch.nn.Linear(4, 1, bias=False)
        torch.nn.init.constant_(layer.weight, 50.0)  # a norm of 100
        return layer

    assert default_epsilons(make) == (0.0, 1.0, 2.0, 6.0, 20.0, math.inf)
