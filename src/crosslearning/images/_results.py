"""What runs show: the content of ``results.json``."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from crosslearning.archive import to_json
from crosslearning.datasets.images import Indices
from crosslearning.evaluation.comparison import Comparison, Measure, extreme, verdict
from crosslearning.evaluation.numbers import count, radii_by_name, radius_name
from crosslearning.evaluation.numbers import spread as written
from crosslearning.evaluation.scores import Scores, mean, reliability
from crosslearning.images.settings import TrainingSettings
from crosslearning.images.splits import PARTS
from crosslearning.wording import listed

VERSION = 2
_NAMED = 5  # images that a note lists
_EXCESS = 1.01  # a realised distance above this multiple of the radius is due to rounding
_ENDS = {"pooled": 0.0, "separate": math.inf}
_ACCURACY = Measure("test accuracy", percent=True)
_WINNERS = {0.0: "Pooling", math.inf: "Separate training"}
_ROUNDING = 1e-9  # relative difference of losses that counts as none


@dataclass(frozen=True, eq=False)
class Runs:
    """Runs at several radii (first axis) and with several seeds (second axis), by domain (third).

    `images` counts the images of each of the `PARTS` for the first seed. `validation` and `test`
    are confusion matrices (true category, prediction), `losses` log losses on validation images.
    """

    domains: Sequence[str]
    categories: Sequence[str]
    epsilons: Sequence[float]
    seeds: Sequence[int]
    images: NDArray[np.int64]
    validation: NDArray[np.int64]
    test: NDArray[np.int64]
    losses: NDArray[np.float64]
    distances: NDArray[np.float64]
    pulls: NDArray[np.float64]
    epsilon_by: str

    @classmethod
    def of(cls, table: pd.DataFrame, categories: Sequence[str], epsilon_by: str) -> "Runs":
        """Convert tables of `crosslearning.nn.sweep`, with a row for each run and domain."""
        table = table.sort_values(["epsilon", "seed"], kind="stable")
        axes = [table[name].unique().tolist() for name in ("epsilon", "seed", "task")]
        epsilons, seeds, domains = axes
        n = len(categories)

        def grid(values: Any) -> NDArray[Any]:
            return np.reshape(values, [*map(len, axes), *np.shape(values)[1:]])

        def counts(name: str) -> NDArray[np.int64]:
            cells = ([n * truth + guess for truth, guess, *_ in images] for images in table[name])
            return grid([np.bincount(some, minlength=n * n).reshape(n, n) for some in cells])

        return cls(
            domains,
            categories,
            epsilons,
            seeds,
            images=grid(table["images"].to_list())[0, 0],
            **{part: counts(part) for part in PARTS[1:]},
            losses=grid([np.mean([image[-1] for image in one]) for one in table["validation"]]),
            distances=grid(table["distance"]),
            pulls=grid(table["pull"]),
            epsilon_by=epsilon_by,
        )


def by_category(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Accuracy of each category; NaN without images."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.diagonal(counts, axis1=-2, axis2=-1) / counts.sum(-1))


def by_domain(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Mean accuracy over the categories of each domain that have images, as in the paper."""
    return mean(by_category(counts), 1.0, axis=-1)


def assemble(settings: TrainingSettings, runs: Runs, data: dict[str, Any]) -> dict[str, Any]:
    """Compute the content of ``results.json``; `data` describes the images."""
    paired = compared(runs)
    at_choice = _at(runs.test, _lowest(runs.losses, runs.epsilon_by)).sum(0)
    remark = paired and extreme(paired, 1, "domain", _ACCURACY, "test image")
    images = [
        {"domain": domain, "images": sum(counts), **dict(zip(PARTS, counts, strict=True))}
        for domain, counts in zip(runs.domains, runs.images.tolist(), strict=True)
    ]
    return {
        "kind": "images",
        "version": VERSION,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "title": f"{data['name']}: {settings.model_name} at {settings.image_size} px",
        "sentence": statement(runs),
        "remarks": [to_json(remark)] if remark else [],
        "notes": _notes(runs, data.get("skipped", ())),
        "config": settings.applied(),
        "data": data | {"categories": runs.categories, "domains": images},
        "path": [_point(runs, (k,), _spread) for k in range(len(runs.epsilons))],
        "runs": [
            _point(runs, place, float) | {"seed": runs.seeds[place[1]]}
            for place in np.ndindex(runs.distances.shape[:2])
        ],
        "chosen": chosen(runs),
        "comparison": comparison(runs),
        "categories": _categories(runs),
        "mistakes": common_mistakes(at_choice, runs.domains, runs.categories),
    }


def calibration(table: pd.DataFrame, epsilons: Mapping[str, float]) -> Any:
    """Whether the probabilities of test images hold at the domains' radii, for the first seed."""
    at_choice = table["epsilon"] == table["task"].map(epsilons)
    rows = table[at_choice & (table["seed"] == table["seed"].min())]
    truth, predicted, probabilities, _ = np.concatenate(rows["test"].map(np.array).to_list()).T
    return to_json(reliability(probabilities, truth == predicted))


def chosen(runs: Runs) -> dict[str, Any]:
    """Choose radii by validation, of all and between the extremes; name the best on test."""
    accuracies, middle = by_domain(runs.test), _places(runs).get("cross")
    places = _lowest(runs.losses, runs.epsilon_by)
    hindsight = _lowest(-accuracies, runs.epsilon_by)
    return {
        "epsilon": runs.epsilons[_lowest(runs.losses, "all")[0]],  # for new domains
        "epsilons": _radii(runs, places),
        "test": _spread(_at(accuracies, places).mean(-1)),
        "between": None if middle is None else _radii(runs, middle),
        "best_on_test": _radii(runs, hindsight),
        "best_test": _spread(_at(accuracies, hindsight).mean(-1)),
    }


def compared(
    runs: Runs, others: Mapping[str, NDArray[np.float64]] | None = None
) -> Comparison | None:
    """Compare the best radii between the extremes with these, or with others, paired by seed."""
    accuracies = {name: _at(by_domain(runs.test), at) for name, at in _places(runs).items()}
    cross = accuracies.pop("cross", None)
    others = accuracies if others is None else others
    if cross is None or not others:
        return None
    values = np.stack([*others.values(), cross])
    scores = Scores([*others, "cross"], values, np.ones(values.shape[1:]))
    return Comparison.of(scores, runs.domains, runs.test[0, 0].sum((-2, -1)), by_run=True)


def comparison(runs: Runs) -> list[dict[str, Any]]:
    """Test accuracy of pooled, of cross-learned (between the extremes) and of separate networks."""
    test, paired, places = by_domain(runs.test), compared(runs), _places(runs)
    methods = [method for method in ("pooled", "cross", "separate") if method in places]
    return [
        _row(name, _at(test, places[name]), paired) | {"epsilons": _radii(runs, places[name])}
        for name in methods
    ]


def baselines(runs: Runs, others: Mapping[str, Runs]) -> list[dict[str, Any]]:
    """Test accuracy of each baseline, with the spring that is best on the validation images."""
    springs = [name for name in others if name.startswith("spring")]
    kept = {name: one for name, one in others.items() if name not in springs}
    if springs:
        kept["spring"] = others[min(springs, key=lambda name: others[name].losses.mean())]
    accuracies = {name: by_domain(one.test)[0] for name, one in kept.items()}
    paired = compared(runs, accuracies)
    return [_row(name, values, paired) for name, values in accuracies.items()]


def _row(
    method: str, accuracies: NDArray[np.float64], comparison: Comparison | None
) -> dict[str, Any]:
    """Accuracy of a method, and what cross-learning gains over it."""
    by_seed = accuracies.mean(-1)
    row = {"method": method, "test": _spread(by_seed), "by_seed": by_seed}
    row |= dict.fromkeys(("gain", "standard_error", "p_value"))
    if comparison is not None and method != "cross":
        paired = comparison.paired(method)
        row["gain"] = paired.gain
        if paired.n > 1:
            row |= {"standard_error": paired.standard_error, "p_value": paired.p_value}
    return row


def statement(runs: Runs) -> str:
    """State the radii that validation chooses, and what cross-learning gains on test images."""
    choice, paired = chosen(runs), compared(runs)
    radii, test = choice["epsilons"], written(choice["test"])
    if len(runs.epsilons) == 1:
        return f"At ε = {radii_by_name(radii)} the test accuracy is {test}."
    if len(set(radii.values())) == 1:
        winner = _winner(runs, min(radii.values()))
        parts = [f"{winner} (ε = {radii_by_name(radii)}). Its test accuracy is {test}."]
    else:
        best = f"On the validation images the best ε is {radii_by_name(radii)}."
        parts = [f"{best} With these radii the test accuracy is {test}."]
    if paired:
        if choice["between"] != radii:
            between = radii_by_name(choice["between"])
            parts.append(f"Of the radii between 0 and ∞, the best is {between}.")
        parts.append(verdict(paired, _ACCURACY))
    if choice["best_on_test"] != radii:
        hindsight = written(choice["best_test"])
        parts.append(f"In hindsight, the best on the test images would reach {hindsight}.")
    return " ".join(parts)


def _winner(runs: Runs, epsilon: float) -> str:
    """Name the method that chose one radius for all domains, unless there is a tie."""
    losses = runs.losses.mean((1, 2))
    if np.isclose(losses, losses.min(), rtol=_ROUNDING).sum() > 1:
        return "On the validation images several radii are equally good; the smallest is taken"
    return f"{_WINNERS.get(epsilon, 'Cross-learning')} is best on the validation images"


def _lowest(losses: NDArray[np.float64], epsilon_by: str) -> Indices:
    """Position of each domain's radius with the lowest mean over seeds; the first of equal ones."""
    means = losses.mean(1)
    if epsilon_by == "all":
        means = np.broadcast_to(means.mean(1, keepdims=True), means.shape)
    return np.asarray(np.argmax(np.isclose(means, means.min(0), rtol=_ROUNDING, atol=0), axis=0))


def _places(runs: Runs) -> dict[str, Indices]:
    """Positions of the domains' radii for each available method, cross-learning last."""
    radii = np.array(runs.epsilons)
    places = {
        name: np.full(len(runs.domains), np.argmax(radii == radius))
        for name, radius in _ENDS.items()
        if radius in radii
    }
    between = np.flatnonzero((radii > 0) & (radii < math.inf))
    if len(between):
        places["cross"] = between[_lowest(runs.losses[between], runs.epsilon_by)]
    return places


def _at(values: NDArray[Any], places: Indices) -> NDArray[Any]:
    """Take values by radius, seed and domain at the radius of each domain."""
    return values[places, :, np.arange(len(places))].swapaxes(0, 1)


def _radii(runs: Runs, places: Indices) -> dict[str, float]:
    """Name the radius of each domain."""
    return {domain: runs.epsilons[k] for domain, k in zip(runs.domains, places, strict=True)}


def _spread(values: NDArray[np.float64]) -> dict[str, Any]:
    """Mean and standard deviation over seeds, the latter unknown for one seed."""
    std = float(values.std(ddof=1)) if values.size > 1 else None
    return {"mean": float(values.mean()), "std": std}


def common_mistakes(
    counts: NDArray[np.int64], domains: Sequence[str], categories: Sequence[str], most: int = 10
) -> list[dict[str, Any]]:
    """Most frequent confusions of each domain, with the number of images of the true category."""
    rows = []
    for domain, table in zip(domains, counts, strict=True):
        wrong = table - np.diag(np.diag(table))
        order = np.argsort(-wrong, axis=None, kind="stable")[:most]
        for truth, guess in zip(*np.unravel_index(order, wrong.shape), strict=True):
            if number := int(wrong[truth, guess]):
                names = {"truth": categories[truth], "predicted": categories[guess]}
                of = int(table[truth].sum())
                rows.append({"domain": domain, **names, "count": number, "of": of})
    return rows


def _notes(runs: Runs, skipped: Sequence[str]) -> list[str]:
    notes, distances = [], runs.distances.max((1, 2))
    pairs = zip(runs.epsilons, distances, strict=True)
    if below := [radius_name(e) for e, distance in pairs if e > 0 and distance > _EXCESS * e]:
        text = "too small for float32; distances are those of rounding."
        notes.append(f"ε = {', '.join(below)}: {text}")
    if skipped:
        some = listed(skipped, _NAMED)
        notes.append(f"Skipped {count(len(skipped), 'image')} that cannot be read: {some}")
    return notes


def _point(
    runs: Runs, place: tuple[int, ...], summary: Callable[[NDArray[np.float64]], Any]
) -> dict[str, Any]:
    """Accuracies and distances at a radius, over its seeds or for one of them."""
    accuracies = {part: by_domain(getattr(runs, part)[place]) for part in PARTS[1:]}
    return {
        "epsilon": runs.epsilons[place[0]],
        **{part: summary(values.mean(-1)) for part, values in accuracies.items()},
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
