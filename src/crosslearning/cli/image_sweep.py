"""Training on images from the command line: loading, progress and what is printed."""

from __future__ import annotations

import json
import shlex
import sys
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from crosslearning.extras import missing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from rich.progress import Progress as Bars

    from crosslearning.cli.image_options import ImageOptions
    from crosslearning.datasets import ImageData
    from crosslearning.images.settings import TrainingSettings

__all__ = ["ICONS", "configure", "describe", "require_torch", "sweep"]

ICONS = "icons65"
_LONG = ("runs", "categories", "confusion")  # parts of the results that a summary leaves out


def configure(
    base: TrainingSettings,
    epsilons: Sequence[float] | None,
    seeds: int | None,
    options: ImageOptions,
) -> TrainingSettings:
    """Return the settings with the options that were given in their place."""
    first, count = options.seed, seeds or len(base.seeds)
    given = {**options.settings, "seeds": tuple(range(first, first + count))}
    if epsilons:
        given["epsilons"] = tuple(epsilons)
    return replace(base, **given)


def sweep(
    train: Callable[..., dict[str, Any]],
    settings: TrainingSettings,
    images: str,
    options: ImageOptions,
    out: Path,
) -> None:
    """Load images, train, draw, and print."""
    require_torch()
    if images == ICONS:
        _refuse_about_files(options)
    from crosslearning import report

    command = shlex.join(["crosslearning", *sys.argv[1:]])
    with _bars(options.hidden) as bars:
        data = _load(images, settings.image_size, options.about_files, bars)
    if not options.hidden:
        from crosslearning.cli.image_tables import print_counts

        print_counts(settings, data)
    with _bars(options.hidden) as bars:
        try:
            shown = {"name": Path(images).name, "progress": _show(bars), "command": command}
            results = train(data, out, settings, **shown)
            report.draw(out)
            report.write(out)
        except OSError as error:
            reason = error.strerror or error
            raise OSError(
                f"Cannot write to {out}: {reason}. Choose another folder with --out."
            ) from error
    if options.as_json:
        typer.echo(json.dumps({k: v for k, v in results.items() if k not in _LONG}, indent=2))
    elif not options.quiet:
        from crosslearning.cli.image_tables import print_results

        print_results(results, out)


def require_torch() -> None:
    """Say what to install where torch is missing, before any work is done."""
    if find_spec("torch") is None:
        raise missing("Training networks", "torch")


def _refuse_about_files(options: ImageOptions) -> None:
    """Refuse options about files where there are none."""
    names = ("groups", "train_list", "test_list", "skip_unreadable")
    given = [name for name in names if getattr(options, name)]
    if given:
        listed = ", ".join("--" + name.replace("_", "-") for name in given)
        raise ValueError(
            f"Only folders of images take options about files; got {listed} for {ICONS}. "
            "Leave them out or give a folder."
        )


@contextmanager
def _bars(hidden: bool) -> Iterator[Bars]:
    """Bars on the error stream that vanish when all is done."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    text = TextColumn("{task.description}")
    columns = (text, BarColumn(bar_width=24), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), disable=hidden, transient=True) as bars:
        yield bars


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
