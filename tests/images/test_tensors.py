"""Bytes to normalised batches, and their augmentation."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")

from crosslearning.images import batches  # noqa: E402
from crosslearning.images.batches import (  # noqa: E402
    Augmentation,
    ImageBatches,
    channel_statistics,
)

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (20, 6, 5, 3), dtype=np.uint8)
PIXELS[..., 2] //= 4
LABELS = np.arange(20) % 7


@pytest.mark.parametrize("at_a_time", [1, 70, 10**6])
def test_statistics_are_those_of_the_named_images(at_a_time, monkeypatch):
    monkeypatch.setattr(batches, "_PIXELS_AT_A_TIME", at_a_time)
    rows = [3, 19, 0, 7]
    mean, std = channel_statistics(PIXELS, rows)
    np.testing.assert_allclose(mean, (PIXELS[rows] / 255).mean(axis=(0, 1, 2)), rtol=1e-6)
    np.testing.assert_allclose(std, (PIXELS[rows] / 255).std(axis=(0, 1, 2)), rtol=1e-6)


def test_statistics_of_nothing():
    with pytest.raises(ValueError, match="at least one image"):
        channel_statistics(PIXELS, [])


@pytest.mark.parametrize("on_disk", [False, True])
def test_batches_are_normalised_images_of_the_part(on_disk, tmp_path):
    np.save(tmp_path / "pixels.npy", PIXELS)
    pixels = np.load(tmp_path / "pixels.npy", mmap_mode="r") if on_disk else PIXELS
    rows = np.array([4, 2, 17, 9, 5])
    images = ImageBatches(pixels, rows, LABELS, *channel_statistics(PIXELS, rows))
    assert len(images) == 5
    x, y = images.batch(torch.arange(5))
    assert (x.dtype, y.dtype) == (torch.float32, torch.int64)
    assert x.is_contiguous()
    assert y.tolist() == LABELS[rows].tolist()
    np.testing.assert_allclose(x.mean(dim=(0, 2, 3)), 0, atol=1e-6)
    np.testing.assert_allclose(x.std(dim=(0, 2, 3), correction=0), 1, rtol=1e-5)
    some, labels = images.batch(torch.tensor([3, 3, 0]))
    torch.testing.assert_close(some, x[[3, 3, 0]])
    assert labels.tolist() == y[[3, 3, 0]].tolist()
    one_third = ImageBatches(pixels, rows, LABELS, [0, 1, 0], [1, 1, 3]).batch(torch.tensor([2]))[0]
    expected = PIXELS[17].transpose(2, 0, 1) / 255 - np.array([0, 1, 0])[:, None, None]
    np.testing.assert_allclose(one_third[0, :2], expected[:2], atol=1e-6)
    np.testing.assert_allclose(one_third[0, 2], expected[2] / 3, atol=1e-6)


def test_images_of_one_colour_are_not_divided_by_zero():
    grey = np.full((3, 2, 2, 3), 100, dtype=np.uint8)
    x, _ = ImageBatches(grey, [0, 1], [0, 0, 0], *channel_statistics(grey, [0])).batch(
        torch.tensor([0, 1])
    )
    np.testing.assert_allclose(x, 0, atol=1e-6)


def changed(seed=0, colour=0.0, **options):
    x = torch.from_numpy(RNG.normal(size=(200, 3, 10, 20)).astype(np.float32))
    return x, Augmentation(colour=colour, **options)(x, torch.Generator().manual_seed(seed))


def test_the_generator_determines_the_augmentation():
    x = torch.rand(50, 3, 8, 8)
    augment = Augmentation()
    first, again, other = (augment(x, torch.Generator().manual_seed(seed)) for seed in (5, 5, 6))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert first.is_contiguous()


def test_nothing_to_do_changes_nothing():
    x, y = changed(shift=0, flip=False)
    assert torch.equal(x, y)


def test_half_of_the_images_are_flipped():
    x, y = changed(shift=0)
    same = [torch.equal(a, b) for a, b in zip(y, x, strict=True)]
    assert 60 < sum(same) < 140
    flipped = [torch.equal(a, b.flip(2)) for a, b in zip(y, x, strict=True)]
    assert sum(same) + sum(flipped) == 200


def test_shifts_are_at_most_the_share_and_repeat_the_border():
    x, y = changed(shift=0.2, flip=False)
    seen = set()
    for before, after in zip(x, y, strict=True):
        moves = [
            (down, right)
            for down in range(-2, 3)
            for right in range(-4, 5)
            if torch.equal(after, before[:, places(10, down)][:, :, places(20, right)])
        ]
        assert len(moves) == 1
        seen.update(moves)
    assert {move[0] for move in seen} == set(range(-2, 3))
    assert {move[1] for move in seen} == set(range(-4, 5))


def places(size, move):
    return [min(max(place + move, 0), size - 1) for place in range(size)]


def test_colours_change_by_channel_and_at_most_so_much():
    x, y = changed(shift=0, flip=False, colour=0.3)
    factors, offsets = [], []
    for before, after in zip(x.flatten(0, 1), y.flatten(0, 1), strict=True):
        factor, offset = np.polyfit(before.flatten(), after.flatten(), 1)
        np.testing.assert_allclose(after, factor * before + offset, atol=1e-5)
        factors.append(factor - 1)
        offsets.append(offset)
    for changes in (factors, offsets):
        assert 0.27 < np.abs(changes).max() < 0.3 + 1e-6
        assert abs(np.mean(changes)) < 0.03


@pytest.mark.parametrize("name", ["shift", "colour"])
@pytest.mark.parametrize("share", [-0.1, 1, float("nan")])
def test_changes_that_are_not_shares(name, share):
    with pytest.raises(ValueError, match=f"`{name}` is a share"):
        Augmentation(**{name: share})
