"""The packaged pictures."""

import csv
from importlib.resources import files

import numpy as np
import pytest

from crosslearning.datasets import ImageData, Pictures32, load_pictures32

DATA = files("crosslearning.datasets") / "data"


@pytest.fixture(scope="module")
def pictures():
    return load_pictures32()


@pytest.fixture(scope="module")
def archive():
    return (DATA / "pictures32.zip").read_bytes()


def test_sizes(pictures):
    assert isinstance(pictures, ImageData)
    assert pictures.domains == ("emoji", "icon", "photo", "sketch")
    counts = pictures.counts()
    assert counts.sum().tolist() == [466, 1458, 1746, 1920]
    assert counts.shape == (32, 4)
    assert counts.to_numpy().min() == 6
    assert len(pictures) == len(pictures.groups) == len(pictures.table) == 5590


def test_labels_are_those_of_the_paths(pictures):
    for k in (0, 1, 4000, 5589):
        domain, category, _ = pictures.table[k]["path"].split("/")
        assert pictures.domains[pictures.domain_codes[k]] == domain
        assert pictures.categories[pictures.category_codes[k]] == category
    groups = [int(row["group"]) for row in pictures.table]
    assert len(set(zip(groups, pictures.groups, strict=True))) == len(set(groups))


def test_a_group_may_span_domains(pictures):
    of_group = {}
    for group, domain in zip(pictures.groups, pictures.domain_codes, strict=True):
        of_group.setdefault(group, set()).add(pictures.domains[domain])
    assert {"emoji", "icon"} in of_group.values()
    assert all(len(domains) == 1 or domains == {"emoji", "icon"} for domains in of_group.values())


def test_pictures_of_any_size_are_decoded_once(pictures, archive):
    pytest.importorskip("PIL", reason="the extra `torch` is not installed")
    few = Pictures32(pictures.table[::700], archive)
    seen = []
    full = few.pixels(progress=lambda done, total: seen.append((done, total)))
    assert full.shape == (8, 64, 64, 3)
    assert full.dtype == np.uint8
    assert seen[-1] == (8, 8)
    assert few.pixels() is full
    small = few.pixels(16)
    assert small.shape == (8, 16, 16, 3)
    blocks = full.reshape(8, 16, 4, 16, 4, 3).mean(axis=(2, 4))
    assert np.abs(small - blocks).mean() < 10
    with pytest.raises(ValueError, match="at least 1; got 0"):
        few.pixels(0)


def test_fingerprint_changes_with_files_labels_and_groups(pictures, archive):
    rows = pictures.table[:3]
    first = Pictures32(rows, archive).fingerprint
    assert len(first) == 64
    assert Pictures32([dict(row) for row in rows], archive).fingerprint == first
    for name, value in (("path", pictures.table[9]["path"]), ("category", "car"), ("group", "7")):
        assert Pictures32([{**rows[0], name: value}, *rows[1:]], archive).fingerprint != first


def test_every_licence_has_its_terms_and_every_set_its_author(pictures):
    notices = (DATA / "NOTICES.md").read_text(encoding="utf-8")
    assert all(f"| {row['licence']} |" in notices for row in pictures.table)
    assert "Origin: " in pictures.description
    sets = csv.DictReader((DATA / "pictures32_sets.csv").read_text(encoding="utf-8").splitlines())
    authors = {row["set"]: row["author"] for row in sets}
    drawn = (row for row in pictures.table if row["domain"] in ("emoji", "icon"))
    assert all(authors[row["source"].split(": ")[0]] for row in drawn)
