"""What the command ``crosslearning fit`` prints."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from crosslearning.tables import TableModel
    from crosslearning.tables.findings import Findings, ModelScore

_TIE = 1e-6  # of the score
_COEFFICIENTS = 10  # that are printed


def print_fit(fitted: TableModel, folder: Path, page: Path) -> None:
    """Print findings and files."""
    from rich.console import Console

    findings = fitted.findings
    assert findings is not None  # unlike those of a stored model
    console = Console(highlight=False, markup=False, soft_wrap=True)
    size, columns = findings.size, len(findings.provenance.columns)
    sizes = f"{size.smallest:,} to {size.largest:,} rows"
    if size.smallest == size.largest:
        sizes = f"{size.smallest:,} rows each"
    console.print(
        f"{findings.title}: {findings.target_kind} ({findings.target_rule}), "
        f"{size.rows:,} rows, {size.tasks:,} tasks of {sizes}, "
        f"{columns} {'column' if columns == 1 else 'columns'} to learn from"
    )
    for note in findings.notes:
        console.print(f"  {note}")
    _print_models(console, findings)
    _print_center(console, findings)
    _print_differences(console, findings)
    console.print(findings.sentence, style="bold")
    if findings.beyond_linear:
        console.print(findings.beyond_linear)
    model = findings.chosen_model
    parts = ", ".join(f"{part.label} {part.weight:.0%}" for part in model.parts)
    named = f"{model.label}: {parts}" if len(model.parts) > 1 else model.label
    listed = f"{folder / 'coefficients.csv'}, of the model: {findings.described_model}"
    if fitted.coefficients is None:
        listed = "not written: there are more than a million"
    console.print(
        f"\nModel         {named}\nCoefficients  {listed}\nReport        {page}\n"
        f"Predict       crosslearning predict {shlex.quote(str(folder))} TABLE"
    )


def _print_models(console: Console, findings: Findings) -> None:
    from rich.table import Table

    from crosslearning.evaluation.numbers import number

    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column("", overflow="fold")
    for title in (findings.score.name, "worse by"):
        table.add_column(title, justify="right", no_wrap=True)
    for row in findings.models:
        table.add_row(row.label, number(row.score), _difference(row))
    console.print("", table, sep="\n")
    console.print(f"({findings.score.explanation})\n")
    if held_out := findings.holdout:
        score = f"{findings.score.name} {number(held_out.score)}"
        console.print(f"On the {held_out.rows:,} rows of the held-out table: {score}\n")


def _difference(row: ModelScore) -> str:
    """Compare a model with the chosen one."""
    from crosslearning.evaluation.numbers import number

    gap = row.difference
    if row.chosen or gap is None or row.score is None:
        return "chosen" if row.chosen else "–"
    if abs(gap) <= _TIE * abs(row.score):
        return "as good"
    return f"{number(gap, 3)} ± {number(row.difference_error, 2)}"


def _print_differences(console: Console, findings: Findings) -> None:
    """Print how much tasks differ, in the columns where they differ most."""
    from crosslearning.evaluation.numbers import interval, number

    levels, within = findings.differences.levels, ""
    for level in levels:
        who = f"Tasks{within}" if level is levels[-1] else f"Groups by {level.name}{within}"
        parts = []
        for row in level.shown[:4]:
            ends = "" if row.low is None else f" ({interval(row.low, row.high)})"
            parts.append(f"{row.what} {number(row.sd, 3)}{ends}")
        about = f"differ (standard deviations, in {findings.differences.unit})"
        if parts:
            console.print(f"{who} {about}: {', '.join(parts)}")
        elif len(levels) > 1:
            console.print(f"{who} do not differ")
        within = f" within groups by {level.name}"


def _print_center(console: Console, findings: Findings) -> None:
    """Print the coefficients of the centre that are farthest from 0 in standard errors."""
    from rich.table import Table

    from crosslearning.evaluation.numbers import interval, number

    if findings.center is None:
        return
    rows = [row for row in findings.center.coefficients if row.feature != "(intercept)"]
    rows.sort(key=lambda row: -abs(row.estimate or 0.0) / (row.std_error or 1.0))
    some = rows[:_COEFFICIENTS]
    shown = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    shown.add_column("coefficients of\nthe centre", min_width=16, overflow="fold")
    between = [f"sd by\n{level}" for level in findings.center.levels]
    for title in ("\nestimate", "standard\nerror", "95 %\ninterval", *between):
        shown.add_column(title, justify="right", no_wrap=True)
    for row in findings.center.coefficients:
        if row in some or row.feature == "(intercept)":
            name = row.feature if row.class_ is None else f"{row.feature}, {row.class_}"
            ends = interval(row.low, row.high)
            sds = [number(sd, 3) for sd, *_ in row.between]
            shown.add_row(name, number(row.estimate), number(row.std_error, 2), ends, *sds)
    console.print(shown)
    if len(some) < len(rows):
        console.print(f"({len(rows) - len(some):,} that are closer to 0 are in the report)")
    console.print()
