"""The command ``crosslearning train``: networks for images, one per domain."""

from pathlib import Path
from typing import Annotated

import typer

from crosslearning.cli import image_options as option
from crosslearning.cli.image_sweep import configure, sweep

__all__ = ["train"]


def train(
    images: Annotated[
        str, typer.Argument(help="Folder domain/category/*.jpg, or icons65, which is shipped.")
    ],
    epsilon: Annotated[
        list[float] | None,
        typer.Option(
            "--epsilon", help="Radius: 0 pools, inf separates; may be repeated. By default several."
        ),
    ] = None,
    model: option.Model = None,
    epochs: option.Epochs = None,
    batch: option.Batch = None,
    image_size: option.ImageSize = None,
    learning_rate: option.LearningRate = None,
    seeds: option.Seeds = 1,
    seed: option.Seed = 0,
    train_fraction: option.TrainFraction = None,
    groups: option.Groups = None,
    train_list: option.TrainLists = None,
    test_list: option.TestLists = None,
    skip_unreadable: option.SkipUnreadable = False,
    out: option.Out = Path("crosslearning-train"),
    quiet: option.Quiet = False,
    as_json: option.AsJson = False,
) -> None:
    """Train one network per domain of images, none farther than a radius from their centre.

    Stopped and started again, it goes on where it was. The networks are saved in OUT/models.
    """
    config = configure(
        images,
        seed,
        seeds,
        radii=tuple(epsilon) if epsilon else None,
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
    sweep(
        config,
        images,
        out,
        folder_options,
        quiet=quiet,
        as_json=as_json,
        name=Path(images).name,
        keep_models=True,
    )
