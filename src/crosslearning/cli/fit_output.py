"""What the command ``crosslearning fit`` prints."""

import shlex
from pathlib import Path

import typer

from crosslearning.cli.common import print_fact, print_table
from crosslearning.evaluation.numbers import interval, number, percents
from crosslearning.tables import TableModel
from crosslearning.tables.findings import Findings, ModelScore

_TIE = 1e-6  # of the score
_COEFFICIENTS = 10  # that are printed


def print_fit(fitted: TableModel, folder: Path, page: Path) -> None:
    """Print findings and files."""
    findings = fitted.findings
    assert findings is not None  # unlike those of a stored model
    size, columns = findings.size, len(findings.provenance.columns)
    sizes = f"{size.smallest:,} to {size.largest:,} rows"
    if size.smallest == size.largest:
        sizes = f"{size.smallest:,} rows each"
    typer.echo(
        f"{findings.title}: {findings.target_kind} ({findings.target_rule}), "
        f"{size.rows:,} rows, {size.tasks:,} tasks of {sizes}, "
        f"{columns} {'column' if columns == 1 else 'columns'} to learn from"
    )
    for note in findings.notes:
        typer.echo(f"  {note}")
    _print_models(findings)
    _print_center(findings)
    _print_differences(findings)
    typer.secho(findings.sentence, bold=True)
    if findings.beyond_linear:
        typer.echo(findings.beyond_linear)
    model = findings.chosen_model
    labels, weights = zip(*((part.label, part.weight) for part in model.parts), strict=True)
    parts = ", ".join(map(" ".join, zip(labels, percents(weights), strict=True)))
    coefficients = f"{folder / 'coefficients.csv'}, of the model: {findings.described_model}"
    if fitted.coefficients is None:
        coefficients = "not written: there are more than a million"
    typer.echo()
    print_fact("Model", f"{model.label}: {parts}" if len(model.parts) > 1 else model.label, 12)
    print_fact("Coefficients", coefficients, 12)
    print_fact("Report", page, 12)
    print_fact("Predict", f"crosslearning predict {shlex.quote(str(folder))} TABLE", 12)


def _print_models(findings: Findings) -> None:
    rows = [(row.label, number(row.score), _difference(row)) for row in findings.models]
    typer.echo()
    print_table(("", findings.score.name, "worse by"), rows)
    typer.echo(f"({findings.score.explanation})\n")
    if held_out := findings.holdout:
        score = f"{findings.score.name} {number(held_out.score)}"
        typer.echo(f"On the {held_out.rows:,} rows of the held-out table: {score}\n")


def _difference(row: ModelScore) -> str:
    """Compare a model with the chosen one."""
    gap = row.difference
    if not row.kept:
        return "for comparison only"
    if row.chosen or gap is None or row.score is None:
        return "chosen" if row.chosen else "–"
    if abs(gap) <= _TIE * abs(row.score):
        return "as good"
    return f"{number(gap, 3)} ± {number(row.difference_error, 2)}"


def _print_differences(findings: Findings) -> None:
    """Print how much tasks differ, in the columns where they differ most."""
    levels, within = findings.differences.levels, ""
    for level in levels:
        who = f"Tasks{within}" if level is levels[-1] else f"Groups by {level.name}{within}"
        parts = []
        for row in level.shown[:4]:
            ends = "" if row.low is None else f" ({interval(row.low, row.high)})"
            parts.append(f"{row.what} {number(row.sd, 3)}{ends}")
        about = f"differ (standard deviations, in {findings.differences.unit})"
        if parts:
            typer.echo(f"{who} {about}: {', '.join(parts)}")
        elif len(levels) > 1:
            typer.echo(f"{who} do not differ")
        within = f" within groups by {level.name}"


def _print_center(findings: Findings) -> None:
    """Print the coefficients of the centre that are farthest from 0 in standard errors."""
    if not findings.center:
        return
    center = findings.center
    rows = [row for row in center if row.feature != "(intercept)" or row.class_ is not None]
    rows.sort(key=lambda row: -abs(row.estimate or 0.0) / (row.std_error or 1.0))
    omitted = rows[_COEFFICIENTS:]
    titles = "coefficients of\nthe centre", "\nestimate", "standard\nerror", "95 %\ninterval"
    cells = []
    for row in center:
        if row not in omitted:
            name = row.feature if row.class_ is None else f"{row.feature}, {row.class_}"
            mean = number(row.estimate), number(row.std_error, 2), interval(row.low, row.high)
            cells.append((name, *mean, *(number(sd, 3) for sd, *_ in row.between)))
    levels = [f"sd by\n{level.name}" for level in findings.differences.levels]
    print_table([*titles, *levels], cells)
    if omitted:
        typer.echo(f"({len(omitted):,} that are closer to 0 are in the report)")
    typer.echo()
