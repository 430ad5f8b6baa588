"""What runs show: ``results.json`` for the report, and ``results.csv`` for spreadsheets."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosslearning.archive import to_json
from crosslearning.evaluation.comparison import Comparison, Measure, extreme, verdict
from crosslearning.evaluation.numbers import count, radius_name
from crosslearning.evaluation.numbers import spread as written
from crosslearning.evaluation.scores import Scores, best
from crosslearning.files import replacing, write_json
from crosslearning.images._runs import Runs, by_category, by_domain, macro, over_images
from crosslearning.images.settings import TrainingSettings
from crosslearning.images.splits import PARTS
from crosslearning.wording import listed

_VERSION = 1
_NAMED = 5  # images that a note lists
_ENDS = {"pooled": 0.0, "separate": math.inf}
_ACCURACY = Measure("test accuracy", percent=True)
_WINNERS = {0.0: "Pooling", math.inf: "Separate training"}


def assemble(settings: TrainingSettings, runs: Runs, data: dict[str, Any]) -> dict[str, Any]:
    """Compute the content of ``results.json``; `data` describes the images."""
    choice, paired = chosen(runs), compared(runs)
    at_choice = runs.test[runs.epsilons.index(choice["epsilon"])].sum(0)
    remark = paired and extreme(paired, 1, "domain", _ACCURACY, "test image")
    images = [
        {"domain": domain, "images": sum(counts), **dict(zip(PARTS, counts, strict=True))}
        for domain, counts in zip(runs.domains, runs.images.tolist(), strict=True)
    ]
    return {
        "kind": "images",
        "version": _VERSION,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "title": f"{data['name']}: {settings.model_name} at {settings.image_size} px",
        "sentence": statement(runs),
        "remarks": [to_json(remark)] if remark else [],
        "notes": _notes(runs, data.get("skipped", ())),
        "config": settings.applied(),
        "data": data | {"categories": runs.categories, "domains": images},
        "path": [_point(runs, (k,), _spread) for k in range(len(runs.epsilons))],
        "runs": [
            _point(runs, place, float)
            | {"seed": runs.seeds[place[1]], "loss": runs.losses[place]}
            | {"seconds": runs.seconds[place], "unresolved": runs.unresolved[place]}
            for place in np.ndindex(runs.seconds.shape)
        ],
        "chosen": choice,
        "comparison": comparison(runs),
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


def chosen(runs: Runs) -> dict[str, Any]:
    """Choose a radius by validation, of all and between the extremes; name the best on test."""
    validation, test = _scores(runs, "validation"), _scores(runs, "test")
    by_validation, on_test, middle = best(validation), best(test), _places(runs).get("cross")
    return {
        "epsilon": runs.epsilons[by_validation],
        "test": _spread(test.by_split[by_validation]),
        "between": None if middle is None else runs.epsilons[middle],
        "best_on_test": runs.epsilons[on_test],
        "best_test": _spread(test.by_split[on_test]),
    }


def compared(runs: Runs) -> Comparison | None:
    """Compare the best radius between the extremes with these, paired by seed."""
    at, test = _places(runs), by_domain(runs.test)
    if "cross" not in at or len(at) < 2:
        return None
    return _pairs(runs, {method: test[k] for method, k in at.items()})


def _pairs(runs: Runs, accuracies: Mapping[str, NDArray[np.float64]]) -> Comparison:
    """Compare accuracies by seed and domain of several methods, the last with the others."""
    values = np.stack([*accuracies.values()])
    scores = Scores(list(accuracies), values, np.ones(values.shape[1:]))
    return Comparison.of(scores, runs.domains, runs.test[0, 0].sum((-2, -1)), by_run=True)


def _gain(comparison: Comparison | None, method: str) -> dict[str, Any]:
    """Return what the subject of a comparison gains over a method, unknown over itself."""
    if comparison is None or method == comparison.subject:
        return dict.fromkeys(("gain", "standard_error", "p_value"))
    paired = comparison.paired(method)
    error, p_value = (paired.standard_error, paired.p_value) if paired.n > 1 else (None, None)
    return {"gain": paired.gain, "standard_error": error, "p_value": p_value}


def comparison(runs: Runs) -> list[dict[str, Any]]:
    """Test accuracy of pooled, of cross-learned (between the extremes) and of separate networks."""
    test, images = _scores(runs, "test").by_split, over_images(runs.test.sum(2))
    paired, where = compared(runs), _places(runs)
    return [
        {
            "method": method,
            "epsilon": runs.epsilons[where[method]],
            "test": _spread(test[where[method]]),
            "test_images": _spread(images[where[method]]),
            **_gain(paired, method),
        }
        for method in ("pooled", "cross", "separate")
        if method in where
    ]


def judged(runs: Runs, others: Mapping[str, Runs]) -> list[dict[str, Any]]:
    """Test accuracy of each baseline, with the spring that is best on the validation images.

    The gain is that of the best radius between 0 and infinity by validation, paired by seed.
    """
    springs = [name for name in others if name.startswith("spring")]
    kept = {name: one for name, one in others.items() if name not in springs}
    if springs:
        kept["spring"] = others[max(springs, key=lambda one: macro(others[one].validation).mean())]
    accuracies = {name: by_domain(one.test)[0] for name, one in kept.items()}
    cross, paired = _places(runs).get("cross"), None
    if cross is not None:
        paired = _pairs(runs, accuracies | {"cross": by_domain(runs.test)[cross]})
    return [
        {
            "method": name,
            "test": _spread(values.mean(-1)),
            "by_seed": values.mean(-1),
            **_gain(paired, name),
        }
        for name, values in accuracies.items()
    ]


def statement(runs: Runs) -> str:
    """State the radius that validation chooses, and what cross-learning gains on test images."""
    choice, paired = chosen(runs), compared(runs)
    epsilon, test = choice["epsilon"], written(choice["test"])
    if len(runs.epsilons) == 1:
        return f"At ε = {radius_name(epsilon)} the test accuracy is {test}."
    parts = [
        f"{_winner(runs, epsilon)} (ε = {radius_name(epsilon)}).",
        f"Its test accuracy is {test}.",
    ]
    if paired:
        between = runs.epsilons[_places(runs)["cross"]]
        if between != epsilon:
            parts.append(f"Of the radii between 0 and ∞, ε = {radius_name(between)} is best.")
        parts.append(verdict(paired, _ACCURACY))
    if choice["best_on_test"] != epsilon:
        place, hindsight = radius_name(choice["best_on_test"]), written(choice["best_test"])
        parts.append(f"The best on the test images, in hindsight, is ε = {place}: {hindsight}.")
    return " ".join(parts)


def _winner(runs: Runs, epsilon: float) -> str:
    """Name the best method, unless there is a tie."""
    means = _scores(runs, "validation").means
    if np.isclose(means, means.max(), rtol=1e-9).sum() > 1:
        return "On the validation images several radii are equally good; the smallest is taken"
    return f"{_WINNERS.get(epsilon, 'Cross-learning')} is best on the validation images"


def _scores(runs: Runs, part: str) -> Scores:
    """Accuracies by radius, seed and domain."""
    accuracies = by_domain(getattr(runs, part))
    return Scores(runs.epsilons, accuracies, np.ones(accuracies.shape[1:]))


def _places(runs: Runs) -> dict[str, int]:
    """Position of the radius of each available method, cross-learning last."""
    radii = list(runs.epsilons)
    places = {name: radii.index(radius) for name, radius in _ENDS.items() if radius in radii}
    if between := [k for k, radius in enumerate(radii) if 0 < radius < math.inf]:
        places["cross"] = best(_scores(runs, "validation"), between)
    return places


def _spread(values: NDArray[np.float64]) -> dict[str, Any]:
    """Mean and standard deviation over seeds, the latter unknown for one seed."""
    std = float(values.std(ddof=1)) if values.size > 1 else None
    return {"mean": float(values.mean()), "std": std}


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
        some = listed(skipped, _NAMED)
        notes.append(f"Skipped {count(len(skipped), 'image')} that cannot be read: {some}")
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
