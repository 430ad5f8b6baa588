"""The command ``crosslearning fit``: read a table, fit it, save the model, write the report."""

from __future__ import annotations

import inspect
import json
import shlex
import sys
import tomllib
from collections.abc import Collection
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from crosslearning.cli import common
from crosslearning.cli.common import AsJson, Formats, Quiet
from crosslearning.cli.fit_output import print_fit
from crosslearning.tables.settings import FitSettings, checked

if TYPE_CHECKING:
    from crosslearning.tables import TableModel

_OPTIONS = {option.metadata["flag"] or option.name: option for option in fields(FitSettings)}


def _is_list(option: Field[Any]) -> bool:
    return str(option.type).startswith("tuple")


def _parameter(flag: str, option: Field[Any]) -> inspect.Parameter:
    """Return an option as a parameter that Typer understands."""
    about, kind, default = option.metadata, get_type_hints(FitSettings)[option.name], option.default
    if _is_list(option):
        kind, default = list[str] | None, MISSING if default is MISSING else None
    names = (f"--{flag.replace('_', '-')}",) if kind is bool else ()
    complete = common.one_of(*about["choices"])
    return inspect.Parameter(
        flag,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if default is MISSING else default,
        annotation=Annotated[
            kind, typer.Option(*names, help=about["help"], autocompletion=complete)
        ],
    )


def _from_file(context: typer.Context, path: Path | None) -> Path | None:
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
    if unknown := sorted(set(values) - (names.keys() - {"config"})):
        raise ValueError(
            f"{path} must hold options of the command; {unknown[0]!r} is not one. See --help."
        )
    for name in values.keys() & _OPTIONS.keys():
        values[name] = checked(_OPTIONS[name], values[name])
    context.default_map = {names[name]: value for name, value in values.items()}
    return path


@common.with_options([_parameter(*item) for item in _OPTIONS.items()], after=1)
def fit(
    table: Annotated[
        str,
        typer.Argument(
            help="CSV, TSV, Parquet or Excel file, gzipped or not; a folder, or a pattern such as "
            "'part-*.parquet'; - for standard input."
        ),
    ],
    holdout: Annotated[
        str | None, typer.Option(help="Another table on which to score the models.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Folder for model, results and report; crosslearning-TABLE by default.",
        ),
    ] = None,
    config: Annotated[  # noqa: ARG001 - its callback does the work
        Path | None,
        typer.Option(
            help="TOML file of options that are not given here, such as task = 'school'.",
            callback=_from_file,
            is_eager=True,
        ),
    ] = None,
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
    from crosslearning.tables import check_folder

    folder = out or Path(f"crosslearning-{'table' if table == '-' else _stem(table)}")
    check_folder(folder)
    shown = not (quiet or as_json)
    with common.spinner(show=shown) as say, common.warnings_in_a_line(show=not quiet):
        say(f"Reading {table}")
        model = _fitted(table, holdout, scheduler, options, say)
        say("Writing model and report")
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
) -> TableModel:
    """Fit a table in memory, or in chunks if it is large or on the workers of a scheduler."""
    from crosslearning import tables
    from crosslearning.tables.reading import is_large

    shared = {"command": shlex.join(["crosslearning", *sys.argv[1:]]), "progress": say}
    if scheduler is not None or (table != "-" and is_large(table)):
        options = _fit_options(values, ()) | shared
        return tables.fit_files(table, scheduler=scheduler, held_out=holdout, **options)
    # A name may have commas: only the header tells.
    text = {*(values["category"] or ()), *_fit_options(values, ()).get("categories", ())}
    frame = tables.read_table(sys.stdin.buffer if table == "-" else table, text=text)
    held_out: Any = holdout
    if holdout is not None and not is_large(holdout):
        held_out = tables.read_table(holdout, text=text)
    options = _fit_options(values, frame.columns) | shared
    return tables.fit_table(frame, held_out=held_out, **options)


def _fit_options(values: dict[str, Any], header: Collection[str]) -> dict[str, Any]:
    """Name options as a fit does; split lists of columns at commas, except names in the header."""
    options = {}
    for flag, option in _OPTIONS.items():
        value = values[flag]
        # Names of task columns may have commas; the option is repeated for more than one.
        if _is_list(option) and value is not None and flag != "task":
            parts = (
                [item] if item in header else map(str.strip, item.split(",")) for item in value
            )
            value = [name for part in parts for name in part]
        if value is not None:
            options[option.name] = value
    return options
