"""Progress bars and warnings of commands."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.progress import Progress


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
