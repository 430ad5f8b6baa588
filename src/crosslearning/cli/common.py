"""Options, completion, progress and warnings of several commands."""

import inspect
import tomllib
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, Field, fields
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import typer

from crosslearning.tables.settings import FitSettings, checked

Command = Callable[..., None]
FIT_OPTIONS = {option.metadata["flag"] or option.name: option for option in fields(FitSettings)}
_NAME = 16  # characters of a name that a narrow table keeps in a line


Format = StrEnum("Format", ["PNG", "SVG", "PDF"])
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
def writing(place: Path, option: str = " with --out", *, kind: str = "folder") -> Iterator[None]:
    """Turn an error in writing into one that names the place, a folder or a file."""
    try:
        yield
    except OSError as error:
        reason = f"Cannot write to {place}: {error.strerror or error}."
        raise OSError(f"{reason} Choose another {kind}{option}.") from error


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


def _is_list(option: Field[Any]) -> bool:
    return str(option.type).startswith("tuple")


def fit_parameter(flag: str, option: Field[Any]) -> inspect.Parameter:
    """Return a setting of a fit as a parameter that Typer understands."""
    about, kind, default = option.metadata, get_type_hints(FitSettings)[option.name], option.default
    if _is_list(option):
        kind, default = list[str] | None, MISSING if default is MISSING else None
    names = (f"--{flag.replace('_', '-')}",) if kind is bool else ()
    typed = typer.Option(*names, help=about["help"], autocompletion=one_of(*about["choices"]))
    return inspect.Parameter(
        flag,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if default is MISSING else default,
        annotation=Annotated[kind, typed],
    )


def options_from_file(context: typer.Context, path: Path | None) -> Path | None:
    """Read options that are not on the command line from a file."""
    if path is None:
        return None
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or f"it is not TOML: {error}"
        raise ValueError(f"Cannot read {path}: {reason}. Check the file.") from error
    values = {name.replace("-", "_"): value for name, value in content.items()}
    flags = [(flag, option.name) for option in context.command.params for flag in option.opts]
    names = {flag[2:].replace("-", "_"): name for flag, name in flags if flag.startswith("--")}
    if odd := sorted(set(values) - (names.keys() - {"config"})):
        raise ValueError(f"{path} must hold options of fit; {odd[0]!r} is not one. See --help.")
    for name in values.keys() & FIT_OPTIONS.keys():
        values[name] = checked(FIT_OPTIONS[name], values[name])
    context.default_map = {names[name]: value for name, value in values.items()}
    return path


def fit_options(values: dict[str, Any]) -> dict[str, Any]:
    """Name options as a fit does; split lists of columns, but not of tasks, at commas."""
    options = {}
    for flag, option in FIT_OPTIONS.items():
        value = values[flag]
        if _is_list(option) and value is not None and flag != "task":
            value = [name.strip() for item in value for name in item.split(",")]
        if value is not None:
            options[option.name] = value
    return options


@contextmanager
def spinner(*, show: bool) -> Iterator[Callable[..., None]]:
    """Show the current step, its progress and the elapsed time on a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    text = TextColumn("{task.description}", markup=False)
    columns = SpinnerColumn(), BarColumn(20), TimeElapsedColumn(), text
    disable = not (show and console.is_terminal)
    with Progress(*columns, console=console, transient=True, disable=disable) as progress:
        step = progress.add_task("", total=None)

        def say(text: str, done: float | None = None, total: float = 1.0) -> None:
            end = None if done is None else total
            progress.update(step, description=text, completed=done, total=end)

        yield say


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print names in a first column, and numbers on their right, which are never broken."""
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table

    rows, console = list(rows), Console(highlight=False, markup=False)  # names may have brackets
    titles = [max(map(cell_len, title.split("\n"))) for title in columns]
    cells = [max(map(cell_len, texts)) for texts in zip(*rows, strict=True)] or titles
    widths = list(map(max, titles, cells))
    words = [max(map(cell_len, title.split())) if title.strip() else 0 for title in columns]
    least = [min(widths[0], _NAME), *map(max, cells[1:], words[1:])]
    if sum(least) + 2 * (len(least) - 1) > console.width:  # titles may be broken
        least[1:] = cells[1:]
    gap = 3 if sum(widths) + 3 * (len(widths) - 1) <= console.width else 2
    room = console.width - gap * (len(widths) - 1)
    while sum(widths) > max(room, sum(least)):  # the column that can spare most is folded first
        spare = [width - low for width, low in zip(widths, least, strict=True)]
        widths[spare.index(max(spare))] -= 1
    # Lines that are too long can still be read, unlike numbers that are broken or cut off.
    console.width = max(console.width, sum(widths) + gap * (len(widths) - 1))
    table = Table(box=None, pad_edge=False, padding=(0, 0, 0, gap))
    for number, title in enumerate(columns):
        justify: Literal["left", "right"] = "right" if number else "left"
        table.add_column(title, justify=justify, width=widths[number], overflow="fold")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def print_fact(name: str, text: object, width: int = 0) -> None:
    """Print what something is, after its name."""
    typer.echo(typer.style(f"{name:<{width}}  ", bold=True) + str(text))


@contextmanager
def warnings_in_a_line(*, show: bool = True) -> Iterator[None]:
    """Print each warning once, in one line on standard error, when the work is done."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for message in dict.fromkeys(str(warning.message) for warning in caught if show):
        typer.echo("Warning: " + " ".join(message.split()), err=True)
