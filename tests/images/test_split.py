"""Laws of the split into training, validation and test images."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crosslearning.datasets import ImageData, load_pictures32
from crosslearning.images import split
from crosslearning.images.splits import divide
from tests.support.image_training import SMALL, Squares


class Codes(ImageData):
    fingerprint = ""

    def pixels(self, size, *, progress=None):
        raise NotImplementedError


@st.composite
def tables(draw, alone=False):
    """Domains, categories and groups of up to 60 images; some with few groups, some with many."""
    n, rng = draw(st.integers(1, 60)), np.random.default_rng(draw(st.integers(0, 2**32)))
    codes = [rng.integers(0, draw(st.integers(0, top)), n, endpoint=True) for top in (2, 3)]
    groups = rng.integers(0, draw(st.integers(0, 70)), n, endpoint=True)
    return np.array([*codes, np.arange(n) if alone else groups])


shares = st.sampled_from([0.5, 0.75, 0.8, 0.9])
seeds = st.integers(0, 5)


def excess(codes, test, share):
    """Images in the test part beyond its share, and images, in every cell."""
    cells = np.unique(codes[:2], axis=1, return_inverse=True)[1]
    sizes = np.bincount(cells)
    return np.bincount(cells[test], minlength=len(sizes)) - (1 - share) * sizes, sizes, cells


@given(tables(), shares, seeds)
def test_parts_are_disjoint_cover_everything_and_keep_groups(codes, share, seed):
    train, test = split(Codes(*codes), share, seed=seed)
    np.testing.assert_array_equal(np.sort(np.r_[train, test]), np.arange(codes.shape[1]))
    assert not set(codes[2, train]) & set(codes[2, test])


@given(tables(alone=True), shares, seeds)
def test_without_groups_every_cell_gives_its_share(codes, share, seed):
    test = split(Codes(*codes), share, seed=seed)[1]
    assert np.abs(excess(codes, test, share)[0]).max() <= 0.5 + 1e-9


@given(tables(), shares, seeds)
def test_moving_no_single_group_makes_the_shares_better(codes, share, seed):
    test = np.isin(np.arange(codes.shape[1]), split(Codes(*codes), share, seed=seed)[1])
    misfit, sizes, _ = excess(codes, test, share)
    for group in np.unique(codes[2]):
        moved, _, _ = excess(codes, test ^ (codes[2] == group), share)
        assert np.sum(moved**2 / sizes) >= np.sum(misfit**2 / sizes) - 1e-8


@given(tables(), seeds, st.randoms(use_true_random=False))
def test_the_order_of_the_images_and_the_numbers_of_the_groups_do_not_matter(codes, seed, random):
    order = np.array(random.sample(range(codes.shape[1]), codes.shape[1]))
    test = split(Codes(*codes), seed=seed)[1]
    codes[2] = 3 * codes[2] - 7
    again = split(Codes(*codes[:, order]), seed=seed)[1]
    np.testing.assert_array_equal(np.sort(order[again]), test)


@given(tables(), seeds, st.randoms(use_true_random=False))
def test_a_fraction_of_the_training_images(codes, seed, random):
    data = Codes(*codes[:2].astype(str), codes[2])
    whole, test = split(data, seed=seed)
    cells = codes[0] * 10 + codes[1]
    smaller = np.array([], dtype=int)
    for fraction in (0.1, 0.5, 1):
        train, untouched = split(data, seed=seed, train_fraction=fraction)
        np.testing.assert_array_equal(untouched, test)
        assert set(smaller) <= set(train) <= set(whole)
        for cell in np.unique(cells[whole]):
            kept, there = np.sum(cells[train] == cell), np.sum(cells[whole] == cell)
            assert kept >= 1
            assert kept == 1 or abs(kept - fraction * there) <= 0.5
        smaller = train
    np.testing.assert_array_equal(smaller, whole)
    order = np.array(random.sample(range(len(data)), len(data)))
    shuffled = Codes(*codes[:2, order].astype(str), codes[2, order])
    train = split(data, seed=seed, train_fraction=0.5)[0]
    again = order[split(shuffled, seed=seed, train_fraction=0.5)[0]]
    # Images that agree in domain, category and group cannot be told apart.
    assert sorted(codes[:, again].T.tolist()) == sorted(codes[:, train].T.tolist())


def test_pictures_are_split_by_drawing():
    pictures = load_pictures32()
    train, test = split(pictures)
    assert not set(pictures.groups[train]) & set(pictures.groups[test])
    codes = np.stack([pictures.domain_codes, pictures.category_codes, pictures.groups])
    misfit, sizes, _ = excess(codes, test, 0.8)
    assert np.abs(misfit).mean() < 0.5
    assert np.quantile(np.abs(misfit / sizes)[sizes >= 10], 0.9) < 0.05
    assert split(pictures, seed=1)[1].tolist() != test.tolist()
    assert split(pictures)[1].tolist() == test.tolist()
    scarce, same = split(pictures, train_fraction=0.3)
    np.testing.assert_array_equal(same, test)
    assert len(scarce) == pytest.approx(0.3 * len(train), rel=0.03)


def test_a_validation_part_is_inside_the_training_part():
    pictures = load_pictures32()
    train, _ = split(pictures)
    fit, validation = split(pictures, seed=3, within=train[::-1])
    np.testing.assert_array_equal(np.sort(np.r_[fit, validation]), train)
    assert not set(pictures.groups[fit]) & set(pictures.groups[validation])
    assert len(validation) == pytest.approx(0.2 * len(train), rel=0.05)


def test_nothing_is_split_into_nothing():
    data = Codes(["a"] * 3, ["x"] * 3, range(3))
    assert [len(part) for part in split(data, within=[])] == [0, 0]


@pytest.mark.parametrize("share", [0, 1, -0.1, float("nan")])
def test_shares_that_are_none(share):
    data = Codes(["a"] * 3, ["x"] * 3, range(3))
    with pytest.raises(ValueError, match="`train` is the share of the training part"):
        split(data, share)


@pytest.mark.parametrize("fraction", [0, 1.1, float("nan")])
def test_fractions_that_are_none(fraction):
    data = Codes(["a"] * 3, ["x"] * 3, range(3))
    with pytest.raises(ValueError, match="`train_fraction` is the share"):
        split(data, train_fraction=fraction)


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
    with pytest.raises(ValueError, match=r"'art' has none in the \w+ part"):
        divide(SMALL, Squares(each=1), seed=0)


@pytest.mark.parametrize(("name", "only"), [("domains", "art"), ("categories", "bed")])
def test_one_domain_or_category_is_refused(name, only):
    data = Squares()
    setattr(data, name, (only,))
    with pytest.raises(ValueError, match=f"two or more {name}; there is only '{only}'"):
        divide(SMALL, data, seed=0)
