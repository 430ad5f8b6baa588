"""The commands ``crosslearning data ...``: the packaged data."""

import json
from pathlib import Path
from typing import Annotated

import typer

from crosslearning.cli.common import AsJson, Quiet, one_of, show_help_if_alone, writing

app = typer.Typer()


@app.callback(invoke_without_command=True, epilog="Example: crosslearning data list")
def data(context: typer.Context) -> None:
    """List or export the packaged data sets."""
    show_help_if_alone(context)


@app.command("list", epilog="Example: crosslearning data list --json")
def list_(as_json: AsJson = False) -> None:
    """List the data sets with their rows or images, tasks and licence."""
    from crosslearning.datasets.export import LOADERS, describe

    data_sets = [describe(name) for name in LOADERS]
    if as_json:
        typer.echo(json.dumps(data_sets, indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("Name", "Rows", "Tasks", "Licence", box=None)
    for row in data_sets:
        tasks = f"{row['tasks']} ({row['task']})"
        table.add_row(row["name"], f"{row['rows']:,}", tasks, row["licence"])
    Console().print(table, highlight=False)


@app.command(
    epilog="Example: crosslearning data export pictures32 pictures, "
    "crosslearning data export hsb82 pupils --format parquet"
)
def export(
    name: Annotated[
        str,
        typer.Argument(
            help="hsb82, ames or pictures32.", autocompletion=one_of("hsb82", "ames", "pictures32")
        ),
    ],
    folder: Annotated[Path, typer.Argument(help="New folder for the files and their notices.")],
    file_format: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="csv or parquet for a table, png or jpeg for pictures.",
            autocompletion=one_of("csv", "parquet", "png", "jpeg"),
            show_default=False,
        ),
    ] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Write a data set to a new folder: a table as one file, pictures as domain/category/*.png.

    The file groups.csv next to the pictures keeps the same drawing on one side of a split, and
    states source and licence of each picture.
    """
    from crosslearning.datasets.export import export as write

    with writing(folder, option=""):
        path = write(name, folder, file_format)
    if as_json:
        typer.echo(json.dumps({"name": name, "path": str(path)}))
    elif not quiet:
        typer.echo(f"Wrote {path}; origin and licence: {folder / 'NOTICES.md'}")
