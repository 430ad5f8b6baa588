"""What the command ``crosslearning fit`` prints."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from crosslearning.tables import TableModel


def print_fit(fitted: TableModel, folder: Path, page: Path) -> None:
    """Print findings and files."""
    from rich.console import Console

    results = fitted.results
    console = Console(highlight=False, markup=False, soft_wrap=True)
    size = results["size"]
    low, high = size["smallest"], size["largest"]
    sizes = f"{low:,} rows each" if low == high else f"{low:,} to {high:,} rows"
    console.print(
        f"{results['title']}: {results['target_kind']} ({results['target_rule']}), "
        f"{size['rows']:,} rows, {size['tasks']:,} tasks of {sizes}, "
        f"{len(results['provenance']['columns'])} columns to learn from"
    )
    for note in results["notes"]:
        console.print(f"  {note}{' (--time)' * ('looks like a time' in note)}")
    _print_models(console, results)
    _print_spread(console, results)
    console.print(results["sentence"], style="bold")
    model = results["chosen_model"]
    parts = ", ".join(f"{part['label']} {part['weight']:.0%}" for part in model["parts"])
    named = f"{model['label']}: {parts}" if len(model["parts"]) > 1 else model["label"]
    listed = f"{folder / 'coefficients.csv'}, of the model: {results['described_model']}"
    if fitted.coefficients is None:
        listed = "not written: there are more than a million"
    console.print(
        f"\nModel         {named}\nCoefficients  {listed}\nReport        {page}\n"
        f"Predict       crosslearning predict {shlex.quote(str(folder))} TABLE"
    )


def _print_models(console: Console, results: dict[str, Any]) -> None:
    from rich.table import Table

    from crosslearning.evaluation.numbers import number

    held_out = results.get("holdout", {}).get("scores", {})
    shown = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    shown.add_column("")
    for name in (results["score"]["name"], "worse by", *["held out"] * bool(held_out)):
        shown.add_column(name, justify="right")
    for row in results["models"]:
        worse = f"{number(row['difference'], 3)} ± {number(row['difference_error'], 2)}"
        cells = [number(row["score"]), "chosen" if row["chosen"] else worse]
        own = held_out.get(row["name"])
        cells += ["" if own is None else number(own)] * bool(held_out)
        shown.add_row(row["label"], *cells)
    console.print("", shown, sep="\n")
    console.print(f"({results['score']['explanation']})\n")


def _print_spread(console: Console, results: dict[str, Any]) -> None:
    """Print how much tasks differ, in the columns where they differ most."""
    from crosslearning.evaluation.numbers import number

    spread = results["spread"]
    rows = sorted(spread["features"], key=lambda row: -row["sd"])[:3]
    parts = [
        f"{name} {number(row['sd'], 3)} ({number(row['low'], 3)} to {number(row['high'], 3)})"
        for name, row in (("level", spread["level"]), *((row["feature"], row) for row in rows))
        if row["sd"] > 0
    ]
    if parts:
        console.print(f"Tasks differ (standard deviations): {', '.join(parts)}")
