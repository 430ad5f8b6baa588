"""The lines of Python that repeat a fit, with the options that it was given."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

_ASIDE = ("frame", "source", "command", "progress")


def lines(function: Callable[..., Any], given: dict[str, Any], described: str) -> str:
    """Write the call of `fit_table` or `fit_files`; TABLE and HOLDOUT stand for the files."""
    categories = list(given["categories"])
    text = f", text={categories}" if categories else ""
    from_frame = "frame" in signature(function).parameters
    options = [
        f"    {name}={_written(name, given[name], text, from_frame)},"
        for name, parameter in signature(function).parameters.items()
        if name not in _ASIDE and not _is(given[name], parameter.default)
    ]
    call = [
        f"model = {function.__name__}(",
        "    frame," if from_frame else '    "TABLE",',
        *options,
        ")",
        'print(model.results["sentence"])',
        f"print(model.coefficients)  # of the model: {described}",
    ]
    start = f"from crosslearning.tables import {function.__name__}"
    if not from_frame:
        return "\n".join([start, "", *call])
    read, predict = f'frame = read_table("TABLE"{text})', "predictions = model.predict(frame)"
    return "\n".join([f"{start}, read_table", "", read, *call, predict])


def _written(name: str, value: Any, text: str, from_frame: bool) -> str:
    if name != "held_out":
        return repr(value)
    return f'read_table("HOLDOUT"{text})' if from_frame else '"HOLDOUT"'


def _is(value: Any, default: Any) -> bool:
    """Whether an option is as it would be if nobody asked; lists may be empty."""
    if isinstance(value, list | tuple):
        return not value and default == ()
    return value is default or (isinstance(value, str | float | int) and bool(value == default))
