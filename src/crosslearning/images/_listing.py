"""The image files of a folder ``domain/category/``, and files that name some of them."""

from __future__ import annotations

import csv
import os
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING
from unicodedata import normalize

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence, Set

__all__ = ["ImageFile", "digest", "find_images", "read_groups", "read_names"]

_SUFFIXES = {".bmp", ".gif", ".jpe", ".jpeg", ".jpg", ".pgm"}
_SUFFIXES |= {".png", ".ppm", ".tif", ".tiff", ".webp"}


@dataclass(frozen=True)
class ImageFile:
    """An image file; its name is the path inside the folder, with slashes.

    Names are in Unicode's composed form, so that those that look the same are the same; ``size``
    is in bytes, and ``modified``, the time of the last change, in nanoseconds.
    """

    path: Path
    name: str
    domain: str
    category: str
    size: int
    modified: int


def find_images(root: Path) -> tuple[list[ImageFile], int]:
    """List the images ``domain/category/*.jpg``, sorted by name, and count everything else."""
    if not root.is_dir():
        raise ValueError(f"`root` must be a folder domain/category/*.jpg; {root} is not a folder.")
    domains, ignored = _folders(root)
    images = []
    for domain in domains:
        categories, others = _folders(_below_images(domain))
        ignored += others
        for category in categories:
            for path in category.iterdir():
                if path.suffix.lower() in _SUFFIXES and _visible(path) and path.is_file():
                    images.append(_image_file(path, root, domain, category))
                else:
                    ignored += 1
    if not images:
        raise ValueError(
            f"`root` must be a folder domain/category/*.jpg; {root} has no images two folders "
            f"below it, and {ignored} other files or folders. Is it a folder above or below?"
        )
    return sorted(images, key=lambda image: image.name.split("/")), ignored


def _folders(parent: Path) -> tuple[list[Path], int]:
    """Visible folders below one, and the number of other entries."""
    entries = list(parent.iterdir())
    folders = [path for path in entries if _visible(path) and path.is_dir()]
    return folders, len(entries) - len(folders)


def _visible(path: Path) -> bool:
    return not path.name.startswith(".")


def _below_images(domain: Path) -> Path:
    """Pass over the one folder ``images`` that Office-31 has between domain and category."""
    inner = domain / "images"
    alone = inner.is_dir() and len(_folders(domain)[0]) == 1 and bool(_folders(inner)[0])
    return inner if alone else domain


def _image_file(path: Path, root: Path, domain: Path, category: Path) -> ImageFile:
    status, inside = path.stat(), path.relative_to(root).as_posix()
    name, of, kind = map(_composed, (inside, domain.name, category.name))
    return ImageFile(path, name, of, kind, status.st_size, status.st_mtime_ns)


def _composed(name: str) -> str:
    return normalize("NFC", name)


def digest(parts: Iterable[object]) -> str:
    """SHA-256 of the texts of some values."""
    result = sha256()
    for part in parts:
        # surrogateescape, because a name may hold bytes that are not text
        result.update(str(part).encode("utf-8", "surrogateescape") + b"\0")
    return result.hexdigest()


def read_names(lists: Path | str | Sequence[Path | str], known: Set[str]) -> set[str]:
    """Read text files that name an image, and maybe its label, in each line."""
    files = [lists] if isinstance(lists, str | os.PathLike) else lists
    found: set[str] = set()
    for file in map(Path, files):
        lines = file.read_text(encoding="utf-8-sig").splitlines()
        names = [_without_label(line.strip(), known) for line in lines if line.strip()]
        _refuse_unknown(names, known, file)
        found.update(names)
    return found


def read_groups(file: Path, known: Set[str]) -> dict[str, str]:
    """Read a CSV file with the columns ``path`` and ``group``: the group of each image."""
    with file.open(encoding="utf-8-sig", newline="") as stream:
        rows = csv.DictReader(stream)
        columns = rows.fieldnames or ()
        if not {"path", "group"} <= set(columns):
            raise ValueError(
                f"A group file must have the columns path and group; {file} has "
                f"{', '.join(columns) or 'none'}."
            )
        groups = {_composed(row["path"]): row["group"] for row in rows}
    _refuse_unknown(groups, known, file)
    return groups


def _without_label(line: str, known: Set[str]) -> str:
    name = _composed(line)
    head, *label = name.rsplit(maxsplit=1)
    return head if name not in known and label and label[0].isdigit() else name


def _refuse_unknown(names: Iterable[str], known: Set[str], file: Path) -> None:
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(
            f"Every path in {file} must be that of an image, relative to the folder of images; "
            f"{len(unknown)} are not, such as {unknown[0]!r}."
        )
