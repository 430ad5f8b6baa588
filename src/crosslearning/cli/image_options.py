"""Options shared by the image commands; the settings supply the defaults."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crosslearning.cli.common import AsJson, Quiet

if TYPE_CHECKING:
    from crosslearning.images import TrainingSettings


Seeds = Annotated[
    int | None,
    typer.Option(
        "--seeds", min=1, help="Number of seeds; each has its own split and initial values."
    ),
]
Out = Annotated[
    Path,
    typer.Option(
        "--out", "-o", help="Folder for results and figures; an interrupted run resumes there."
    ),
]

_SETTINGS = (
    "model", "epochs", "pooled_share", "batch", "image_size", "learning_rate", "train_fraction",
    "augment", "flip",
)  # fmt: skip
_ABOUT_FILES = ("groups", "train_list", "test_list", "skip_unreadable")


@dataclass(frozen=True)
class ImageOptions:
    """The shared options."""

    seed: Annotated[int, typer.Option(min=0, help="The first seed.")] = 0
    model: Annotated[
        str | None,
        typer.Option(help="Network: batchnorm_cnn, small_cnn or package.module:function."),
    ] = None
    epochs: Annotated[int | None, typer.Option(help="Passes over the largest domain.")] = None
    pooled_share: Annotated[
        float | None,
        typer.Option(help="Share of the epochs, the first ones, in which all domains are pooled."),
    ] = None
    batch: Annotated[int | None, typer.Option(help="Images per domain and step.")] = None
    image_size: Annotated[int | None, typer.Option(help="Height and width in pixels.")] = None
    learning_rate: Annotated[float | None, typer.Option(help="Learning rate.")] = None
    train_fraction: Annotated[
        float | None, typer.Option(help="Fraction of the training images to use.")
    ] = None
    augment: Annotated[
        bool | None, typer.Option(help="Randomly shift, mirror and recolour training images.")
    ] = None
    flip: Annotated[
        bool | None, typer.Option(help="Allow mirroring; disable it if left and right matter.")
    ] = None
    groups: Annotated[
        Path | None, typer.Option(help="CSV with columns path and group; a group is never split.")
    ] = None
    train_list: Annotated[
        list[Path] | None,
        typer.Option(help="Text file that lists training images; may be repeated."),
    ] = None
    test_list: Annotated[
        list[Path] | None, typer.Option(help="Text file that lists test images; may be repeated.")
    ] = None
    skip_unreadable: Annotated[
        bool, typer.Option("--skip-unreadable", help="Skip images that cannot be read.")
    ] = False
    quiet: Quiet = False
    as_json: AsJson = False

    @property
    def hidden(self) -> bool:
        """Whether to show no progress and no tables."""
        return self.quiet or self.as_json

    def about_files(self, *, shipped: bool) -> dict[str, Any]:
        """Options of `ImageDomains`, refused for the packaged pictures."""
        options = {name: getattr(self, name) for name in _ABOUT_FILES if getattr(self, name)}
        if shipped and options:
            listed = ", ".join("--" + name.replace("_", "-") for name in options)
            raise ValueError(
                f"Options about files need a folder of images; got {listed} for pictures32. "
                "Omit them, or pass a folder."
            )
        return {name.replace("_list", "_lists"): value for name, value in options.items()}

    def configure(
        self, base: "TrainingSettings", epsilons: Sequence[float] | None, seeds: int | None
    ) -> "TrainingSettings":
        """Return the settings, overridden by the given options."""
        options = {name: getattr(self, name) for name in _SETTINGS}
        options["epsilons"] = tuple(epsilons) if epsilons else None
        options["seeds"] = tuple(range(self.seed, self.seed + (seeds or len(base.seeds))))
        return replace(
            base, **{name: value for name, value in options.items() if value is not None}
        )


def with_image_options(command: Callable[..., None]) -> Callable[..., None]:
    """Show typer the shared options in place of the command's parameter ``options``."""
    shared = inspect.signature(ImageOptions).parameters
    specific = inspect.signature(command).parameters
    parameters = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for name, parameter in {**specific, **shared}.items()
        if name != "options"
    ]

    def run(**values: Any) -> None:
        options = ImageOptions(**{name: values.pop(name) for name in shared})
        command(options=options, **values)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    return run
