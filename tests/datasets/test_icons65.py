"""The packaged icons."""

import csv
from importlib.resources import files

import numpy as np
import pytest

from crosslearning.datasets import Icons65, ImageData, load_icons65

TABLE = files("crosslearning.datasets") / "data" / "icons65.csv"


@pytest.fixture(scope="module")
def icons():
    return load_icons65()


def test_sizes(icons):
    assert isinstance(icons, ImageData)
    assert icons.images.shape == (7531, 64, 64, 3)
    assert icons.images.dtype == np.uint8
    assert icons.domains == ("colour", "duotone", "outline", "solid")
    counts = icons.counts()
    assert counts.sum().tolist() == [1101, 801, 2944, 2685]
    assert counts.shape == (65, 4)
    assert counts.to_numpy().min() >= 1
    assert (counts.min(axis=1) >= 5).sum() == 49
    assert len(icons) == len(icons.groups) == len(icons.icons) == len(icons.licences) == 7531


def test_labels_are_those_of_the_table(icons):
    rows = list(csv.DictReader(TABLE.read_text(encoding="utf-8").splitlines()))
    for k in (0, 1, 4000, 7530):
        assert icons.domains[icons.domain_codes[k]] == rows[k]["domain"]
        assert icons.categories[icons.category_codes[k]] == rows[k]["category"]
        assert (icons.sets[k], icons.icons[k]) == (rows[k]["set"], rows[k]["icon"])
    groups = np.array([int(row["group"]) for row in rows])
    assert len(set(zip(groups, icons.groups, strict=True))) == len(set(groups))


def test_smaller_icons_are_means_of_squares(icons):
    assert icons.pixels() is icons.images
    small = icons.pixels(16)
    assert small.shape == (7531, 16, 16, 3)
    mean = icons.images[7, 8:12, 20:24].astype(float).mean(axis=(0, 1))
    np.testing.assert_allclose(small[7, 2, 5], mean, atol=0.5)


@pytest.mark.parametrize("size", [0, -1, 48, 128])
def test_sizes_that_are_none(icons, size):
    with pytest.raises(ValueError, match="must divide 64"):
        icons.pixels(size)


def test_fingerprint_changes_with_pixels_and_labels(icons):
    table = list(csv.DictReader(TABLE.read_text(encoding="utf-8").splitlines()))[:50]
    first = Icons65(icons.images[:50], table).fingerprint
    assert len(first) == 64
    other = Icons65(icons.images[:50].copy(), table)
    other.images[0, 0, 0, 0] ^= 1
    assert other.fingerprint != first
    del other.fingerprint  # it is computed once
    other.images[0, 0, 0, 0] ^= 1
    assert other.fingerprint == first
    del other.fingerprint
    other.groups[0] += 1
    assert other.fingerprint != first


def test_every_licence_has_its_terms_and_every_set_its_author(icons):
    folder = files("crosslearning.datasets") / "data"
    notices = (folder / "NOTICES.md").read_text(encoding="utf-8")
    assert all(f"| {licence} |" in notices for licence in set(icons.licences))
    assert "Origin: " in icons.description
    sets = csv.DictReader((folder / "icons65_sets.csv").read_text(encoding="utf-8").splitlines())
    authors = {row["set"]: row["author"] for row in sets}
    assert all(authors[name] for name in set(icons.sets))
