"""The command ``crosslearning fit``: from a table to a model, a verdict and a report."""

from __future__ import annotations

import json
import shlex
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crosslearning.cli.common import AsJson, Formats, Quiet
from crosslearning.cli.completion import columns, one_of
from crosslearning.cli.fit_output import print_fit
from crosslearning.cli.progress import spinner, warnings_in_a_line

if TYPE_CHECKING:
    from crosslearning.tables import TableModel


Names = list[str] | None
_METRICS = "mse, mae, poisson-deviance, gamma-deviance; log-loss, accuracy, auc"
_FAMILIES = ("auto", "gaussian", "student", "poisson", "gamma", "tweedie", "quantile")
# Options of tables in memory and of those read in chunks.
_SHARED = (
    "task", "target", "kind", "family", "epsilon", "metric", "weights", "time", "group", "folds",
    "drop_unlabelled", "seed",
)  # fmt: skip


def _from_file(context: typer.Context, path: Path | None) -> Path | None:
    """Read options that are not given from a file."""
    if path is not None:
        try:
            given = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ValueError(f"Cannot read {path} as TOML: {error}. See --help.") from error
        given = {name.replace("-", "_"): value for name, value in given.items()}
        known = {str(option.name) for option in context.command.params} - {"table", "config"}
        strange = sorted(set(given) - known)
        if strange:
            raise ValueError(
                f"{path} must hold options of the command; {strange[0]!r} is not one. See --help."
            )
        context.default_map = given
    return path


def fit(
    table: Annotated[
        str,
        typer.Argument(
            help="CSV, TSV, Parquet or Excel file, gzipped or not; a folder, or a pattern such as "
            "'part-*.parquet'; - for standard input."
        ),
    ],
    task: Annotated[
        str,
        typer.Option(
            help="Column of the task (group) that a row belongs to.", autocompletion=columns
        ),
    ],
    target: Annotated[str, typer.Option(help="Column to predict.", autocompletion=columns)],
    features: Annotated[
        Names,
        typer.Option(
            help="Feature columns, a,b,c or repeated; by default all others.",
            autocompletion=columns,
        ),
    ] = None,
    number: Annotated[
        Names, typer.Option(help="Columns to treat as numbers.", autocompletion=columns)
    ] = None,
    category: Annotated[
        Names,
        typer.Option(
            help="Columns to treat as categories, such as numeric codes.", autocompletion=columns
        ),
    ] = None,
    kind: Annotated[
        str,
        typer.Option(
            help="Kind of target: regression, classification or auto.",
            autocompletion=one_of("auto", "regression", "classification"),
        ),
    ] = "auto",
    family: Annotated[
        str,
        typer.Option(
            help=f"Distribution of a numeric target: {', '.join(_FAMILIES)}.",
            autocompletion=one_of(*_FAMILIES),
        ),
    ] = "auto",
    quantile: Annotated[
        float | None,
        typer.Option(help="Level of --family quantile, between 0 and 1; 0.5 by default."),
    ] = None,
    epsilon: Annotated[
        float,
        typer.Option(
            help="Largest distance of a task to the centre, in standard deviations between tasks."
        ),
    ] = float("inf"),
    metric: Annotated[
        str | None,
        typer.Option(
            help=f"Score by which models are chosen: {_METRICS}. The Poisson deviance asks for "
            "models of counts.",
            autocompletion=one_of(*_METRICS.replace(";", ",").split(", ")),
        ),
    ] = None,
    weights: Annotated[
        str | None, typer.Option(help="Column of row weights.", autocompletion=columns)
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(help="Column of times: test on later rows.", autocompletion=columns),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(help="Column of groups that are held out as a whole.", autocompletion=columns),
    ] = None,
    holdout: Annotated[
        str | None, typer.Option(help="Another table on which to score the models.")
    ] = None,
    folds: Annotated[int, typer.Option(help="Number of folds.")] = 5,
    base: Annotated[
        str,
        typer.Option(
            help="Features besides the columns: splines, boosting (predictions of boosted trees), "
            "linear or none (no others), or auto (all, and task means, where they may help).",
            autocompletion=one_of("auto", "linear", "splines", "boosting", "none"),
        ),
    ] = "auto",
    time_budget: Annotated[
        float, typer.Option(help="Seconds after which no further model is tried.")
    ] = 60.0,
    drop_unlabelled: Annotated[
        bool, typer.Option("--drop-unlabelled", help="Drop rows without a task.")
    ] = False,
    jobs: Annotated[
        int, typer.Option(help="Number of processes that try models; -1 for one per core.")
    ] = 1,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Folder for model, results and report; crosslearning-TABLE by default.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the folds.")] = 0,
    config: Annotated[
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
) -> None:
    """Fit one model per task to a table, and say whether sharing between tasks helps.

    Column types are recognised, and missing values imputed and flagged. How much tasks differ is
    learned from the table, and the best of several models on held-out rows is kept.
    """
    given = dict(locals())
    from crosslearning import report
    from crosslearning.tables import check_folder
    from crosslearning.tables.options import on_command_line

    folder = out or Path(f"crosslearning-{'table' if table == '-' else _stem(table)}")
    try:
        check_folder(folder)
    except ValueError as error:
        raise ValueError(f"{error} Name it with --out.") from error
    with spinner(show=not (quiet or as_json)) as say, warnings_in_a_line(show=not quiet):
        say(f"Reading {table}")
        with on_command_line():
            model = _with_paths(_fitted(given, say), {"TABLE": table, "HOLDOUT": holdout})
        say("Writing model and report")
        model.save(folder)
        page = report.write(folder, formats=formats or ())
    if as_json:
        typer.echo(json.dumps(model.results, indent=2))
    elif not quiet:
        print_fit(model, folder, page)


def _with_paths(model: TableModel, paths: dict[str, str | None]) -> TableModel:
    """Put paths in place of the words that stand for them in the lines of Python."""
    assert model.findings is not None  # unlike those of a stored model
    python = model.findings.python
    for word, path in paths.items():
        if path not in (None, "-"):
            python = python.replace(f'"{word}"', repr(path))
    return replace(model, findings=replace(model.findings, python=python))


def _stem(table: str) -> str:
    """Return the name of a file or folder without suffixes."""
    path = Path(table)
    name = path.resolve().parent.name if "*" in path.name or "?" in path.name else path.name
    return name.split(".")[0] or "table"


def _fitted(given: dict[str, Any], say: Any) -> TableModel:
    """Fit a table in memory, or in chunks if it is large or on the workers of a scheduler."""
    from crosslearning.tables import fit_table, read_table
    from crosslearning.tables.reading.files import is_large

    table, scheduler = given["table"], given["scheduler"]
    settings = {name: given[name] for name in _SHARED}
    settings |= {"command": shlex.join(["crosslearning", *sys.argv[1:]]), "progress": say}
    if scheduler is not None or (table != "-" and is_large(table)):
        in_memory = {"base": ("auto", "linear", "none"), "jobs": (1,), "quantile": (None,)}
        for option, possible in in_memory.items():
            if given[option] not in possible:
                raise ValueError(
                    f"--{option} {given[option]} needs all rows in memory, but this table is read "
                    "in chunks. Omit the option, or fit a part of the table."
                )
        settings |= _columns(given, set()) | {"held_out": given["holdout"]}
        if scheduler is not None:
            from crosslearning.tables import dask

            return dask.fit_files(table, scheduler=scheduler, **settings)
        from crosslearning.tables import fit_files

        return fit_files(table, **settings)
    text, holdout = given["category"] or (), given["holdout"]
    frame = read_table(sys.stdin.buffer if table == "-" else table, text=text)
    settings |= {name: given[name] for name in ("base", "time_budget", "jobs", "quantile")}
    settings |= _columns(given, set(frame.columns))
    held_out = None if holdout is None else read_table(holdout, text=text)
    return fit_table(frame, held_out=held_out, **settings)


def _columns(given: dict[str, Any], known: set[str]) -> dict[str, list[str] | None]:
    """Split lists of columns at commas, except in names that are `known`."""
    found: dict[str, list[str] | None] = {"features": None}
    for name, option in (
        ("features", "features"),
        ("numbers", "number"),
        ("categories", "category"),
    ):
        if given[option] is not None or name != "features":
            found[name] = [
                part
                for item in given[option] or []
                for part in ([item] if item in known else map(str.strip, item.split(",")))
            ]
    return found
