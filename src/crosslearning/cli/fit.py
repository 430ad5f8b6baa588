"""The command ``crosslearning fit``: from a table to a model, a verdict and a report."""

from __future__ import annotations

import json
import shlex
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crosslearning.cli.common import AsJson, Quiet
from crosslearning.cli.progress import spinner, warnings_in_a_line

if TYPE_CHECKING:
    from rich.console import Console

    from crosslearning.tables import TableModel


Names = list[str] | None
_METRICS = "mse, mae, poisson-deviance, gamma-deviance; log-loss, accuracy, auc"
_FAMILIES = "auto, gaussian, student, poisson, gamma or tweedie"


def _one_of(*values: str) -> Any:
    """Offer values for shell completion."""
    return lambda incomplete: [value for value in values if value.startswith(incomplete)]


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
    task: Annotated[str, typer.Option(help="Column of the task (group) that a row belongs to.")],
    target: Annotated[str, typer.Option(help="Column to predict.")],
    features: Annotated[
        Names, typer.Option(help="Feature columns, a,b,c or repeated; by default all others.")
    ] = None,
    number: Annotated[Names, typer.Option(help="Columns to treat as numbers.")] = None,
    category: Annotated[
        Names, typer.Option(help="Columns to treat as categories, such as numeric codes.")
    ] = None,
    kind: Annotated[
        str,
        typer.Option(
            help="Kind of target: regression, classification or auto.",
            autocompletion=_one_of("auto", "regression", "classification"),
        ),
    ] = "auto",
    family: Annotated[
        str,
        typer.Option(
            help=f"Distribution of a numeric target: {_FAMILIES}.",
            autocompletion=_one_of("auto", "gaussian", "student", "poisson", "gamma", "tweedie"),
        ),
    ] = "auto",
    epsilon: Annotated[
        float,
        typer.Option(
            help="Largest distance of a task to the centre, in standard deviations between tasks."
        ),
    ] = float("inf"),
    metric: Annotated[
        str | None,
        typer.Option(
            help=f"Score by which models are chosen: {_METRICS}.",
            autocompletion=_one_of(*_METRICS.replace(";", ",").split(", ")),
        ),
    ] = None,
    weights: Annotated[str | None, typer.Option(help="Column of row weights.")] = None,
    time: Annotated[str | None, typer.Option(help="Column of times: test on later rows.")] = None,
    group: Annotated[
        str | None, typer.Option(help="Column of groups that are held out as a whole.")
    ] = None,
    holdout: Annotated[
        str | None, typer.Option(help="Another table on which to score the models.")
    ] = None,
    folds: Annotated[int, typer.Option(help="Number of folds.")] = 5,
    base: Annotated[
        str,
        typer.Option(
            help="Features besides the columns: splines, boosting (predictions of boosted trees), "
            "linear or none (no others), or auto (all are tried).",
            autocompletion=_one_of("auto", "linear", "splines", "boosting", "none"),
        ),
    ] = "auto",
    time_budget: Annotated[
        float, typer.Option(help="Seconds after which only linear models are tried.")
    ] = 60.0,
    drop_unlabelled: Annotated[
        bool, typer.Option("--drop-unlabelled", help="Drop rows without a task.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for model, results and report; crosslearning-TABLE by default."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the folds.")] = 0,
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
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Fit one model per task to a table, and say whether sharing between tasks helps.

    Column types are recognised, and missing values imputed and flagged. How much tasks differ is
    learned from the table, and the best of several models on held-out rows is kept.
    """
    from crosslearning import report
    from crosslearning.tables import check_folder, fit_table, read_table
    from crosslearning.tables._files import is_large

    folder = out or Path(f"crosslearning-{'table' if table == '-' else _stem(table)}")
    try:
        check_folder(folder)
    except ValueError as error:
        raise ValueError(f"{error} Name it with --out.") from error
    with spinner(show=not (quiet or as_json)) as say, warnings_in_a_line(show=not quiet):
        say(f"Reading {table}")
        shared: dict[str, Any] = {
            "task": task,
            "target": target,
            "epsilon": epsilon,
            "weights": weights,
            "folds": folds,
            "drop_unlabelled": drop_unlabelled,
            "seed": seed,
            "command": _command(),
            "progress": say,
        }
        if scheduler is not None or (table != "-" and is_large(table)):
            _refuse(
                kind=kind in ("auto", "regression"),
                family=family in ("auto", "gaussian"),
                metric=metric in (None, "mse"),
                time=time is None,
                group=group is None,
                holdout=holdout is None,
                base=base in ("auto", "linear", "none"),
            )
            model = _fit_files(
                table,
                scheduler,
                features=None if features is None else _split(features, set()),
                numbers=_split(number or [], set()),
                categories=_split(category or [], set()),
                **shared,
            )
        else:
            frame = read_table(sys.stdin.buffer if table == "-" else table, text=category or ())
            columns = set(frame.columns)
            model = fit_table(
                frame,
                features=None if features is None else _split(features, columns),
                numbers=_split(number or [], columns),
                categories=_split(category or [], columns),
                kind=kind,
                family=family,
                metric=metric,
                time=time,
                group=group,
                base=base,
                time_budget=time_budget,
                held_out=None if holdout is None else read_table(holdout, text=category or ()),
                **shared,
            )
        for name, path in (("TABLE", table), ("HOLDOUT", holdout)):
            if path not in (None, "-"):
                written = model.results["python"].replace(f'"{name}"', repr(path))
                model.results["python"] = written
        say("Writing model and report")
        model.save(folder)
        page = report.write(folder)
    if as_json:
        typer.echo(json.dumps(model.results, indent=2))
    elif not quiet:
        _print(model, folder, page)


def _stem(table: str) -> str:
    """Return the name of a file or folder without suffixes."""
    path = Path(table)
    name = path.resolve().parent.name if "*" in path.name or "?" in path.name else path.name
    return name.split(".")[0] or "table"


def _fit_files(table: str, scheduler: str | None, **settings: Any) -> TableModel:
    """Fit large tables, here or on the workers of a scheduler."""
    if scheduler is not None:
        from crosslearning.tables import dask

        return dask.fit_files(table, scheduler=scheduler, **settings)
    from crosslearning.tables import fit_files

    return fit_files(table, **settings)


def _refuse(**possible: bool) -> None:
    """Refuse options that need all rows in memory."""
    for option, fine in possible.items():
        if not fine:
            raise ValueError(
                f"--{option} needs all rows in memory, but this table is read in chunks, for "
                "regression by mean squared error only. Omit the option, or fit a part of the "
                "table."
            )


def _split(names: list[str], columns: set[str]) -> list[str]:
    """Split lists at commas, except in names of columns."""
    return [
        name
        for item in names
        for name in ([item] if item in columns else map(str.strip, item.split(",")))
    ]


def _command() -> str:
    return shlex.join(["crosslearning", *sys.argv[1:]])


def _sizes(size: dict[str, int]) -> str:
    low, high = size["smallest"], size["largest"]
    return f"{low:,} rows each" if low == high else f"{low:,} to {high:,} rows"


def _print(fitted: TableModel, folder: Path, page: Path) -> None:
    from rich.console import Console

    results = fitted.results
    console = Console(highlight=False, markup=False, soft_wrap=True)
    size = results["size"]
    console.print(
        f"{results['title']}: {results['target_kind']} ({results['target_rule']}), "
        f"{size['rows']:,} rows, {size['tasks']:,} tasks of {_sizes(size)}, "
        f"{len(results['provenance']['columns'])} columns to learn from"
    )
    for note in results["notes"]:
        hint = " with --time" if "looks like a time" in note else ""
        console.print(f"  {note}{hint}")
    _print_models(console, results)
    _print_spread(console, results)
    console.print(results["sentence"], style="bold")
    model = results["chosen_model"]
    parts = ", ".join(f"{part['label']} {part['weight']:.0%}" for part in model["parts"])
    named = f"{model['label']}: {parts}" if len(model["parts"]) > 1 else model["label"]
    listed = f"{folder / 'coefficients.csv'}, of the model: {results['described_model']}"
    if fitted.coefficients is None:
        listed = "not written: there are more than a million"
    console.print(
        f"\nModel         {named}\nCoefficients  {listed}\nReport        {page}\n"
        f"Predict       crosslearning predict {shlex.quote(str(folder))} TABLE"
    )


def _print_models(console: Console, results: dict[str, Any]) -> None:
    from rich.table import Table

    from crosslearning.evaluation.numbers import number

    held_out = results.get("holdout", {}).get("scores", {})
    shown = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    shown.add_column("")
    for name in (results["score"]["name"], "worse by", *["held out"] * bool(held_out)):
        shown.add_column(name, justify="right")
    for row in results["models"]:
        worse = f"{number(row['difference'], 3)} ± {number(row['difference_error'], 2)}"
        cells = [number(row["score"]), "chosen" if row["chosen"] else worse]
        cells += [number(held_out[row["name"]])] if held_out else []
        shown.add_row(row["label"], *cells)
    console.print("", shown, sep="\n")
    console.print(f"({results['score']['explanation']})\n")


def _print_spread(console: Console, results: dict[str, Any]) -> None:
    """Print how much tasks differ, in the columns where they differ most."""
    from crosslearning.evaluation.numbers import number

    spread = results["spread"]
    rows = sorted(spread["features"], key=lambda row: -row["sd"])[:3]
    named = [(row["feature"], row) for row in rows if row["sd"] > 0]
    if spread["level"]["sd"] > 0:
        named.insert(0, ("level", spread["level"]))
    if named:
        parts = [
            f"{name} {number(row['sd'], 3)} ({number(row['low'], 3)} to {number(row['high'], 3)})"
            for name, row in named
        ]
        console.print(f"Tasks differ (standard deviations): {', '.join(parts)}")
