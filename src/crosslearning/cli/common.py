"""Options, completion, progress and warnings of several commands."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.progress import Progress

Command = Callable[..., None]


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


def with_options(
    options: Iterable[inspect.Parameter], after: int | None = None
) -> Callable[[Command], Command]:
    """Give a command more options, which it takes as keywords, `after` so many of its own."""

    def decorate(command: Command) -> Command:
        hints = inspect.get_annotations(command, eval_str=True)
        parameters = [
            one.replace(kind=one.KEYWORD_ONLY, annotation=hints[one.name])
            for one in inspect.signature(command).parameters.values()
            if one.kind is not one.VAR_KEYWORD
        ]
        place = len(parameters) if after is None else after
        parameters[place:place] = [one.replace(kind=one.KEYWORD_ONLY) for one in options]
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {one.name: one.annotation for one in parameters}
        return command

    return decorate


def one_of(*values: str) -> Callable[[str], list[str]]:
    """Offer values of a list."""
    return lambda incomplete: [value for value in values if value.startswith(incomplete)]


@contextmanager
def spinner(*, show: bool) -> Iterator[Callable[..., object]]:
    """Show the current step, its progress and the elapsed time on a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    text = TextColumn("{task.description}", markup=False)
    columns = SpinnerColumn(), BarColumn(20), TimeElapsedColumn(), text
    disable = not (show and console.is_terminal)
    with Progress(*columns, console=console, transient=True, disable=disable) as progress:
        step = progress.add_task("", total=None)

        def say(text: str, share: float | None = None) -> None:
            advance = {} if share is None else {"total": 1.0, "completed": share}
            progress.update(step, description=text, **advance)  # type: ignore[arg-type]

        yield say


def progress_bars(*, show: bool) -> Progress:
    """Progress bars on standard error that vanish when done."""
    from rich.console import Console
    from rich.progress import Progress

    return Progress(console=Console(stderr=True), disable=not show, transient=True)


@contextmanager
def warnings_in_a_line(*, show: bool = True) -> Iterator[None]:
    """Print each warning once, in one line on standard error, when the work is done."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for message in dict.fromkeys(str(warning.message) for warning in caught if show):
        typer.echo("Warning: " + " ".join(message.split()), err=True)
