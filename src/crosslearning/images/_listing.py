"""Images in folders ``domain/category/`` or in rows of Parquet files, and lists of some of them."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple
from unicodedata import normalize

from crosslearning.extras import require

if TYPE_CHECKING:
    import pyarrow as pa

_SUFFIXES = {".bmp", ".gif", ".jpe", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff"}
_SUFFIXES |= {".webp"}
_DOMAIN, _LABELS, _GROUP = "domain", ("label", "category"), "group"
_AT_A_TIME = 64  # rows in memory


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


def parquet_files(root: Path) -> list[Path]:
    """Return a Parquet file, or all in a folder that has no images ``domain/category/*.jpg``."""
    if root.is_dir():
        folders_of_images = any(map(is_image, root.glob("*/*/*")))
        return [] if folders_of_images else sorted(root.rglob("*.parquet"))
    return [root] if root.is_file() and root.suffix == ".parquet" else []


def find_rows(root: Path, files: Sequence[Path]) -> list[ImageFile]:
    """List the rows of Parquet files with their domain, category and, if there is one, group."""
    require("Reading Parquet files", "pyarrow")
    from pyarrow import parquet

    rows = []
    for path in files:
        name = path.name if path == root else path.relative_to(root).as_posix()
        status = path.stat()
        with _readable(path):
            schema = parquet.read_schema(path)
            columns = [_DOMAIN, _columns(path, schema)[0]]
            columns += [_GROUP] if _GROUP in schema.names else []
            table = parquet.read_table(path, columns=columns, partitioning=None)
        values = [_names(path, table, column) for column in columns]
        for row, (domain, category, *group) in enumerate(zip(*values, strict=True)):
            rows.append(
                ImageFile(
                    path=path,
                    name=f"{name}/{row:06}",
                    domain=domain,
                    category=category,
                    size=status.st_size,
                    modified=status.st_mtime_ns,
                    row=row,
                    group=group[0] if group else None,
                )
            )
    return rows


def read_rows(path: Path, rows: Sequence[int]) -> Iterator[Path | BinaryIO]:
    """Yield the images in some rows of a Parquet file, in order."""
    from pyarrow import parquet

    chosen, row = set(rows), 0
    with _readable(path), parquet.ParquetFile(path) as file:
        _, images = _columns(path, file.schema_arrow)
        for batch in file.iter_batches(_AT_A_TIME, columns=[images]):
            for value in batch.column(0).to_pylist():
                if row in chosen:
                    yield _opened(path, value)
                row += 1


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Name the file in errors about its content."""
    from pyarrow import ArrowException

    try:
        yield
    except (OSError, ArrowException) as error:
        raise ValueError(f"Parquet files must be readable; {path} is not ({error}).") from error


def _opened(path: Path, value: Any) -> Path | BinaryIO:
    """Open bytes, or a struct of bytes and the path of a file beside the table."""
    content = value["bytes"] if isinstance(value, dict) else value
    if content is None and isinstance(value, dict) and value.get("path"):
        return path.parent / str(value["path"])
    return io.BytesIO(content or b"")


def _columns(path: Path, schema: pa.Schema) -> tuple[str, str]:
    """Name the columns of labels and of images: bytes or structs with bytes, rather ``image``."""
    import pyarrow as pa

    def holds_bytes(kind: pa.DataType) -> bool:
        if pa.types.is_struct(kind):
            return bool(kind.get_field_index("bytes") >= 0)
        return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))

    images = [field.name for field in schema if holds_bytes(field.type)]
    labels = [name for name in _LABELS if name in schema.names]
    if not images or not labels or _DOMAIN not in schema.names:
        columns = ", ".join(f"{field.name} ({field.type})" for field in schema)
        raise ValueError(
            "Parquet files of images must have a column of image files as bytes, a column domain "
            f"and a column label or category; {path} has {columns}. Rename its columns."
        )
    return labels[0], "image" if "image" in images else images[0]


def _names(path: Path, table: pa.Table, column: str) -> list[str]:
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
    for row, value in enumerate(values):
        if not 0 <= value < len(names):
            raise ValueError(
                f"The {column} of every image must be the number of one of its {len(names)} names; "
                f"row {row} of {path} has {value}. Remove it or correct it."
            )
    return [str(names[value]) for value in values]
