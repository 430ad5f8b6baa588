"""The results of a sweep: everything a report, a table or a figure needs."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from crosslearning.evaluation import sentences
from crosslearning.evaluation.numbers import radius_name
from crosslearning.images.choice import chosen, compared, comparison
from crosslearning.images.confusion import common_pairs, worst_categories
from crosslearning.images.parts import PARTS
from crosslearning.images.scores import (
    by_category,
    by_domain,
    macro,
    over_images,
    spread,
)
from crosslearning.images.statement import statement

if TYPE_CHECKING:
    from crosslearning.evaluation import Comparison
    from crosslearning.images.record import Record
    from crosslearning.images.scores import Sweep
    from crosslearning.images.settings import TrainingSettings

__all__ = ["assemble"]

_VERSION = 1


def assemble(settings: TrainingSettings, sweep: Sweep, data: dict[str, Any]) -> dict[str, Any]:
    """Compute all there is to say about a sweep.

    Parameters
    ----------
    settings : TrainingSettings
        Its settings.
    sweep : Sweep
        Its runs.
    data : dict
        Name, fingerprint and number of the images.

    Returns
    -------
    dict
        What ``results.json`` holds, before infinities are spelled out.
    """
    choice, found = chosen(sweep), compared(sweep)
    at_choice = sweep.test[sweep.radii.index(choice["epsilon"])].sum(0)
    return {
        "kind": "images",
        "version": _VERSION,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "title": f"{data['name']}: {settings.model_name} at {settings.image_size} px",
        "sentence": statement(sweep.radii, choice, found),
        "remarks": _most(found),
        "notes": _notes(sweep),
        "config": asdict(settings),
        "data": data | {"categories": sweep.categories, "domains": _images(sweep)},
        "path": [_radius(sweep, k) for k in range(len(sweep.radii))],
        "runs": [_run(sweep, record) for row in sweep.grid for record in row],
        "chosen": choice,
        "comparison": comparison(sweep),
        "categories": _categories(sweep),
        "confusion": {
            "epsilon": choice["epsilon"],
            "pairs": common_pairs(at_choice, sweep.domains, sweep.categories),
            "worst": worst_categories(at_choice, sweep.categories),
        },
    }


def _most(found: Comparison | None) -> list[dict[str, str]]:
    """Say which domain gains most."""
    said = sentences.extremes(found, "domain", "test accuracy", "test image") if found else []
    return [remark for remark in said if "gains" in remark["lead"]]


def _notes(sweep: Sweep) -> list[str]:
    unresolved = [row[0].epsilon for row in sweep.grid if any(run.unresolved for run in row)]
    if not unresolved:
        return []
    radii = ", ".join(map(radius_name, unresolved))
    return [f"ε = {radii}: too small for float32; distances are those of rounding."]


def _images(sweep: Sweep) -> list[dict[str, Any]]:
    """Images of each domain and of its parts, as the first seed splits them."""
    return [
        {"domain": domain, "images": sum(counts), **dict(zip(PARTS, counts, strict=True))}
        for domain, counts in zip(sweep.domains, sweep.grid[0][0].images.tolist(), strict=True)
    ]


def _radius(sweep: Sweep, k: int) -> dict[str, Any]:
    """Accuracies and distances at one radius, over its seeds."""
    validation, test, runs = sweep.validation[k], sweep.test[k], sweep.grid[k]
    distances, pulls = (np.array([getattr(r, name) for r in runs]) for name in _MEASURED)
    per_domain = by_domain(validation), by_domain(test), over_images(test)
    return {
        "epsilon": sweep.radii[k],
        "validation": spread(macro(validation)),
        "validation_images": spread(over_images(validation.sum(1))),
        "test": spread(macro(test)),
        "test_images": spread(over_images(test.sum(1))),
        "distance": distances.max(1).mean(),
        "domains": [
            {
                "domain": domain,
                **{n: spread(v[:, d]) for n, v in zip(_ACCURACIES, per_domain, strict=True)},
                "distance": distances[:, d].mean(),
                "pull": pulls[:, d].mean(),
            }
            for d, domain in enumerate(sweep.domains)
        ],
    }


def _run(sweep: Sweep, run: Record) -> dict[str, Any]:
    columns = {
        "domain": sweep.domains,
        "validation": by_domain(run.validation),
        "test": by_domain(run.test),
        "test_images": over_images(run.test),
        "distance": run.distances,
        "pull": run.pulls,
    }
    return {
        "epsilon": run.epsilon,
        "seed": run.seed,
        "validation": macro(run.validation),
        "validation_images": over_images(run.validation.sum(0)),
        "test": macro(run.test),
        "test_images": over_images(run.test.sum(0)),
        "loss": run.loss,
        "seconds": run.seconds,
        "unresolved": run.unresolved,
        "domains": [
            dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)
        ],
    }


_MEASURED = ("distances", "pulls")
_ACCURACIES = ("validation", "test", "test_images")


def _categories(sweep: Sweep) -> list[dict[str, Any]]:
    """Test accuracy of each category in each domain, over all seeds, one for each radius."""
    counts = sweep.test.sum(1)
    accuracy, images = by_category(counts), counts[0].sum(-1)
    return [
        {
            "domain": domain,
            "category": category,
            "images": int(images[d, c]),
            "accuracy": accuracy[:, d, c],
        }
        for d, domain in enumerate(sweep.domains)
        for c, category in enumerate(sweep.categories)
    ]
