"""The command ``crosslearning fit``: read a table, fit it, save the model, write the report."""

import json
import shlex
import sys
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crosslearning.cli import common
from crosslearning.cli.common import AsJson, Formats, Quiet

if TYPE_CHECKING:
    from crosslearning.tables import TableModel


Out = Annotated[
    Path | None,
    typer.Option(
        "--out", "-o", help="Folder for model, results and report; crosslearning-TABLE by default."
    ),
]
Config = Annotated[
    Path | None,
    typer.Option(
        help="TOML file of options that are not given here, such as task = 'school'.",
        callback=common.options_from_file,
        is_eager=True,
    ),
]


@common.with_options(starmap(common.fit_parameter, common.FIT_OPTIONS.items()), after=1)
def fit(
    table: Annotated[
        str,
        typer.Argument(
            help="CSV, TSV, Parquet or Excel file, gzipped or not; a folder, or a pattern such as "
            "'part-*.parquet'; - for standard input."
        ),
    ],
    holdout: Annotated[
        str | None, typer.Option(help="Another table on which to score the chosen model.")
    ] = None,
    out: Out = None,
    config: Config = None,  # noqa: ARG001 - its callback does the work
    scheduler: Annotated[
        str | None,
        typer.Option(help="Address of a Dask scheduler whose workers can read the files."),
    ] = None,
    formats: Formats = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
    **options: Any,
) -> None:
    """Fit one model per task to a table, and say whether sharing between tasks helps.

    Column types are recognised, and missing values imputed and flagged. How much tasks differ is
    learned from the table, and the best of several models on held-out rows is kept.
    """
    from crosslearning import report
    from crosslearning.cli.fit_output import print_fit
    from crosslearning.tables import check_folder

    folder = out or Path(f"crosslearning-{'table' if table == '-' else _stem(table)}")
    check_folder(folder)
    shown = not (quiet or as_json)
    with common.spinner(show=shown) as say, common.warnings_in_a_line(show=not quiet):
        say(f"Reading {table}")
        model = _fitted(table, holdout, scheduler, options, say)
        say("Writing model and report")
        with common.writing(folder):
            model.save(folder)
        page = report.write(folder, formats=formats or ())
    if as_json:
        typer.echo(json.dumps(model.results, indent=2))
    elif not quiet:
        print_fit(model, folder, page)


def _stem(table: str) -> str:
    """Return the name of a file or folder without suffixes."""
    path = Path(table)
    name = path.resolve().parent.name if "*" in path.name or "?" in path.name else path.name
    return name.split(".")[0] or "table"


def _fitted(
    table: str, holdout: str | None, scheduler: str | None, values: dict[str, Any], say: Any
) -> "TableModel":
    """Fit a table in memory, or in chunks if it is large or on the workers of a scheduler."""
    from crosslearning import tables
    from crosslearning.frames.reading import is_large

    options = common.fit_options(values)
    options |= {"command": shlex.join(["crosslearning", *sys.argv[1:]]), "progress": say}
    if scheduler is not None or (table != "-" and is_large(table)):
        return tables.fit_files(table, scheduler=scheduler, held_out=holdout, **options)
    text = options.get("categories", ())
    frame = tables.read_table(sys.stdin.buffer if table == "-" else table, text=text)
    held_out: Any = holdout
    if holdout is not None and not is_large(holdout):
        held_out = tables.read_table(holdout, text=text)
    return tables.fit_table(frame, held_out=held_out, **options)
