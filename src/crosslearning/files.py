"""Files and folders that are written completely or not at all."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

AnyPath = str | os.PathLike[str]


def default_cache_dir() -> Path:
    """Return ``crosslearning`` in ``XDG_CACHE_HOME`` or in ``~/.cache``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "crosslearning"


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to; rename it to ``path`` unless an exception is raised."""
    if path.is_dir():
        raise ValueError(f"A file is written, but {path} is a folder. Name a file in it.")
    temporary = _temporary(path)
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder to fill; rename it to ``path`` unless an exception is raised."""
    if path.exists() and not (path.is_dir() and next(path.iterdir(), None) is None):
        raise ValueError(f"The folder must be new or empty; {path} is not. Choose another.")
    temporary = _temporary(path)
    temporary.mkdir(parents=True)
    try:
        yield temporary
        if path.exists():
            path.rmdir()
        temporary.rename(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_json(path: Path, content: Any, indent: int | None = None) -> None:
    """Write what JSON has to a file."""
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(content, indent=indent) + "\n", encoding="utf-8")


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.tmp")
