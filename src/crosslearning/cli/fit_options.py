"""The options of ``crosslearning fit``: those of a fit, from the command line or a file."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Callable, Collection
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from crosslearning.cli.completion import columns, one_of
from crosslearning.tables.settings import FitSettings, checked

_OPTIONS = {option.metadata["flag"] or option.name: option for option in fields(FitSettings)}


def _is_list(option: Field[Any]) -> bool:
    return str(option.type).startswith("tuple")


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a fit, with their help, before its own."""
    declared = [
        p for p in inspect.signature(command).parameters.values() if p.kind is not p.VAR_KEYWORD
    ]
    hints = inspect.get_annotations(command, eval_str=True)
    first, *rest = (p.replace(kind=p.KEYWORD_ONLY, annotation=hints[p.name]) for p in declared)
    parameters = [first, *(_parameter(*item) for item in _OPTIONS.items()), *rest]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    return command


def _parameter(flag: str, option: Field[Any]) -> inspect.Parameter:
    """Return an option as a parameter that Typer understands."""
    about, kind, default = option.metadata, get_type_hints(FitSettings)[option.name], option.default
    if _is_list(option):
        kind, default = list[str] | None, MISSING if default is MISSING else None
    names = (f"--{flag.replace('_', '-')}",) if kind is bool else ()
    complete = columns if about["column"] else one_of(*about["choices"])
    return inspect.Parameter(
        flag,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if default is MISSING else default,
        annotation=Annotated[
            kind, typer.Option(*names, help=about["help"], autocompletion=complete)
        ],
    )


def from_file(context: typer.Context, path: Path | None) -> Path | None:
    """Read options that are not on the command line from a file."""
    if path is None:
        return None
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or f"it is not TOML: {error}"
        raise ValueError(f"Cannot read {path}: {reason}. Check the file.") from error
    names = {
        flag.lstrip("-").replace("-", "_"): str(option.name)
        for option in context.command.params
        for flag in option.opts
        if flag.startswith("--") and option.name != "config"
    }
    values = {name.replace("-", "_"): value for name, value in content.items()}
    if unknown := sorted(set(values) - set(names)):
        raise ValueError(
            f"{path} must hold options of the command; {unknown[0]!r} is not one. See --help."
        )
    for name in values.keys() & _OPTIONS.keys():
        values[name] = checked(_OPTIONS[name], values[name])
    context.default_map = {names[name]: value for name, value in values.items()}
    return path


def fit_options(values: dict[str, Any], header: Collection[str]) -> dict[str, Any]:
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
