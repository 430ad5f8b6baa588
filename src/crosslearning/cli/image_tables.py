"""Tables and sentences for the terminal about training on images."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from crosslearning.cli.common import print_fact, print_table
from crosslearning.datasets import ImageData
from crosslearning.evaluation.numbers import points, radius_name, spread
from crosslearning.images.settings import TrainingSettings
from crosslearning.images.splits import PARTS, divide

_FIGURES = ("accuracy.png", "domains.png", "improvement.png", "contact_sheet.png")


def print_counts(settings: TrainingSettings, data: ImageData) -> None:
    """Print the numbers of training, validation and test images by domain."""
    counts = [map(len, parts) for parts in divide(settings, data, settings.seeds[0])]
    rows = zip(data.domains, *([f"{n:,}" for n in part] for part in counts), strict=True)
    print_table((f"Images, divided by seed {settings.seeds[0]}", *PARTS), list(rows))


def print_results(results: dict[str, Any], out: Path) -> None:
    """Print the accuracy at each radius, what to compare it with, the verdict and the files."""
    domains = [domain["domain"] for domain in results["data"]["domains"]]
    typer.echo(f"\n{results['title']}. Accuracy in %, over categories, then domains.")
    print_table(("ε", "validation", "test", *domains, "distance"), _radii(results))
    typer.echo("* marks the chosen ε of a domain: the lowest log loss on validation images.")
    if others := list(_others(results)):
        typer.echo("\nOther ways to train, and what the best ε between 0 and ∞ gains over them")
        print_table(("", "test", "gain"), others)
    typer.echo()
    for sentence in (results["sentence"], *results["notes"]):
        typer.echo(sentence)
    files = ("results.json", *_FIGURES, "models", "report.html")
    written = ", ".join(name for name in files if (out / name).exists())
    print_fact("Written", f"{written} in {out}")


def _radii(results: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Return the accuracy at each radius, with a mark where validation images chose it."""
    chosen = results["chosen"]["epsilons"]
    for point in results["path"]:
        domains = [
            f"{100 * row['test']['mean']:.1f}{' *'[chosen[row['domain']] == point['epsilon']]}"
            for row in point["domains"]
        ]
        yield (
            radius_name(point["epsilon"]),
            *(spread(point[part]).removesuffix(" %") for part in ("validation", "test")),
            *domains,
            f"{point['distance']:.3g}",
        )


def _others(results: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Return the accuracy of baselines, and what the paper reports of Office-Home."""
    for row in results.get("baselines", ()):
        gain = "–" if row["gain"] is None else points(row["gain"], row["standard_error"])
        yield row["method"], spread(row["test"]), gain
    if paper := results.get("reported"):
        for name in ("consensus", "agnostic"):
            yield f"{name}, reported by the paper", f"{100 * paper[name]:.2f} %", "–"
        yield "best in the paper", f"ε = {radius_name(paper['best_epsilon'])}", "–"
