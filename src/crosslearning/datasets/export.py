"""Export of the packaged data, with their notices."""

from importlib.resources import files
from pathlib import Path
from typing import Any

from crosslearning.datasets.decoding import import_pillow
from crosslearning.datasets.images import Pictures32, load_pictures32
from crosslearning.datasets.tables import load_ames, load_hsb82
from crosslearning.extras import require
from crosslearning.files import new_folder

LOADERS: dict[str, Any] = {"hsb82": load_hsb82, "ames": load_ames, "pictures32": load_pictures32}
_NOTICES = ("LICENSE-Apache-2.0.txt", "LICENSE-OFL-1.1.txt", "pictures32_sets.csv", "NOTICES.md")


def describe(name: str) -> dict[str, Any]:
    """Describe a packaged data set: number of rows or images, tasks, and licence."""
    data = LOADERS[name]()
    if isinstance(data, Pictures32):
        rows, tasks, task = len(data), len(data.domains), "domain"
    else:
        rows, tasks, task = len(data.frame), data.tasks.nunique(), str(data.tasks.name)
    licence = data.description.partition("Licence: ")[2].rstrip(".")
    return {"name": name, "rows": rows, "tasks": tasks, "task": task, "licence": licence}


def export(name: str, folder: Path, file_format: str | None = None) -> Path:
    """Write packaged data and their notices to a new or empty folder.

    A table is written as ``csv`` (the default) or ``parquet``, pictures as ``png`` (the default)
    or ``jpeg``. Returns the path of the table or the folder of the pictures.
    """
    if name not in LOADERS:
        raise ValueError(f"The packaged data sets are {', '.join(LOADERS)}; got {name!r}.")
    formats = ("png", "jpeg") if name == "pictures32" else ("csv", "parquet")
    if folder.suffix.removeprefix(".") in formats:
        raise ValueError(
            f"Data and notices are written to a folder; got {str(folder)!r}, a file name. "
            f"Use {str(folder.with_suffix(''))!r} instead."
        )
    chosen = file_format or formats[0]
    if chosen not in formats:
        raise ValueError(f"The format of {name} must be {' or '.join(formats)}; got {chosen!r}.")
    data = LOADERS[name]()
    with new_folder(folder) as temporary:
        if isinstance(data, Pictures32):
            _write_pictures(data, temporary, chosen)
        elif chosen == "parquet":
            require("Writing Parquet files", "pyarrow")
            data.frame.to_parquet(temporary / f"{name}.parquet")
        else:
            data.frame.to_csv(temporary / f"{name}.csv", index=False)
        packaged = files("crosslearning.datasets") / "data"
        for notice in _NOTICES if name == "pictures32" else _NOTICES[-1:]:
            (temporary / notice).write_bytes((packaged / notice).read_bytes())
    return folder if name == "pictures32" else folder / f"{name}.{chosen}"


def _write_pictures(pictures: Pictures32, folder: Path, file_format: str) -> None:
    """Write pictures as ``domain/category/number.png``, and their table to ``groups.csv``."""
    import pandas as pd

    pillow, rows = import_pillow(), []
    for row, image in zip(pictures.table, pictures.pixels(), strict=True):
        name = Path(row["path"]).with_suffix(f".{file_format}")
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        pillow.fromarray(image).save(folder / name, quality=95)  # of JPEG; PNG ignores it
        # Zero-padded numbers keep the order, and so the split, of the packaged pictures.
        rows.append({**row, "path": name.as_posix(), "group": row["group"].zfill(4)})
    pd.DataFrame(rows).to_csv(folder / "groups.csv", index=False)
