"""The command ``crosslearning``, its part ``report``, and how it reports errors."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

import crosslearning
from crosslearning.cli import demo, reproduce
from crosslearning.cli.common import AsJson, Formats, Quiet, show_help_if_alone, writing
from crosslearning.cli.fit import fit
from crosslearning.cli.images import train
from crosslearning.cli.predict import export, predict

# The base class of typer's own errors, wherever this version defines it.
_CommandError: type[Exception] = typer.BadParameter.__mro__[2]

app = typer.Typer(pretty_exceptions_enable=False)
app.command(epilog="Example: crosslearning demo --out demo")(demo.demo)
app.command(epilog="Example: crosslearning fit pupils.csv --task school --target math")(fit)
app.command(epilog="Example: crosslearning predict crosslearning-pupils new.csv -o out.csv")(
    predict
)
app.add_typer(demo.data_app, name="data")
app.command(epilog="Example: crosslearning export crosslearning-train --task art -o art.onnx")(
    export
)
app.add_typer(reproduce.app, name="reproduce")
app.command(epilog="Example: crosslearning train pictures32 --epsilon 0.3 --out trained")(train)


def _show_version(requested: bool) -> None:
    if requested:
        typer.echo(f"crosslearning {crosslearning.__version__}")
        raise typer.Exit


@app.callback(
    invoke_without_command=True,
    epilog="Example: crosslearning fit pupils.csv --task school --target math",
)
def root(
    context: typer.Context,
    version: Annotated[  # noqa: ARG001 - its callback does the work
        bool,
        typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """Train related tasks together, each with its own model, near a common centre."""
    show_help_if_alone(context)


@app.command(epilog="Example: crosslearning report crosslearning-pupils --open")
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

    with writing(out or folder, kind="file"):
        page = write(folder, out=out, formats=formats or ())
    if as_json:
        typer.echo(json.dumps({"report": str(page)}))
    elif not quiet:
        typer.echo(f"Report  {page}")
    if show:
        typer.launch(page.resolve().as_uri())


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    try:
        code = app(arguments, prog_name="crosslearning", standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except _CommandError as error:
        context = getattr(error, "ctx", None)
        path = context.command_path if context else "crosslearning"
        message = error.format_message()  # type: ignore[attr-defined]
        return _fail(f"{message.rstrip('.?')}. See `{path} --help`.")
    except ModuleNotFoundError:
        raise  # `main` says what to install
    except (ValueError, OSError, ImportError) as error:
        return _fail(str(error))
    return code if isinstance(code, int) else 0


def _fail(message: str) -> int:
    typer.echo("Error: " + " ".join(message.split()), err=True)
    return 2
