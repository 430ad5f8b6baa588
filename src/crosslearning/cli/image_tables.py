"""Tables and sentences for the terminal about training on images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from crosslearning.evaluation.numbers import points, radius_name, spread
from crosslearning.images.settings import TrainingSettings
from crosslearning.images.splits import PARTS, divide

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from crosslearning.datasets import ImageData


def print_counts(settings: TrainingSettings, data: ImageData) -> None:
    """Print the numbers of training, validation and test images by domain."""
    seed, images = settings.seeds[0], data.counts()
    rows = [
        (domain, images[domain].sum(), (images[domain] > 0).sum(), *map(len, parts))
        for domain, *parts in zip(data.domains, *divide(settings, data, seed), strict=True)
    ]
    columns = "domain", "images", "categories", *PARTS
    text = [[domain, *(f"{count:,}" for count in counts)] for domain, *counts in rows]
    Console(markup=False).print(_table(f"Images, divided by seed {seed}", columns, text), "")


def print_results(results: dict[str, Any], out: Path) -> None:
    """Print a table of radii, the paper's numbers next to ours, and the verdict."""
    console = Console(markup=False)  # names may contain brackets
    tables = [_radii]
    if "baselines" in results:
        tables += [_baselines]
    if "reported" in results:
        tables += [_beside_the_paper]
    for table in tables:
        console.print(table(results), "")
    for sentence in (results["sentence"], *results["notes"]):
        console.print(sentence, highlight=False)
    files = ["results.json", "accuracy.png", "domains.png", "improvement.png"]
    files += ["contact_sheet.png", "models", "report.html"]
    written = ", ".join(name for name in files if (out / name).exists())
    # Text takes brackets in a path literally; soft wrapping leaves paths in one piece.
    console.print(Text.assemble(("Written: ", "bold"), f"{written} in {out}"), soft_wrap=True)


def _table(title: str, columns: Sequence[str], rows: Iterable[Iterable[str]]) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, show_edge=False)
    table.collapse_padding = True
    for number, name in enumerate(columns):
        table.add_column(name, justify="right" if number else "left", no_wrap=number < 3)
    for row in rows:
        table.add_row(*row)
    return table


def _radii(results: dict[str, Any]) -> Table:
    """Accuracy at each radius; the one chosen on validation images is bold."""
    domains = [domain["domain"] for domain in results["data"]["domains"]]
    title = f"{results['title']}. Accuracy in %, over categories, then domains."
    table = _table(title, ("ε", "validation", "test", *domains, "distance"), ())
    for point in results["path"]:
        table.add_row(
            radius_name(float(point["epsilon"])),
            *(spread(point[part]).removesuffix(" %") for part in ("validation", "test")),
            *(f"{100 * domain['test']['mean']:.1f}" for domain in point["domains"]),
            f"{point['distance']:.3g}",
            style="bold" if point["epsilon"] == results["chosen"]["epsilon"] else "",
        )
    return table


def _baselines(results: dict[str, Any]) -> Table:
    rows = [
        (
            row["method"],
            spread(row["test"]),
            "–" if row["gain"] is None else points(row["gain"], row["standard_error"]),
        )
        for row in results["baselines"]
    ]
    title = "Baselines: test accuracy, and what the best ε between 0 and ∞ gains over them"
    return _table(title, ("", "test", "gain"), rows)


def _beside_the_paper(results: dict[str, Any]) -> Table:
    paper, chosen = results["reported"], results["chosen"]
    ours = {row["method"]: spread(row["test"]) for row in results["comparison"]}
    rows = [
        (f"{name} ({method})", ours.get(method, "–"), f"{100 * paper[name]:.2f} %")
        for method, name in (("pooled", "consensus"), ("separate", "agnostic"))
    ]
    epsilon, hindsight = (radius_name(float(chosen[k])) for k in ("epsilon", "best_on_test"))
    rows.append((f"ε = {epsilon}, by validation", spread(chosen["test"]), "–"))
    rows.append(("best ε on the test images", hindsight, radius_name(paper["best_epsilon"])))
    title = "Test accuracy, and what the paper reports for Office-Home"
    return _table(title, ("", "measured here", "reported by the paper"), rows)
