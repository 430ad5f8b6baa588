"""Images in folders ``domain/category/`` or in rows of Parquet files, and their groups."""

import csv
import io
import json
import os
from collections.abc import Iterator, Sequence, Set
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple
from unicodedata import normalize

from crosslearning.extras import require

if TYPE_CHECKING:
    import pyarrow as pa

_SUFFIXES = {".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"}
_AT_A_TIME = 64  # rows in memory


class ImageFile(NamedTuple):
    """An image file, or a row of a Parquet file; its name is the relative path, composed."""

    path: Path
    name: str
    domain: str
    category: str
    size: int = 0
    modified: int = 0  # in nanoseconds
    row: int | None = None  # of a Parquet file
    group: object = None


def find_images(root: Path) -> list[ImageFile]:
    """List images ``domain/category/*.jpg``, sorted by name, or else the rows of Parquet files."""
    paths = [*filter(is_image, root.glob("[!.]*/[!.]*/*"))]
    if not paths:
        one = root.suffix == ".parquet" and root.is_file()
        if tables := [root] if one else sorted(root.rglob("*.parquet")):
            return _find_rows(root, tables)
        problem = "has no images two levels down. Perhaps its parent or a subfolder is right"
        if not root.is_dir():
            problem = "is not a folder" if root.exists() else "does not exist"
        raise ValueError(
            f"`root` must be a folder domain/category/*.jpg, or a Parquet file; {root} {problem}."
        )
    images = []
    for path in paths:
        inside, status = path.relative_to(root).as_posix(), path.stat()
        name = normalize("NFC", inside)
        domain, category, _ = name.split("/")
        images.append(ImageFile(path, name, domain, category, status.st_size, status.st_mtime_ns))
    return sorted(images, key=lambda image: image.name.split("/"))


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
        for path in filter(is_image, sorted(place.rglob("*"))) if place.is_dir() else [place]:
            above = [normalize("NFC", folder.name) for folder in path.absolute().parents]
            domain = next((name for name in above if name in domains), "")
            files.append(ImageFile(path, path.as_posix(), task or domain, above[0]))
    if not files:
        raise ValueError(f"`images` must contain images; found none in {images}.")
    return files


def is_image(path: Path) -> bool:
    """Tell whether a path is a visible file with the suffix of an image."""
    return path.suffix.lower() in _SUFFIXES and path.name[0] != "." and path.is_file()


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
        groups = {normalize("NFC", row["path"]): row["group"] for row in rows}
    if unknown := sorted(groups.keys() - images):
        raise ValueError(
            f"Every path in {file} must be that of an image, relative to the folder; "
            f"{len(unknown)} are not, such as {unknown[0]!r}."
        )
    return groups


def _find_rows(root: Path, files: Sequence[Path]) -> list[ImageFile]:
    """List the rows of Parquet files with their domain, category and, if there is one, group."""
    require("Reading Parquet files", "pyarrow")
    from pyarrow import ArrowException, parquet

    rows: list[ImageFile] = []
    for path in files:
        try:
            names = parquet.read_schema(path).names
            some = [name for name in ("domain", "label", "category", "group") if name in names]
            table = parquet.read_table(path, columns=some, partitioning=None)
        except (OSError, ArrowException) as error:
            raise ValueError(f"Parquet files must be readable; {path} is not ({error}).") from error
        label = "label" if "label" in names else "category"
        if not {"image", "domain", label} <= set(names):
            raise ValueError(
                "Parquet files of images must have the columns image, domain, and label or "
                f"category; {path} has {', '.join(names)}. Rename its columns."
            )
        groups = table["group"].to_pylist() if "group" in names else [None] * len(table)
        columns = _names(path, table, "domain"), _names(path, table, label), groups
        inside, status = path.name if path == root else path.relative_to(root), path.stat()
        stamp = status.st_size, status.st_mtime_ns
        rows += [
            ImageFile(path, f"{inside}/{row:06}", domain, category, *stamp, row, group)
            for row, (domain, category, group) in enumerate(zip(*columns, strict=True))
        ]
    return rows


def _names(path: Path, table: "pa.Table", column: str) -> list[str]:
    """Values of a column as text; numbers of classes become the names in the file's metadata."""
    values = table[column].to_pylist()
    if None in values:
        raise ValueError(
            f"Every image must have a {column}; row {values.index(None)} of {path} has none. "
            "Remove it or fill it in."
        )
    about = json.loads((table.schema.metadata or {}).get(b"huggingface", b"{}"))
    feature = about.get("info", {}).get("features", {}).get(column, {})
    names = feature.get("names") if isinstance(feature, dict) else None
    if not names or not all(isinstance(value, int) for value in values):
        return [str(value) for value in values]
    if wrong := [value for value in values if not 0 <= value < len(names)]:
        raise ValueError(
            f"The {column} of every image must be the number of one of its {len(names)} names; "
            f"row {values.index(wrong[0])} of {path} has {wrong[0]}. Remove it or correct it."
        )
    return [str(names[value]) for value in values]


def open_images(images: Sequence[ImageFile]) -> Iterator[Path | BinaryIO]:
    """Yield the paths of image files, and the images in rows of Parquet files."""
    for table, some in groupby(images, lambda image: None if image.row is None else image.path):
        if table is None:
            yield from (image.path for image in some)
        else:
            yield from _read_rows(table, {image.row for image in some})


def _read_rows(path: Path, chosen: Set[int | None]) -> Iterator[BinaryIO]:
    """Yield the images in some rows of a Parquet file, in order: bytes, or structs with bytes."""
    from pyarrow import parquet

    row = 0
    with parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(_AT_A_TIME, columns=["image"]):
            for value in batch.column(0).to_pylist():
                if row in chosen:
                    content = value["bytes"] if isinstance(value, dict) else value
                    yield io.BytesIO(content or b"")
                row += 1
