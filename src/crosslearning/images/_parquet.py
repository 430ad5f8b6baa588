"""Images in the rows of Parquet files, as data hubs offer them."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from crosslearning.extras import require
from crosslearning.images._listing import ImageFile, is_image

if TYPE_CHECKING:
    import pyarrow as pa

_DOMAIN, _LABELS, _GROUP = "domain", ("label", "category"), "group"
_AT_A_TIME = 64  # rows in memory


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
            _image_column(path, schema)
            columns = [_DOMAIN, _label_column(path, schema)]
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
        column = _image_column(path, file.schema_arrow)
        for batch in file.iter_batches(_AT_A_TIME, columns=[column]):
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


def _image_column(path: Path, schema: pa.Schema) -> str:
    """Name of the first column of bytes, or of structs with bytes; rather one named ``image``."""
    import pyarrow as pa

    def holds_bytes(kind: pa.DataType) -> bool:
        if pa.types.is_struct(kind):
            return bool(kind.get_field_index("bytes") >= 0)
        return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))

    names = [field.name for field in schema if holds_bytes(field.type)]
    if not names or _DOMAIN not in schema.names:
        raise _missing(path, schema)
    return "image" if "image" in names else names[0]


def _label_column(path: Path, schema: pa.Schema) -> str:
    for name in _LABELS:
        if name in schema.names:
            return name
    raise _missing(path, schema)


def _missing(path: Path, schema: pa.Schema) -> ValueError:
    columns = ", ".join(f"{field.name} ({field.type})" for field in schema)
    return ValueError(
        "Parquet files of images must have a column of image files as bytes, a column domain and a "
        f"column label or category; {path} has {columns}. Rename its columns."
    )


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
