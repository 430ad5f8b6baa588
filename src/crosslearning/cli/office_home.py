"""The command ``crosslearning reproduce office-home``: the paper's experiment with images."""

from pathlib import Path
from typing import Annotated

import typer

from crosslearning.cli import image_options as option
from crosslearning.cli.image_sweep import ICONS, configure, sweep
from crosslearning.experiments.office_home.reported import reported

__all__ = ["office_home"]


def office_home(
    data: Annotated[
        Path | None,
        typer.Option(help="Folder of Office-Home; without it, icons65, which is shipped."),
    ] = None,
    radii: Annotated[
        str | None, typer.Option(help="Radii separated by commas, such as 0,1e-6,inf.")
    ] = None,
    model: option.Model = None,
    epochs: option.Epochs = None,
    batch: option.Batch = None,
    image_size: option.ImageSize = None,
    learning_rate: option.LearningRate = None,
    seeds: option.Seeds = None,
    seed: option.Seed = 0,
    train_fraction: option.TrainFraction = None,
    groups: option.Groups = None,
    train_list: option.TrainLists = None,
    test_list: option.TestLists = None,
    skip_unreadable: option.SkipUnreadable = False,
    out: option.Out = Path("crosslearning-office-home"),
    quiet: option.Quiet = False,
    as_json: option.AsJson = False,
) -> None:
    """Figures 2 to 4: accuracy of cross-learned networks against the radius.

    With --data it runs the paper's configuration, which takes days on a processor; scale it down
    with the options. Without, it runs on icons of the same 65 categories in 4 styles, with a small
    network and one seed: less than 15 minutes on two processors. Stopped and started again, it
    goes on where it was.
    """
    images = ICONS if data is None else str(data)
    if data is None and not quiet and not as_json:
        typer.echo(
            "Office-Home is not shipped: this runs on icons65, with a small network. Give the "
            "folder of Office-Home with --data for the paper's experiment."
        )
    config = configure(
        images,
        seed,
        seeds,
        radii=_parse(radii),
        model=model,
        epochs=epochs,
        batch=batch,
        image_size=image_size,
        learning_rate=learning_rate,
        train_fraction=train_fraction,
    )
    folder_options = {
        "groups": groups,
        "train_lists": train_list,
        "test_lists": test_list,
        "skip_unreadable": skip_unreadable,
    }
    name = ICONS if data is None else data.name
    sweep(
        config,
        images,
        out,
        folder_options,
        quiet=quiet,
        as_json=as_json,
        name=name,
        reported=reported(),
    )


def _parse(radii: str | None) -> tuple[float, ...] | None:
    try:
        return None if radii is None else tuple(float(part) for part in radii.split(","))
    except ValueError:
        raise ValueError(
            f"`radii` must be numbers separated by commas, such as 0,1e-6,inf; got {radii!r}."
        ) from None
