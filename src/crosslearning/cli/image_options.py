"""Options that the commands about images share; what is not given is left to the settings."""

from pathlib import Path
from typing import Annotated

import typer

Model = Annotated[str | None, typer.Option("--model", help="Network: alexnet256 or small_cnn.")]
Epochs = Annotated[int | None, typer.Option("--epochs", help="Passes over the largest domain.")]
Batch = Annotated[int | None, typer.Option("--batch", help="Images per domain and step.")]
ImageSize = Annotated[int | None, typer.Option("--image-size", help="Height and width in pixels.")]
LearningRate = Annotated[
    float | None, typer.Option("--learning-rate", help="Length of the gradient steps.")
]
Seeds = Annotated[
    int | None,
    typer.Option("--seeds", min=1, help="How many seeds: splits of the images, and starts."),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="The first seed.")]
TrainFraction = Annotated[
    float | None,
    typer.Option("--train-fraction", help="Share of the training images to use, up to 1."),
]
SkipUnreadable = Annotated[
    bool, typer.Option("--skip-unreadable", help="Leave out images that cannot be read.")
]
Groups = Annotated[
    Path | None,
    typer.Option("--groups", help="CSV with columns path and group: images never split apart."),
]
TrainLists = Annotated[
    list[Path] | None,
    typer.Option("--train-list", help="Text file that names training images; may be repeated."),
]
TestLists = Annotated[
    list[Path] | None,
    typer.Option("--test-list", help="Text file that names test images; may be repeated."),
]
Out = Annotated[
    Path, typer.Option("--out", help="Folder for results and figures; a stopped run goes on there.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the summary as JSON and nothing else.")]
