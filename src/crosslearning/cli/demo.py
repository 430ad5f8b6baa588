"""The commands about packaged data: ``demo``, three examples in one report, and ``data``."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from crosslearning.cli import common
from crosslearning.cli.common import AsJson, Quiet, one_of
from crosslearning.cli.images import step
from crosslearning.extras import require

Say = Callable[..., None]
data_app = typer.Typer()

_NAMES = "hsb82", "ames", "pictures32"
_RADII = 0.0, 0.3, 1.0, float("inf")
_SETTINGS: dict[str, Any] = {"image_size": 32, "epochs": 8, "train_fraction": 0.5}


def demo(
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for the results and the report.")
    ] = Path("crosslearning-demo"),
    seed: Annotated[int, typer.Option(help="Seed of folds, training and simulation.")] = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """See what cross-learning does: schools, pictures and the paper's figure, in one report.

    Learns how much 160 schools differ, trains networks on photographs, sketches, emoji and
    icons at several radii, computes the error of two Gaussian means, and writes one report about
    all three.
    """
    require("The demo", "torch")
    from crosslearning import report

    shown = not (quiet or as_json)
    with common.spinner(show=shown) as say, common.warnings_in_a_line():
        learned = {
            "schools": _schools(out / "1-schools", seed, say),
            "pictures": _pictures(out / "2-pictures", seed, say),
            "means": _means(out / "3-means", seed, say),
        }
        say("Writing the report")
        page = report.write(out)
    if as_json:
        typer.echo(json.dumps({**learned, "report": str(page)}, indent=2))
    elif shown:
        for name, sentence in learned.items():
            common.print_fact(name.capitalize(), f"{sentence}\n")
        common.print_fact("Report", page)


def _schools(folder: Path, seed: int, say: Say) -> str:
    from crosslearning.datasets import load_hsb82
    from crosslearning.tables import fit_table

    say("Schools: learning how much they differ")
    model = fit_table(
        load_hsb82().frame,
        task="school",
        target="math",
        seed=seed,
        command="crosslearning data export hsb82 pupils && "
        f"crosslearning fit pupils/hsb82.csv --task school --target math --seed {seed}",
    )
    model.save(folder)
    findings = model.findings
    assert findings is not None  # unlike those of a stored model
    remarks = [f"{remark.lead}: {remark.text}" for remark in findings.remarks[:1]]
    return " ".join([findings.sentence, *remarks])


def _pictures(folder: Path, seed: int, say: Say) -> str:
    """Say how many of 100 test pictures, 25 of each kind, each training names correctly."""
    from crosslearning.datasets import load_pictures32
    from crosslearning.images import TrainingSettings, train

    options = [f"--{name.replace('_', '-')} {value:g}" for name, value in _SETTINGS.items()]
    options += [f"--epsilon {radius:g}" for radius in _RADII]
    results = train(
        load_pictures32(),
        folder,
        TrainingSettings(**_SETTINGS, epsilons=_RADII, seeds=(seed,)),
        name="pictures32",
        progress=lambda now: say(*step(now)),
        command=f"crosslearning train pictures32 {' '.join(options)} --seed {seed}",
    )
    named = {row["method"]: f"{100 * row['test']['mean']:.0f}" for row in results["comparison"]}
    return (
        "Of 100 pictures that were not trained on, 25 photographs, 25 sketches, 25 emoji and 25 "
        f"icons, one network for all names {named['pooled']} correctly, a network for each kind "
        f"{named['separate']}, and networks within ε of a common centre {named['cross']}, in one "
        "run with ε chosen on other pictures."
    )


def _means(folder: Path, seed: int, say: Say) -> str:
    from crosslearning.paper.gaussian import experiment as gaussian

    say("Means: simulating the paper's Figure 1")
    result = gaussian.run(gaussian.GaussianConfig(seed=seed), folder)
    return (
        f"Two means {result.config.gap:g} apart are estimated with an error of "
        f"{result.agnostic:.3g} alone, {result.consensus:.3g} pooled, and {result.minimum:.3g} at "
        "the best radius, as the paper says."
    )


@data_app.callback(invoke_without_command=True, epilog="Example: crosslearning data list")
def data(context: typer.Context) -> None:
    """List or export the packaged data sets."""
    common.show_help_if_alone(context)


@data_app.command("list", epilog="Example: crosslearning data list --json")
def list_(as_json: AsJson = False) -> None:
    """List the data sets with their rows or images, tasks and licence."""
    from crosslearning.datasets.export import LOADERS, describe

    data_sets = [describe(name) for name in LOADERS]
    if as_json:
        typer.echo(json.dumps(data_sets, indent=2))
        return
    for one in data_sets:
        size = f"{one['rows']:,} rows, {one['tasks']} tasks ({one['task']})"
        common.print_fact(one["name"], f"{size}; {one['licence']}", width=10)


@data_app.command(
    epilog="Example: crosslearning data export pictures32 pictures, "
    "crosslearning data export hsb82 pupils --format parquet"
)
def export(
    name: Annotated[
        str, typer.Argument(help="hsb82, ames or pictures32.", autocompletion=one_of(*_NAMES))
    ],
    folder: Annotated[Path, typer.Argument(help="New folder for the files and their notices.")],
    file_format: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="csv or parquet for a table, png or jpeg for pictures.",
            autocompletion=one_of("csv", "parquet", "png", "jpeg"),
            show_default=False,
        ),
    ] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Write a data set to a new folder: a table as one file, pictures as domain/category/*.png.

    The file groups.csv next to the pictures keeps the same drawing on one side of a split, and
    states source and licence of each picture.
    """
    from crosslearning.datasets.export import export as write

    with common.writing(folder, option=""):
        path = write(name, folder, file_format)
    if as_json:
        typer.echo(json.dumps({"name": name, "path": str(path)}))
    elif not quiet:
        typer.echo(f"Wrote {path}; origin and licence: {folder / 'NOTICES.md'}")
