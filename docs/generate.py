"""What the pages show and nobody writes: pictures, a report, the help of every command."""

from __future__ import annotations

import inspect
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import figures
import typer

from crosslearning import report
from crosslearning.cli.app import app
from crosslearning.datasets import load_hsb82
from crosslearning.tables import fit_table

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCS = Path(__file__).parent
FOLDER = DOCS / "_generated"


def generate() -> None:
    """Write everything into ``_generated``, and a page for each page of measurements."""
    figures.draw_all(FOLDER)
    write_report(FOLDER / "extra" / "pupils.html")
    (FOLDER / "commands.md").write_text("\n".join(_help((), typer.main.get_command(app))) + "\n")
    include_measurements()


def include_measurements() -> None:
    """Make pages of what the benchmarks wrote, as it is."""
    (DOCS / "benchmarks").mkdir(exist_ok=True)
    for page in (DOCS.parent / "benchmarks" / "results").glob("*.md"):
        include = f"```{{include}} ../../benchmarks/results/{page.name}\n:relative-images:\n```\n"
        (DOCS / "benchmarks" / page.name).write_text(include)


def write_report(page: Path) -> None:
    """Fit the schools and write the report on it."""
    command = "crosslearning fit hsb82.csv --task school --target math"
    model = fit_table(load_hsb82().frame, task="school", target="math", command=command)
    with TemporaryDirectory() as temporary:
        folder = Path(temporary) / "crosslearning-hsb82"  # which the page names
        model.save(folder)
        report.write(folder, out=page)


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
    generate()
