"""The image files in folders ``domain/category/``, and files that list some of them."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Sequence, Set
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple
from unicodedata import normalize

_SUFFIXES = {".bmp", ".gif", ".jpe", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff"}
_SUFFIXES |= {".webp"}


class ImageFile(NamedTuple):
    """An image file, or a row of a Parquet file; its name is the relative path, composed."""

    path: Path
    name: str
    domain: str
    category: str
    size: int
    modified: int  # in nanoseconds
    row: int | None = None  # of a Parquet file
    group: str | None = None


def find_images(root: Path) -> tuple[list[ImageFile], int]:
    """List images ``domain/category/*.jpg``, sorted by name, and count other entries."""
    if not root.is_dir():
        what = "is not a folder" if root.exists() else "does not exist"
        raise ValueError(
            f"`root` must be a folder domain/category/*.jpg, or a Parquet file; {root} {what}."
        )
    domains, ignored = _folders(root)
    images = []
    for domain in domains:
        categories, others = _folders(_below_images(domain))
        ignored += others
        for path in (path for category in categories for path in category.iterdir()):
            if is_image(path):
                inside, status = path.relative_to(root).as_posix(), path.stat()
                name, of, kind = map(_composed, (inside, domain.name, path.parent.name))
                images.append(ImageFile(path, name, of, kind, status.st_size, status.st_mtime_ns))
            else:
                ignored += 1
    if not images:
        raise ValueError(
            f"`root` must be a folder domain/category/*.jpg; {root} has no images two levels "
            "down. Perhaps its parent or a subfolder is right."
        )
    return sorted(images, key=lambda image: image.name.split("/")), ignored


def image_files(
    images: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    domains: Sequence[str],
    task: str | None,
) -> list[ImageFile]:
    """List files, and images in folders; the domain is the nearest parent named like one."""
    files: list[ImageFile] = []
    for place in map(Path, [images] if isinstance(images, str | os.PathLike) else images):
        if not place.exists():
            raise ValueError(f"`images` must be files or folders; {place} does not exist.")
        inside = sorted(place.rglob("*")) if place.is_dir() else [place]
        for path in inside if place.is_file() else filter(is_image, inside):
            above = [_composed(folder.name) for folder in path.absolute().parents]
            domain = next((name for name in above if name in domains), "")
            files.append(ImageFile(path, path.as_posix(), task or domain, above[0], 0, 0))
    if not files:
        raise ValueError(f"`images` must contain images; found none in {images}.")
    return files


def is_image(path: Path) -> bool:
    """Tell whether a path is a visible file with the suffix of an image."""
    hidden = path.name.startswith(".")
    return path.suffix.lower() in _SUFFIXES and not hidden and path.is_file()


def _folders(parent: Path) -> tuple[list[Path], int]:
    """Return the visible folders in a folder, and the number of other entries."""
    entries = list(parent.iterdir())
    folders = [path for path in entries if not path.name.startswith(".") and path.is_dir()]
    return folders, len(entries) - len(folders)


def _below_images(domain: Path) -> Path:
    """Skip the folder ``images`` that Office-31 has between domain and category."""
    inner = domain / "images"
    alone = inner.is_dir() and len(_folders(domain)[0]) == 1 and bool(_folders(inner)[0])
    return inner if alone else domain


def _composed(name: str) -> str:
    return normalize("NFC", name)


def digest(parts: Iterable[object]) -> str:
    """Return the SHA-256 of values as text."""
    # surrogateescape: file names may contain bytes that are not text
    return sha256(b"".join(f"{p}\0".encode("utf-8", "surrogateescape") for p in parts)).hexdigest()


def read_names(lists: Path | str | Sequence[Path | str], images: Set[str]) -> set[str]:
    """Read text files with the path of an image, and possibly its label, in each line."""
    listed: set[str] = set()
    for file in map(Path, [lists] if isinstance(lists, str | os.PathLike) else lists):
        lines = map(_composed, file.read_text(encoding="utf-8-sig").splitlines())
        names = [_without_label(line.strip(), images) for line in lines if line.strip()]
        _refuse_unknown(names, images, file)
        listed.update(names)
    return listed


def read_groups(file: Path, images: Set[str]) -> dict[str, str]:
    """Read the groups of images from a CSV file with the columns ``path`` and ``group``."""
    with file.open(encoding="utf-8-sig", newline="") as stream:
        rows = csv.DictReader(stream)
        columns = rows.fieldnames or ()
        if not {"path", "group"} <= set(columns):
            raise ValueError(
                f"A group file must have the columns path and group; {file} has "
                f"{', '.join(columns) or 'none'}."
            )
        groups = {_composed(row["path"]): row["group"] for row in rows}
    _refuse_unknown(groups, images, file)
    return groups


def _without_label(name: str, images: Set[str]) -> str:
    head, *label = name.rsplit(maxsplit=1)
    return head if name not in images and label and label[0].isdigit() else name


def _refuse_unknown(names: Iterable[str], images: Set[str], file: Path) -> None:
    if unknown := [name for name in names if name not in images]:
        raise ValueError(
            f"Every path in {file} must be that of an image, relative to the folder; "
            f"{len(unknown)} are not, such as {unknown[0]!r}."
        )
