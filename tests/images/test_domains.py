"""Folders of images: what is found, how it is split, what is refused."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from unicodedata import normalize

import numpy as np
import pytest
from PIL import Image

from crosslearning.files import default_cache_dir
from crosslearning.images import ImageDomains, split
from tests.support.image_files import corners, encoded, png_bomb, put, quarters

PNG = encoded(quarters(), "PNG")
JPEG = encoded(quarters(), "JPEG")
NAIVE = "na\u00efve f\u00eate"


@pytest.fixture
def tree(tmp_path):
    """Office-Home with everything that a folder may hold."""
    root = tmp_path / "images"
    files = {
        "ImageInfo.csv": b"a,b\n",
        "Art/readme.txt": b"",
        "Art/Alarm_Clock/00001.jpg": JPEG,
        "Art/Alarm_Clock/00002.JPG": JPEG,
        "Art/Alarm_Clock/.hidden.jpg": JPEG,
        "Art/Alarm_Clock/Thumbs.db": b"\0",
        "Art/Alarm_Clock/deeper/00003.jpg": JPEG,
        "Art/.git/00001.jpg": JPEG,
        "Real World/Alarm_Clock/00001.png": PNG,
        f"Real World/{normalize('NFC', NAIVE)}/été 1.png": PNG,
        "Real World/Only here/grey.png": encoded(quarters().convert("L"), "PNG"),
        f"Product/{normalize('NFD', NAIVE)}/日本.gif": encoded(quarters(), "GIF"),
        "Product/Alarm_Clock/palette.png": encoded(quarters().convert("P"), "PNG"),
        "Product/Alarm_Clock/alpha.webp": encoded(
            quarters().convert("RGBA"), "WEBP", lossless=True
        ),
        "Product/Alarm_Clock/print.jpeg": encoded(quarters().convert("CMYK"), "JPEG"),
        "Product/Alarm_Clock/deep.tiff": encoded(
            Image.fromarray(np.full((9, 9), 40_000, dtype=np.uint16)), "TIFF"
        ),
        "Product/Alarm_Clock/plain.bmp": encoded(quarters(), "BMP"),
    }
    for name, data in files.items():
        put(root, name, data)
    (root / "Art" / "Empty").mkdir()
    (root / "Empty").mkdir()
    return root


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


def spoil(tree):
    put(tree, "Art/Alarm_Clock/cut.jpg", encoded(quarters(400, 400), "JPEG")[:-300])
    put(tree, "Art/Alarm_Clock/none.png", b"")
    put(tree, "Art/Broken/bomb.png", png_bomb())
    return {"Art/Alarm_Clock/cut.jpg", "Art/Alarm_Clock/none.png", "Art/Broken/bomb.png"}


def test_domains_and_categories_are_found_by_name(tree, cache):
    data = ImageDomains(tree, cache_dir=cache)
    assert data.domains == ("Art", "Product", "Real World")
    assert data.categories == ("Alarm_Clock", "Only here", normalize("NFC", NAIVE))
    assert data.counts().to_numpy().tolist() == [[2, 5, 1], [0, 0, 1], [0, 1, 1]]
    assert data.skipped == ()
    assert len(data) == len(data.names) == len(set(data.groups)) == 11
    assert list(data.names) == sorted(data.names, key=lambda name: name.split("/"))
    assert repr(data) == "ImageDomains(11 images, 3 domains, 3 categories)"
    for k, name in enumerate(data.names):
        assert name.split("/")[0] == data.domains[data.domain_codes[k]]
        assert name.split("/")[1] == data.categories[data.category_codes[k]]
    assert not cache.exists()  # nothing is decoded before it is needed


def test_every_image_is_decoded_once(tree, cache):
    calls = []
    data = ImageDomains(tree, cache_dir=cache)
    pixels = data.pixels(16, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(11, 11)]
    assert isinstance(pixels, np.memmap)
    assert pixels.shape == (11, 16, 16, 3)
    for name, image in zip(data.names, pixels, strict=True):
        if "grey" in name:
            assert corners(image)[3] == "white"
        elif "deep" in name:
            assert np.unique(image).tolist() == [155]
        else:
            assert corners(image) == ["red", "green", "blue", "white"]
    again = ImageDomains(str(tree), cache_dir=str(cache))
    np.testing.assert_array_equal(again.pixels(16, progress=calls.append), pixels)
    assert len(calls) == 1
    assert len(list(cache.iterdir())) == 1
    assert data.pixels(8).shape == (11, 8, 8, 3)
    assert len(list(cache.iterdir())) == 2


def test_a_changed_file_is_decoded_again(tree, cache):
    before = ImageDomains(tree, cache_dir=cache)
    before.pixels(8)
    changed = put(tree, "Art/Alarm_Clock/00001.jpg", encoded(quarters().rotate(180), "JPEG"))
    time_ns = changed.stat().st_mtime_ns + 10**9
    os.utime(changed, ns=(time_ns, time_ns))
    after = ImageDomains(tree, cache_dir=cache)
    assert corners(after.pixels(8)[0]) == ["white", "blue", "green", "red"]
    assert len(list(cache.iterdir())) == 2


def test_fingerprint_knows_the_files_but_not_their_times(tree, cache):
    first = ImageDomains(tree, cache_dir=cache).fingerprint
    os.utime(tree / "Art/Alarm_Clock/00001.jpg", ns=(5, 5))
    assert ImageDomains(tree, cache_dir=cache).fingerprint == first
    put(tree, "Art/Alarm_Clock/00003.jpg", JPEG)
    assert ImageDomains(tree, cache_dir=cache).fingerprint != first


def test_unreadable_images_are_refused_by_name(tree, cache):
    broken = spoil(tree)
    data = ImageDomains(tree, cache_dir=cache)
    with pytest.raises(ValueError, match="3 of 14 are not") as caught:
        data.pixels(8)
    assert all(name in str(caught.value) for name in broken)
    assert "bomb.png (DecompressionBombError)" in str(caught.value)
    assert "skip_unreadable" in str(caught.value)
    assert list(cache.iterdir()) == []


def test_only_ten_unreadable_images_are_named(tree, cache):
    for k in range(15):
        put(tree, f"Art/Alarm_Clock/broken{k:02}.jpg", b"")
    with pytest.raises(ValueError, match=r"15 of 26 are not.*broken09\.jpg \(\w+\), …\. Rep"):
        ImageDomains(tree, cache_dir=cache).pixels(8)


def test_unreadable_images_can_be_left_out(tree, cache):
    broken = spoil(tree)
    calls = []
    data = ImageDomains(
        tree,
        skip_unreadable=True,
        cache_dir=cache,
        progress=lambda *done: calls.append(done),
    )
    assert set(data.skipped) == broken
    assert calls == [(14, 14)]
    assert "Broken" not in data.categories
    assert len(data) == len(data.pixels(8)) == 11


def test_nothing_but_unreadable_images(tmp_path, cache):
    put(tmp_path, "tree/a/b/c.jpg", b"")
    with pytest.raises(ValueError, match="At least one image must be readable"):
        ImageDomains(tmp_path / "tree", skip_unreadable=True, cache_dir=cache)


@pytest.mark.parametrize("name", ["", "a.jpg", "a/b.jpg", "a/b/c/d.jpg", "a/b/c.txt", "a/b/.c.jpg"])
def test_folders_without_images_at_the_right_place(name, tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    if name:
        put(root, name, JPEG)
    with pytest.raises(ValueError, match=r"`root` must be a folder domain/category/\*\.jpg"):
        ImageDomains(root)


@pytest.mark.parametrize(
    ("name", "problem"), [("nowhere", "nowhere does not exist"), ("file", "file is not a folder")]
)
def test_roots_that_are_no_folder(name, problem, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=problem):
        ImageDomains(tmp_path / name)


def test_names_that_are_no_text(tmp_path, cache):
    folder = tmp_path / "tree" / "a" / "b"
    folder.mkdir(parents=True)
    try:
        with open(os.fsencode(folder) + b"/\xff\xfe.png", "wb") as stream:  # noqa: PTH123
            stream.write(PNG)
    except OSError:
        pytest.skip("this file system has only names that are text")
    data = ImageDomains(tmp_path / "tree", cache_dir=cache)
    assert data.pixels(4).shape == (1, 4, 4, 3)
    assert len(data.fingerprint) == 64


def many(root, n=20):
    for domain in ("a", "b"):
        for k in range(n):
            put(root, f"{domain}/x y/{k}.png", PNG)
    return root


def test_a_group_file_keeps_images_together(tmp_path):
    root = many(tmp_path / "root")
    rows = [f"{domain}/x y/{k}.png,{k // 4}" for domain in "ab" for k in range(16)]
    alone = ImageDomains(root)
    put(root, "groups.csv", "\n".join(["path,group", *rows]).encode())
    data = ImageDomains(root)
    assert len(set(data.groups)) == 4 + 8
    for seed in range(5):
        train, test = split(data, seed=seed)
        assert not set(data.groups[train]) & set(data.groups[test])
        assert len(test) == 8
    assert alone.fingerprint != data.fingerprint


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("file,group\na,1", "must have the columns path and group; .* has file, group"),
        ("", "has none"),
        ("path,group\nb/x y/0.png,1\nnowhere.png,1", "1 are not, such as 'nowhere.png'"),
    ],
)
def test_group_files_that_are_none(text, message, tmp_path):
    root = many(tmp_path / "root", 1)
    put(root, "groups.csv", text.encode())
    with pytest.raises(ValueError, match=message):
        ImageDomains(root)


@pytest.mark.parametrize("size", [0, -3])
def test_sizes_that_are_none(size, tree):
    with pytest.raises(ValueError, match="`size` is a number of pixels"):
        ImageDomains(tree).pixels(size)


def test_two_processes_may_fill_the_cache_at_once(tmp_path, cache):
    root = many(tmp_path / "root", 150)
    code = (
        "import sys, numpy as np; from crosslearning.images import ImageDomains;"
        "pixels = ImageDomains(sys.argv[1], cache_dir=sys.argv[2]).pixels(64);"
        "print(len(pixels), np.asarray(pixels).sum())"
    )
    start = [sys.executable, "-c", code, str(root), str(cache)]
    running = [subprocess.Popen(start, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    printed = [process.communicate(timeout=60)[0] for process in running]
    assert printed[0] == printed[1] != ""
    assert len(list(cache.iterdir())) == 1


def test_a_failure_leaves_no_file_behind(tree, cache):
    def stop(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ImageDomains(tree, cache_dir=cache).pixels(8, progress=stop)
    assert list(cache.iterdir()) == []


def test_a_cache_that_cannot_be_written(tree, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="Choose another folder with `cache_dir`"):
        ImageDomains(tree, cache_dir=tmp_path / "file" / "cache").pixels(8)


def test_the_default_cache(tree, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    ImageDomains(tree).pixels(4)
    assert len(list((tmp_path / "xdg" / "crosslearning").iterdir())) == 1
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_cache_dir() == tmp_path / ".cache" / "crosslearning"


def test_decoding_that_is_killed_starts_again(tmp_path):
    """A killed process leaves no file that is taken for decoded images."""
    root, cache = tmp_path / "images", tmp_path / "cache"
    for k in range(6):
        path = root / "art" / "cup" / f"{k}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((9, 9, 3), 40 * k, np.uint8)).save(path)
    command = [
        sys.executable, "-m", "tests.support.killed_once", "decoding", str(root), str(cache),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, cwd=Path(__file__).parents[2], text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    (left,) = cache.iterdir()
    assert left.name.endswith(".tmp")
    assert left.stat().st_size < 6 * 8 * 8 * 3
    pixels = ImageDomains(root, cache_dir=cache).pixels(8)
    assert (pixels == 40 * np.arange(6)[:, None, None, None]).all()
