"""The command ``crosslearning fit``: a table in; a model, a verdict and a report out."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crosslearning.cli.progress import spinner, warnings_in_a_line

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["fit"]

_BLOCKS = {"all": "all parameters", "coef": "coefficients", "intercept": "intercepts"}


def fit(
    table: Annotated[
        str,
        typer.Argument(help="CSV, TSV or Parquet file, gzipped or not; - for standard input."),
    ],
    task: Annotated[
        str, typer.Option(help="Column that says which task (group) a row belongs to.")
    ],
    target: Annotated[str, typer.Option(help="Column to predict.")],
    features: Annotated[
        list[str] | None,
        typer.Option(help="Columns to learn from, a,b,c or repeated; all others if not given."),
    ] = None,
    epsilon: Annotated[
        str,
        typer.Option(help="Largest distance of a task to the centre; auto cross-validates."),
    ] = "auto",
    kind: Annotated[
        str, typer.Option(help="What the target is: regression, classification or auto.")
    ] = "auto",
    per_block: Annotated[
        bool | None,
        typer.Option(
            "--per-block/--one-ball",
            help="A radius for coefficients and one for intercepts (the default), or one in all.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for model, results and report; crosslearning-TABLE if not given."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the folds.")] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the results as JSON and nothing else.")
    ] = False,
) -> None:
    """Fit one model per task to a table, and say whether sharing between tasks helps.

    Columns are recognised, gaps filled in and flagged, and the radius is cross-validated.
    """
    from crosslearning import report
    from crosslearning.tables import check_folder, fit_table, read_table

    folder = out or Path(f"crosslearning-{'table' if table == '-' else _stem(table)}")
    try:
        check_folder(folder)
    except ValueError as error:
        raise ValueError(f"{error} Name it with --out.") from error
    radius = _radius(epsilon)
    with spinner(show=not (quiet or as_json)) as say, warnings_in_a_line():
        say(f"Reading {table}")
        frame = read_table(sys.stdin.buffer if table == "-" else table)
        model = fit_table(
            frame,
            task=task,
            target=target,
            features=None if features is None else _split(features, set(frame.columns)),
            epsilon=radius,
            kind=kind,
            per_block=per_block,
            seed=seed,
            command=_command(),
            progress=say,
        )
        say("Writing model and report")
        model.save(folder)
        page = report.write(folder)
    if as_json:
        typer.echo(json.dumps(model.results, indent=2))
    elif not quiet:
        _print(model.results, folder, page)


def _stem(table: str) -> str:
    """Name of a file without its suffixes."""
    return Path(table).name.split(".")[0] or "table"


def _radius(text: str) -> float | str:
    if text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"--epsilon must be a number or auto; got {text!r}") from None


def _split(features: list[str], columns: set[str]) -> list[str]:
    """Separate lists with commas; a column whose name has commas is one."""
    return [
        name
        for item in features
        for name in ([item] if item in columns else map(str.strip, item.split(",")))
    ]


def _command() -> str:
    return shlex.join(["crosslearning", *sys.argv[1:]])


def _print(results: dict[str, Any], folder: Path, page: Path) -> None:
    from rich.console import Console

    console = Console(highlight=False, markup=False, soft_wrap=True)
    sizes = [task["rows"] for task in results["tasks"]]
    console.print(
        f"{results['title']}: {results['target_kind']} ({results['target_rule']}), "
        f"{sum(sizes):,} rows, {len(sizes):,} tasks of {min(sizes):,} to {max(sizes):,} rows, "
        f"{len(results['provenance']['columns'])} columns to learn from"
    )
    for note in results["notes"]:
        console.print(f"  {note}")
    _print_comparison(console, results)
    console.print(results["sentence"], style="bold")
    console.print(
        f"\nReport   {page}\nPredict  crosslearning predict {shlex.quote(str(folder))} TABLE"
    )


def _print_comparison(console: Console, results: dict[str, Any]) -> None:
    from rich.table import Table

    from crosslearning.evaluation.numbers import number
    from crosslearning.evaluation.sentences import NAMES

    shown = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    shown.add_column("")
    for name in (results["score"]["name"], "cross-learned is better by", "tasks helped", "hurt"):
        shown.add_column(name, justify="right")
    for row in results["comparison"]["overall"]:
        better = f"{number(row['gain'], 3)} ± {number(row['standard_error'], 2)}"
        gain = [better, row["helped"], row["hurt"]] if row["method"] != "cross" else []
        cells = [number(row["score"]), *gain]
        shown.add_row(NAMES[row["method"]], *map(str, cells))
    console.print("", shown, sep="\n")
    console.print(f"({results['score']['explanation']})\n")
    for block, choice in results["chosen"].items():
        radius, end = float(choice["epsilon"]), float(choice["epsilon_max"])
        console.print(
            f"Radius   {_BLOCKS[block]}: ε = {number(radius)}, {100 * choice['share']:.3g} % of "
            f"the way from pooled (0) to separate ({number(end)})"
        )
