"""What the command ``crosslearning fit`` prints."""

from __future__ import annotations

import shlex
from textwrap import fill
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from crosslearning.tables import TableModel

_TIE = 1e-6  # of the score
_NARROW = 13  # letters of a heading


def print_fit(fitted: TableModel, folder: Path, page: Path) -> None:
    """Print findings and files."""
    from rich.console import Console

    results = fitted.results
    console = Console(highlight=False, markup=False, soft_wrap=True)
    size = results["size"]
    low, high = size["smallest"], size["largest"]
    sizes = f"{low:,} rows each" if low == high else f"{low:,} to {high:,} rows"
    columns = len(results["provenance"]["columns"])
    console.print(
        f"{results['title']}: {results['target_kind']} ({results['target_rule']}), "
        f"{size['rows']:,} rows, {size['tasks']:,} tasks of {sizes}, "
        f"{columns} column{'s' * (columns != 1)} to learn from"
    )
    for note in results["notes"]:
        console.print(f"  {note}")
    _print_models(console, results)
    _print_spread(console, results)
    console.print(results["sentence"], style="bold")
    if results["beyond_linear"]:
        console.print(results["beyond_linear"])
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

    rows, held_out = results["models"], results.get("holdout", {}).get("scores", {})
    judged, name = "folds" in rows[0], results["score"]["name"]
    signs = any((row["difference"] or 0.0) < 0 for row in rows)  # some are better than the chosen
    more = ["in the\nfolds"] if judged else ["held out"] * bool(held_out)
    shown = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    shown.add_column("", overflow="fold")
    scored = fill(f"held-out {name}", _NARROW) if judged else name
    for title in (scored, "difference" if signs else "worse by", *more):
        shown.add_column(title, justify="right", no_wrap=True)
    for row in rows:
        own = row["folds"] if judged else held_out.get(row["name"])
        cells = [number(row["score"]), _difference(row, signs)]
        cells += ["" if own is None else number(own)] * len(more)
        shown.add_row(row["label"], *cells)
    console.print("", shown, sep="\n")
    console.print(f"({results['score']['explanation']})\n")


def _difference(row: dict[str, Any], signs: bool) -> str:
    """Compare a model with the chosen one."""
    from crosslearning.evaluation.numbers import number

    gap = row["difference"]
    if row["chosen"] or gap is None:
        return "chosen" if row["chosen"] else "–"
    if abs(gap) <= _TIE * abs(row["score"]):
        return "as good"
    word = ("worse: " if gap > 0 else "better: ") * signs
    return f"{word}{number(abs(gap), 3)} ± {number(row['difference_error'], 2)}"


def _print_spread(console: Console, results: dict[str, Any]) -> None:
    """Print how much tasks differ, in the columns where they differ most."""
    from crosslearning.evaluation.numbers import number

    spread = results["spread"]
    if not spread or not spread["shown"]:
        return
    parts = []
    for row in spread["shown"][:4]:
        ends = f" ({number(row['low'], 3)} to {number(row['high'], 3)})"
        parts.append(f"{row['what']} {number(row['sd'], 3)}{ends * (row['low'] is not None)}")
    about = f"standard deviations, in {spread['unit']}"
    console.print(f"Tasks differ ({about}): {', '.join(parts)}")
