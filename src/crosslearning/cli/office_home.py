"""The command ``crosslearning reproduce office-home``: the paper's experiment with images."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from crosslearning.cli.image_options import ImageOptions, Out, Seeds, with_image_options
from crosslearning.cli.image_sweep import ICONS, configure, sweep

__all__ = ["office_home"]


@with_image_options
def office_home(
    options: ImageOptions,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder of Office-Home; without it, icons65, which is shipped."),
    ] = None,
    radii: Annotated[
        str | None, typer.Option(help="Radii separated by commas, such as 0,1e-6,inf.")
    ] = None,
    seeds: Seeds = None,
    out: Out = Path("crosslearning-office-home"),
) -> None:
    """Figures 2 to 4: accuracy of cross-learned networks against the radius.

    With --data it runs the paper's configuration, which takes days on a processor; scale it down
    with the options. Without, it runs on icons of the same 65 categories in 4 styles, with a small
    network and one seed: less than 15 minutes on two processors. Stopped and started again, it
    goes on where it was.
    """
    from crosslearning.paper.office_home import run, shipped_config

    images = ICONS if data is None else str(data)
    if data is None and not options.hidden:
        typer.echo(
            "Office-Home is not shipped: this runs on icons65, with a small network. Give the "
            "folder of Office-Home with --data for the paper's experiment."
        )
    base = shipped_config("icons65" if data is None else "paper")
    settings = configure(base, _parse(radii), seeds, options)
    if settings.model == "alexnet256":
        settings = replace(settings, model="crosslearning.paper:alexnet256")
    sweep(run, settings, images, options, out)


def _parse(radii: str | None) -> tuple[float, ...] | None:
    try:
        return None if radii is None else tuple(float(part) for part in radii.split(","))
    except ValueError:
        raise ValueError(
            f"`radii` must be numbers separated by commas, such as 0,1e-6,inf; got {radii!r}."
        ) from None
