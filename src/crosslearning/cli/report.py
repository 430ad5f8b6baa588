"""The command ``crosslearning report``: a page from existing results."""

import json
from pathlib import Path
from typing import Annotated

import typer

from crosslearning.cli.common import AsJson, Formats, Quiet


def report(
    folder: Annotated[Path, typer.Argument(help="Folder of results, or of folders of results.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Page to write; report.html in the folder by default."),
    ] = None,
    formats: Formats = None,
    show: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Write a report on results as one HTML page that works offline.

    The folder's own results come first, then those of its subfolders by name.
    """
    from crosslearning.report import write

    try:
        page = write(folder, out=out, formats=formats or ())
    except OSError as error:
        raise OSError(
            f"Cannot write the report: {error}. Choose another file with --out."
        ) from error
    if as_json:
        typer.echo(json.dumps({"report": str(page)}))
    elif not quiet:
        typer.echo(f"Report  {page}")
    if show:
        typer.launch(page.resolve().as_uri())
