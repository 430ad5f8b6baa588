"""The command ``crosslearning fit``: read a table, fit it, save the model, write the report."""

from __future__ import annotations

import inspect
import json
import shlex
import sys
import tomllib
from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crosslearning.cli.common import AsJson, Formats, Quiet
from crosslearning.cli.completion import columns, one_of
from crosslearning.cli.fit_output import print_fit
from crosslearning.cli.progress import spinner, warnings_in_a_line
from crosslearning.tables.settings import FitSettings

if TYPE_CHECKING:
    from crosslearning.tables import TableModel

_LISTS = ("features", "numbers", "categories")


def _flag(option: Field[Any]) -> str:
    """Name an option on the command line."""
    return option.metadata["flag"] or option.name


def _with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a fit, with their help, before its own."""
    own = [p for p in inspect.signature(command).parameters.values() if p.kind is not p.VAR_KEYWORD]
    hints = inspect.get_annotations(command, eval_str=True)
    added = [_parameter(option) for option in fields(FitSettings)]
    first, *rest = (p.replace(kind=p.KEYWORD_ONLY, annotation=hints[p.name]) for p in own)
    parameters = [first, *added, *rest]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    return command


def _parameter(option: Field[Any]) -> inspect.Parameter:
    """Return an option as a parameter that Typer understands."""
    about, name = option.metadata, _flag(option)
    complete = columns if about["column"] else one_of(*about["choices"])
    kind: Any = list[str] | None if option.name in _LISTS else _TYPES[str(option.type)]
    names = (f"--{name.replace('_', '-')}",) if kind is bool else ()
    default = None if option.name in _LISTS else option.default
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if default is MISSING else default,
        annotation=Annotated[
            kind, typer.Option(*names, help=about["help"], autocompletion=complete)
        ],
    )


_TYPES: dict[str, Any] = {
    "str": str,
    "str | None": str | None,
    "float": float,
    "float | None": float | None,
    "int": int,
    "bool": bool,
}


def _from_file(context: typer.Context, path: Path | None) -> Path | None:
    """Read options that are not given from a file."""
    if path is not None:
        try:
            given = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or f"it is not TOML: {error}"
            raise ValueError(f"Cannot read {path}: {reason}. Check the file.") from error
        options = {
            flag.lstrip("-").replace("-", "_"): option
            for option in context.command.params
            for flag in option.opts
            if flag.startswith("--") and option.name != "config"
        }
        named = {name.replace("-", "_"): value for name, value in given.items()}
        strange = sorted(set(named) - set(options))
        if strange:
            raise ValueError(
                f"{path} must hold options of the command; {strange[0]!r} is not one. See --help."
            )
        context.default_map = {str(options[name].name): value for name, value in named.items()}
    return path


@_with_options
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
    with spinner(show=not (quiet or as_json)) as say, warnings_in_a_line(show=not quiet):
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
    table: str, holdout: str | None, scheduler: str | None, given: dict[str, Any], say: Any
) -> TableModel:
    """Fit a table in memory, or in chunks if it is large or on the workers of a scheduler."""
    from crosslearning import tables
    from crosslearning.tables.reading.files import is_large

    text = tuple(given["category"] or ())
    shared = {"command": shlex.join(["crosslearning", *sys.argv[1:]]), "progress": say}
    if scheduler is not None or (table != "-" and is_large(table)):
        options = _options(given, set()) | shared
        if scheduler is None:
            return tables.fit_files(table, held_out=holdout, **options)
        from crosslearning.tables import dask

        return dask.fit_files(table, scheduler=scheduler, held_out=holdout, **options)
    frame = tables.read_table(sys.stdin.buffer if table == "-" else table, text=text)
    held_out: Any = holdout
    if holdout is not None and not is_large(holdout):
        held_out = tables.read_table(holdout, text=text)
    options = _options(given, set(frame.columns)) | shared
    return tables.fit_table(frame, held_out=held_out, **options)


def _options(given: dict[str, Any], known: set[str]) -> dict[str, Any]:
    """Name options as a fit does; split lists of columns at commas, except in `known` names."""
    options = {option.name: given[_flag(option)] for option in fields(FitSettings)}
    for name in _LISTS:
        if options[name] is not None:
            options[name] = tuple(
                part
                for item in options[name]
                for part in ([item] if item in known else map(str.strip, item.split(",")))
            )
    return {name: value for name, value in options.items() if value is not None}
