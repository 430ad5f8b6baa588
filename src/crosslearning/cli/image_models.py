"""Predictions of trained image networks, and the command ``export``."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crosslearning.cli.common import Quiet, writing
from crosslearning.cli.progress import progress_bars
from crosslearning.wording import listed

if TYPE_CHECKING:
    from crosslearning.images import Predictions

__all__ = ["export", "holds_networks", "predict_images", "print_remarks"]


def holds_networks(folder: Path) -> bool:
    """Whether a folder was written by `crosslearning train`."""
    return any((folder / "models").glob("seed-*.json"))


def predict_images(
    folder: Path, images: Sequence[str], task: str | None, top: int, *, hidden: bool
) -> "Predictions":
    """Predict images, with a progress bar."""
    from crosslearning.images import predict

    with progress_bars(show=not hidden) as bars:
        bar = bars.add_task("Predicting", total=None)
        return predict(
            folder,
            images,
            task=task,
            top=top,
            progress=lambda done, total: bars.update(bar, completed=done, total=total),
        )


def print_remarks(predicted: "Predictions") -> None:
    """Print what was skipped, what the centre predicted, and the accuracy if known."""
    if count := len(predicted.unreadable):
        named = listed((f"{path} ({why})" for path, why in predicted.unreadable.items()), 5)
        typer.echo(f"Skipped because they cannot be read: {count:,}: {named}", err=True)
    if count := predicted.by_centre:
        belong = "image belongs" if count == 1 else "images belong"
        typer.echo(f"{count:,} {belong} to no training domain; predicted by the centre", err=True)
    if predicted.accuracy is not None:
        images = f"{int((predicted.table['truth'] != '').sum()):,} images in folders of categories"
        typer.echo(f"Accuracy: {100 * predicted.accuracy:.1f} % of {images}", err=True)


def export(
    folder: Annotated[Path, typer.Argument(help="Folder that `crosslearning train` wrote.")],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="File to write: .onnx, .pt2 or .safetensors.")
    ],
    task: Annotated[
        str | None, typer.Option(help="Domain whose network to write; by default the centre.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Export the network of one image domain, for use without this library.

    It takes images of shape (n, 3, size, size) between 0 and 1, normalises them itself, and returns
    a score for each category. The file, an .onnx graph, a .pt2 program for torch.export.load, or
    parameters as .safetensors, is checked to give the same numbers.
    """
    from crosslearning.images import export as write

    with writing(out.parent):
        about = write(folder, out, task=task)
    if not quiet:
        name = "The centre" if task is None else task
        typer.echo(f"{name} in {out}: {json.dumps(about, ensure_ascii=False)}")
