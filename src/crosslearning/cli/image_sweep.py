"""Training on images from the command line: loading, progress and what is printed."""

from __future__ import annotations

import json
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from crosslearning.cli.common import writing
from crosslearning.cli.progress import progress_bars
from crosslearning.extras import missing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rich.progress import Progress as Bars

    from crosslearning.cli.image_options import ImageOptions
    from crosslearning.datasets import ImageData
    from crosslearning.images.settings import TrainingSettings

__all__ = ["ICONS", "describe", "require_torch", "sweep"]

ICONS = "icons65"
_LONG = ("runs", "categories", "confusion")  # parts of the results that a summary leaves out


def sweep(
    train: Callable[..., dict[str, Any]],
    settings: TrainingSettings,
    images: str,
    options: ImageOptions,
    out: Path,
) -> None:
    """Load images, train, draw, and print."""
    require_torch()
    about_files = options.about_files(shipped=images == ICONS)
    from crosslearning import report
    from crosslearning.cli import image_tables

    with progress_bars(show=not options.hidden) as bars:
        data = _load(images, settings.image_size, about_files, bars)
    if not options.hidden:
        image_tables.print_counts(settings, data)
    command = shlex.join(["crosslearning", *sys.argv[1:]])
    with progress_bars(show=not options.hidden) as bars, writing(out):
        shown = {"name": Path(images).name, "progress": _show(bars), "command": command}
        results = train(data, out, settings, **shown)
        report.draw(out)
        report.write(out)
    if options.as_json:
        typer.echo(json.dumps({k: v for k, v in results.items() if k not in _LONG}, indent=2))
    elif not options.quiet:
        image_tables.print_results(results, out)


def require_torch() -> None:
    """Say what to install where torch is missing, before any work is done."""
    if find_spec("torch") is None:
        raise missing("Training networks", "torch")


def _load(images: str, size: int, options: Mapping[str, Any], bars: Bars) -> ImageData:
    from crosslearning.datasets import load_icons65
    from crosslearning.images import ImageDomains

    task = bars.add_task("Reading images", total=None, visible=False)

    def show(done: int, total: int) -> None:
        bars.update(task, completed=done, total=total, visible=done < total)

    data = load_icons65() if images == ICONS else ImageDomains(images, progress=show, **options)
    data.pixels(size, progress=show)
    return data


def _show(bars: Bars) -> Callable[[dict[str, Any]], None]:
    """Show a sweep: which run, how much of all, and the time left."""
    task = bars.add_task("Training", total=None)

    def show(now: dict[str, Any]) -> None:
        done, total = (now["run"] - 1) * now["epochs"] + now["epoch"], now["runs"] * now["epochs"]
        bars.update(task, completed=done, total=total, description=describe(now))

    return show


def describe(now: dict[str, Any]) -> str:
    """Which run of a sweep is at work, and which epoch of it."""
    from crosslearning.evaluation.numbers import radius_name

    which = f"ε = {radius_name(now['epsilon'])}, seed {now['seed']}"
    run = f"Run {now['run']} of {now['runs']} ({which})"
    return f"{run}, epoch {now['epoch']} of {now['epochs']}"
