"""Files of a training: ``results.json`` for programs, ``results.csv`` for spreadsheets."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from crosslearning.files import replacing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from crosslearning.images.scores import Sweep

__all__ = ["write_results"]

_COLUMNS = (
    "epsilon",
    "seed",
    "domain",
    "category",
    "validation_correct",
    "validation_images",
    "test_correct",
    "test_images",
    "distance",
    "pull",
)


def write_results(folder: Path, results: dict[str, Any], sweep: Sweep) -> dict[str, Any]:
    """Write both files and return what is in the first; the second has a row per category."""
    results = _plain(results)
    with (
        replacing(folder / "results.csv") as table,
        replacing(folder / "results.json") as summary,
    ):
        with table.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows([_COLUMNS, *_rows(sweep)])
        summary.write_text(json.dumps(results, ensure_ascii=False) + "\n", encoding="utf-8")
    return results


def _plain(value: Any) -> Any:
    """Turn arrays and numbers into what JSON has: "inf" for ∞, null for what is missing."""
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, float):
        return None if np.isnan(value) else "inf" if np.isinf(value) else float(f"{value:.6g}")
    return value


def _rows(sweep: Sweep) -> Iterator[tuple[object, ...]]:
    for run in (run for row in sweep.grid for run in row):
        for d, domain in enumerate(sweep.domains):
            parts = (run.validation[d], run.test[d])
            counts = np.array([counted for t in parts for counted in (np.diag(t), t.sum(1))]).T
            measured = (f"{run.distances[d]:.6g}", f"{run.pulls[d]:.6g}")
            for category, numbers in zip(sweep.categories, counts.tolist(), strict=True):
                yield f"{run.epsilon:g}", run.seed, domain, category, *numbers, *measured
