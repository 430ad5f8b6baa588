"""Options and helpers shared by several commands."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Format(StrEnum):
    """Formats of figures."""

    PNG = "png"
    SVG = "svg"
    PDF = "pdf"


Formats = Annotated[
    list[Format] | None,
    typer.Option(
        "--format",
        help="Also write the charts, as png, svg or pdf, to the folder figures beside the report; "
        "may be repeated.",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the results as JSON and nothing else.")]


def show_help_if_alone(context: typer.Context) -> None:
    """Show the help of a group if no command is given."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit


@contextmanager
def writing(folder: Path, option: str = " with --out") -> Iterator[None]:
    """Turn an error in writing into one that names the folder."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise OSError(
            f"Cannot write to {folder}: {reason}. Choose another folder{option}."
        ) from error
