"""The commands ``predict``, for tables and images, and ``export``, for image networks."""

from __future__ import annotations

import json
import os
import sys
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crosslearning.cli.common import Quiet, spinner, warnings_in_a_line, writing
from crosslearning.wording import listed

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator, Sequence

    from crosslearning.images import Predictions
    from crosslearning.tables import Predicted


Source = Annotated[
    list[str],
    typer.Argument(
        help="CSV, TSV, Parquet or Excel file, gzipped or not; - for standard input. After "
        "`train`: image files and folders."
    ),
]
Out = Annotated[
    str,
    typer.Option(
        "--out", "-o", help="File (.csv, .tsv, .csv.gz, .parquet, .xlsx); - for standard output."
    ),
]
Coverage = Annotated[
    float | None,
    typer.Option(help="Probability that a target lies between lower and upper; 0.9 by default."),
]
Top = Annotated[
    int | None, typer.Option(help="Number of categories to list for each image; 1 by default.")
]


def predict(
    folder: Annotated[
        Path, typer.Argument(help="Folder that `crosslearning fit` or `crosslearning train` wrote.")
    ],
    table: Source,
    out: Out = "-",
    coverage: Coverage = None,
    task: Annotated[
        str | None, typer.Option(help="Domain of all images; by default that of their folder.")
    ] = None,
    top: Top = None,
    quiet: Quiet = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a summary as JSON; needs --out with a file.")
    ] = False,
) -> None:
    """Add predictions to the rows of a table, or classify images.

    Numeric predictions come with an interval and a standard deviation (quantiles with the latter
    alone), classes with probabilities. The centre predicts new tasks and rows without a label.
    Predictions are scored if the table contains the target, or if images are in folders named after
    categories. Images that cannot be read are reported and skipped.
    """
    if out == "-" and as_json:
        raise ValueError(
            "The table and --json cannot both go to standard output. Name a file with --out."
        )
    predicted: Any
    summary: Any
    if any((folder / "models").glob("seed-*.json")):  # written by `crosslearning train`
        _refuse("tables, not for images", **{"--coverage": coverage})
        predicted = _predict_images(folder, table, task, top or 1, hidden=quiet or as_json)
        summary, remarks = _image_summary, _image_remarks(predicted)
    else:
        _refuse("images, not for tables", **{"--task": task, "--top": top})
        with warnings_in_a_line(show=not quiet):
            predicted = _predict_table(folder, table, coverage, out)
        summary, remarks = _summary, _remarks(predicted)
    if predicted.table is not None:
        _write(predicted.table, out)
    if as_json:
        typer.echo(json.dumps({**summary(predicted), "file": out}, indent=2))
    elif not quiet:
        for line in remarks:
            typer.echo(line, err=True)
        if out != "-":
            rows = predicted.rows if predicted.table is None else len(predicted.table)
            typer.echo(f"{rows:,} predictions in {out}")


def _refuse(purpose: str, **options: Any) -> None:
    if names := [name for name, value in options.items() if value is not None]:
        raise ValueError(f"{names[0]} is for {purpose}.")


def _predict_table(folder: Path, tables: list[str], coverage: float | None, out: str) -> Predicted:
    """Predict a table; a large one is written in chunks."""
    from crosslearning.frames.reading import is_large, refuse_overwriting, separator_of
    from crosslearning.tables import TableModel, predict_files, predict_table

    try:
        model = TableModel.load(folder)
    except ValueError as error:
        command = f"crosslearning fit TABLE --task COLUMN --target COLUMN --out {folder}"
        raise ValueError(
            f"{error} `{command}` creates one; `crosslearning train` trains image networks."
        ) from error
    if coverage is not None and model.quantile is not None:
        raise ValueError(
            f"--coverage is for intervals, but this model predicts the {model.predicts}. Fit two "
            "quantiles: they are the ends of an interval."
        )
    if len(tables) > 1:
        raise ValueError(f"Only one table can be predicted at a time; got {len(tables)}.")
    coverage = 0.9 if coverage is None else coverage
    source, target = tables[0], sys.stdout.buffer if out == "-" else out
    if source != "-" and is_large(source):
        with _until_closed():
            return predict_files(model, source, target, coverage=coverage)
        raise typer.Exit
    refuse_overwriting(target, tables)
    rows, verbatim = sys.stdin.buffer if source == "-" else source, separator_of(target) is not None
    return predict_table(model, rows, coverage=coverage, verbatim=verbatim)


def _write(table: Any, out: str) -> None:
    from crosslearning.tables import write_table

    with _until_closed():
        write_table(table, sys.stdout.buffer if out == "-" else out)
        sys.stdout.buffer.flush()


def _predict_images(
    folder: Path, images: Sequence[str], task: str | None, top: int, *, hidden: bool
) -> Predictions:
    from crosslearning.images import predict

    described = min((folder / "models").glob("seed-*.json"))
    domains = json.loads(described.read_text(encoding="utf-8"))["domains"]
    if task is not None and task not in domains:
        raise ValueError(f"--task must be one of the domains {', '.join(domains)}; got {task!r}.")
    with spinner(show=not hidden) as say:
        return predict(folder, images, task=task, top=top, progress=partial(say, "Predicting"))


@contextmanager
def _until_closed() -> Iterator[None]:
    """Write until the reader closes the pipe."""
    try:
        yield
    except BrokenPipeError:
        # A reader such as `head` has enough; silence the interpreter on exit too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _summary(predicted: Predicted) -> dict[str, Any]:
    from crosslearning.archive import to_json

    unknown = predicted.unknown.most_common()
    return {
        "rows": predicted.rows,
        "unknown": [{"task": to_json(label), "rows": rows} for label, rows in unknown],
        "unknown_categories": predicted.categories,
        "outside_range": {"rows": predicted.outside_rows, "columns": predicted.outside},
        "untested": predicted.untested and predicted.untested._asdict(),
        "not_numbers": predicted.unread,
        "score": predicted.score and to_json(predicted.score._asdict()),
    }


def _image_summary(predicted: Predictions) -> dict[str, Any]:
    return {
        "images": len(predicted.table),
        "by_centre": predicted.by_centre,
        "unreadable": predicted.unreadable,
        "accuracy": predicted.accuracy,
    }


def _image_remarks(predicted: Predictions) -> Iterator[str]:
    """Name what was skipped and what the centre predicted, and the accuracy if known."""
    if count := len(predicted.unreadable):
        named = listed((f"{path} ({why})" for path, why in predicted.unreadable.items()), 5)
        yield f"Skipped because they cannot be read: {count:,}: {named}"
    if count := predicted.by_centre:
        belong = "image belongs" if count == 1 else "images belong"
        yield f"{count:,} {belong} to no training domain; predicted by the centre"
    if predicted.accuracy is not None:
        images = f"{int((predicted.table['truth'] != '').sum()):,} images in folders of categories"
        yield f"Accuracy: {100 * predicted.accuracy:.1f} % of {images}"


def _remarks(predicted: Predicted) -> Iterator[str]:
    """Name unknown values, and the score if the table has the target."""
    if rows := predicted.unknown.total():
        belong = "row belongs" if rows == 1 else "rows belong"
        named = _counted(predicted.unknown)
        yield f"{rows:,} {belong} to no known task; predicted by {predicted.fallback}: {named}"
    for column, values in predicted.categories.items():
        yield f"Unknown values of {column}: {_counted(values)}"
    if rows := predicted.outside_rows:
        named = _counted(predicted.outside)
        rows_with = "row with" if rows == 1 else "rows with"
        yield f"{rows:,} {rows_with} values outside the range of the fit: {named}"
    if late := predicted.untested:
        have = "row has" if late.rows == 1 else "rows have"
        yield (
            f"{late.rows:,} {have} a {late.column} after {late.until}, farther ahead than was "
            "tested: errors may be larger, and intervals too narrow"
        )
    if predicted.unread:
        yield f"Values that are not numbers count as missing: {_counted(predicted.unread)}"
    if score := predicted.score:
        from crosslearning.evaluation.numbers import number

        mean = f"{score.metric.capitalize()}, mean over tasks: {number(score.score)}"
        yield f"{mean} on {score.rows:,} rows with a target"


def _counted(counts: Counter[Any]) -> str:
    """Name what is most frequent, with its number of rows."""
    frequent = counts.most_common()
    return listed((f"{'no label' if name is None else name} ({n:,})" for name, n in frequent), 5)


def export(
    folder: Annotated[Path, typer.Argument(help="Folder that `crosslearning train` wrote.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write: .onnx or .safetensors.")],
    task: Annotated[
        str | None, typer.Option(help="Domain whose network to write; by default the centre.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Export the network of one image domain, for use without this library.

    It takes images of shape (n, 3, size, size) between 0 and 1, normalises them itself, and returns
    a score for each category. The file, an .onnx graph or parameters as .safetensors, is checked to
    give the same numbers.
    """
    from crosslearning.images import export as write

    with writing(out.parent):
        about = write(folder, out, task=task)
    if not quiet:
        name = "The centre" if task is None else task
        typer.echo(f"{name} in {out}: {json.dumps(about, ensure_ascii=False)}")
