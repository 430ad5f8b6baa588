"""The lines of Python that repeat a fit, with the options that it was given."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

import pandas as pd

if TYPE_CHECKING:
    import os

    from crosslearning.tables.engines import Engine
    from crosslearning.tables.settings import FitSettings


def lines(
    settings: FitSettings,
    engine: Engine,
    held_out: pd.DataFrame | str | os.PathLike[str] | None,
    described: str,
) -> str:
    """Write the call of the function that an engine belongs to."""
    text = f", text={list(settings.categories)}" if settings.categories else ""
    options = [f"    {name}={_written(value)}," for name, value in settings.changed()]
    if isinstance(held_out, pd.DataFrame):
        other = held_out.attrs.get("source", "HOLDOUT")
        options.append(f"    held_out=read_table({other!r}{text}),")
    elif held_out is not None:
        options.append(f"    held_out={str(held_out)!r},")
    module, name = engine.function.rsplit(".", 1)
    read = engine.function == "crosslearning.tables.fit_table"
    frame = [f"frame = read_table({engine.source!r}{text})"] if read else []
    return "\n".join(
        [
            f"from {module} import {name}{', read_table' if read else ''}",
            "",
            *frame,
            f"model = {name}(",
            "    frame," if name == "fit_table" else f"    {engine.source!r},",
            *options,
            ")",
            'print(model.results["sentence"])',
            f"print(model.coefficients)  # of the model: {described}",
            *(["predictions = model.predict(frame)"] if read else []),
        ]
    )


def _written(value: Any) -> str:
    if isinstance(value, tuple):
        return repr(list(value))
    return 'float("inf")' if value == inf else repr(value)
