"""``results.json`` for the report, and ``results.csv`` for spreadsheets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning.evaluation.numbers import count, radius_name
from crosslearning.evaluation.records import to_json
from crosslearning.files import replacing, write_json
from crosslearning.images import _findings
from crosslearning.images._runs import Runs, by_category, by_domain, macro, over_images
from crosslearning.images.settings import TrainingSettings
from crosslearning.images.splits import PARTS

_VERSION = 1
_NAMED = 5  # images that a note lists


def assemble(settings: TrainingSettings, runs: Runs, data: dict[str, Any]) -> dict[str, Any]:
    """Compute the content of ``results.json``; `data` describes the images."""
    choice = _findings.chosen(runs)
    at_choice = runs.test[runs.epsilons.index(choice["epsilon"])].sum(0)
    images = [
        {"domain": domain, "images": sum(counts), **dict(zip(PARTS, counts, strict=True))}
        for domain, counts in zip(runs.domains, runs.images.tolist(), strict=True)
    ]
    return {
        "kind": "images",
        "version": _VERSION,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "title": f"{data['name']}: {settings.model_name} at {settings.image_size} px",
        "sentence": _findings.statement(runs),
        "remarks": _findings.who_gains_most(runs),
        "notes": _notes(runs, data.get("skipped", ())),
        "config": settings.applied(),
        "data": data | {"categories": runs.categories, "domains": images},
        "path": [_point(runs, (k,), _findings.spread) for k in range(len(runs.epsilons))],
        "runs": [
            _point(runs, place, float)
            | {"seed": runs.seeds[place[1]], "loss": runs.losses[place]}
            | {"seconds": runs.seconds[place], "unresolved": runs.unresolved[place]}
            for place in np.ndindex(runs.seconds.shape)
        ],
        "chosen": choice,
        "comparison": _findings.comparison(runs),
        "categories": _categories(runs),
        "confusion": {
            "epsilon": choice["epsilon"],
            "pairs": common_pairs(at_choice, runs.domains, runs.categories),
            "worst": worst_categories(at_choice, runs.categories),
        },
    }


def write(folder: Path, results: dict[str, Any], runs: Runs) -> dict[str, Any]:
    """Write both files, and return the content of the first."""
    content: dict[str, Any] = to_json(results, digits=6, infinity=True)
    with replacing(folder / "results.csv") as table:
        runs.table().to_csv(table, index=False, float_format="%.6g")
        write_json(folder / "results.json", content)
    return content


def common_pairs(
    counts: NDArray[np.int64], domains: Sequence[str], categories: Sequence[str], most: int = 10
) -> list[dict[str, Any]]:
    """Most frequent confusions of each domain, with the number of images of the true category."""
    rows = []
    for domain, table in zip(domains, counts, strict=True):
        wrong = table - np.diag(np.diag(table))
        for k in np.argsort(-wrong, axis=None, kind="stable")[:most]:
            truth, predicted = np.unravel_index(k, wrong.shape)
            if number := int(wrong[truth, predicted]):
                names = {"truth": categories[truth], "predicted": categories[predicted]}
                of = int(table[truth].sum())
                rows.append({"domain": domain, **names, "count": number, "of": of})
    return rows


def worst_categories(
    counts: NDArray[np.int64], categories: Sequence[str], most: int = 12
) -> dict[str, Any]:
    """Confusions among the least recognised categories, over all domains."""
    table = counts.sum(0)
    images = table.sum(1)
    order = np.argsort(by_category(table), kind="stable")
    worst = order[images[order] > 0][:most]
    return {
        "categories": [categories[k] for k in worst],
        "counts": table[np.ix_(worst, worst)].tolist(),
        "totals": images[worst].tolist(),
    }


def _notes(runs: Runs, skipped: Sequence[str]) -> list[str]:
    notes = []
    if below := [e for e, of in zip(runs.epsilons, runs.unresolved, strict=True) if of.any()]:
        text = "too small for float32; distances are those of rounding."
        notes.append(f"ε = {', '.join(map(radius_name, below))}: {text}")
    if skipped:
        more = ", …" if len(skipped) > _NAMED else ""
        listed = ", ".join(skipped[:_NAMED]) + more
        notes.append(f"Skipped {count(len(skipped), 'image')} that cannot be read: {listed}")
    return notes


def _point(
    runs: Runs, place: tuple[int, ...], summary: Callable[[NDArray[np.float64]], Any]
) -> dict[str, Any]:
    """Accuracies and distances at a radius, over its seeds or for one of them."""
    counts = {"validation": runs.validation[place], "test": runs.test[place]}
    accuracies = {part: by_domain(tables) for part, tables in counts.items()}
    accuracies["test_images"] = over_images(counts["test"])
    return {
        "epsilon": runs.epsilons[place[0]],
        **{part: summary(macro(tables)) for part, tables in counts.items()},
        **{f"{p}_images": summary(over_images(tables.sum(-3))) for p, tables in counts.items()},
        "distance": runs.distances[place].max(-1).mean(),
        "domains": [
            {
                "domain": domain,
                **{name: summary(values[..., d]) for name, values in accuracies.items()},
                "distance": runs.distances[place][..., d].mean(),
                "pull": runs.pulls[place][..., d].mean(),
            }
            for d, domain in enumerate(runs.domains)
        ],
    }


def _categories(runs: Runs) -> list[dict[str, Any]]:
    """Test accuracies at all radii, over all seeds, of each category in each domain."""
    counts = runs.test.sum(1)
    accuracy, n = by_category(counts), counts[0].sum(-1)
    return [
        {"domain": domain, "category": name, "images": n[d, c], "accuracy": accuracy[:, d, c]}
        for d, domain in enumerate(runs.domains)
        for c, name in enumerate(runs.categories)
    ]
