"""The help of every command as a page: ``python docs/command_pages.py`` writes commands.md."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from crosslearning.cli.app import app

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).with_name("commands.md")
HEAD = """# Commands

Every command has a `--help` option. An error prints one line that says what is wrong and what to
do, leaves no half-written files, and exits with code 2 (130 after Ctrl-C).
`crosslearning --install-completion` sets up shell completion.

<!-- Written by `python docs/command_pages.py`, from the help of the commands. -->
"""


def text() -> str:
    """Return the page."""
    return "\n".join([HEAD, *_help((), typer.main.get_command(app))]).rstrip() + "\n"


def _help(path: tuple[str, ...], command: Any) -> Iterator[str]:
    """Section of a command, or of the commands below it."""
    for name, below in getattr(command, "commands", {}).items():
        yield from _help((*path, name), below)
    if not hasattr(command, "commands"):
        examples = command.epilog.removeprefix("Example: ").replace(", cross", "\n$ cross")
        yield f"## crosslearning {' '.join(path)}\n"
        yield f"{inspect.cleandoc(command.help)}\n"
        yield f"```console\n$ {examples}\n```\n"
        yield "| | | default |\n|---|---|---|"
        yield from (_row(one) for one in command.params)
        yield ""


def _row(parameter: Any) -> str:
    """Row of a table: an argument or an option, what it is, and its default."""
    is_option = parameter.param_type_name == "option"
    names = [*parameter.opts, *parameter.secondary_opts] if is_option else [parameter.name.upper()]
    shown = not (parameter.default is None or parameter.default is False)
    default = "required" if parameter.required else f"`{parameter.default}`" if shown else ""
    text = (parameter.help or "").replace("|", "\\|")
    return f"| {', '.join(f'`{name}`' for name in names)} | {text} | {default} |"


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
