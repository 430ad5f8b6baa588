"""The commands ``crosslearning reproduce ...``: results of the paper."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crosslearning.cli.common import AsJson, Quiet, print_fact, show_help_if_alone, writing
from crosslearning.cli.images import office_home

if TYPE_CHECKING:
    from crosslearning.paper.gaussian.experiment import GaussianResult

app = typer.Typer()


@app.callback(
    invoke_without_command=True, epilog="Example: crosslearning reproduce gaussian --gap 1"
)
def reproduce(context: typer.Context) -> None:
    """Reproduce a result of the paper."""
    show_help_if_alone(context)


app.command("office-home", epilog="Example: crosslearning reproduce office-home --data DIR")(
    office_home
)


@app.command(epilog="Example: crosslearning reproduce gaussian --gap 1 --samples 4 --out figures")
def gaussian(
    gap: Annotated[float, typer.Option(help="Difference of the true means.")] = 2.0,
    sigma: Annotated[float, typer.Option(help="Standard deviation of one sample.")] = 1.0,
    samples: Annotated[
        int, typer.Option(help="Samples per group (not simulations: see --realizations).")
    ] = 1,
    realizations: Annotated[
        int, typer.Option(help="Repetitions of the Monte Carlo simulation.")
    ] = 100_000,
    seed: Annotated[int, typer.Option(help="Seed of the simulation.")] = 0,
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", help="Folder for the figure (PNG, PDF) and its data (CSV, JSON)."
        ),
    ] = Path("crosslearning-gaussian"),
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Figure 1: the error of two Gaussian means against the gap allowed between them.

    Computes the closed form, simulates it, draws both and checks the two claims of the paper.
    """
    from crosslearning import report
    from crosslearning.paper.gaussian import experiment

    config = experiment.GaussianConfig(gap, sigma, samples, realizations, seed)
    with writing(out):
        result = experiment.run(config, out)
        report.draw(out)
    if as_json:
        typer.echo(json.dumps(asdict(result), indent=2))
    elif not quiet:
        _print(result, out)


def _print(result: "GaussianResult", out: Path) -> None:
    beneficial = f"every max_gap above {result.beneficial_from:.5g}"
    if result.beneficial_from == 0:
        beneficial = "every max_gap > 0"
        if result.consensus < result.agnostic:
            beneficial = "every max_gap, consensus too"
    verdicts = {True: "holds", False: "does not hold"}
    equal = " The means are equal, so consensus is best; the claim needs a gap above 0."
    remarks = ("", equal if result.config.gap == 0 else "")
    typer.echo(
        f"Mean squared error of two means {result.config.gap:g} apart, "
        f"sample means of standard deviation {result.sigma_m:.5g}"
    )
    for name, text in (
        ("Minimum", f"{result.minimum:.5g} at max_gap {result.minimum_at:.5g}"),
        ("At the true gap", f"{result.at_gap:.5g}"),
        ("Consensus", f"{result.consensus:.5g} (max_gap 0)"),
        ("Agnostic", f"{result.agnostic:.5g} (no bound)"),
        ("Beats agnostic", beneficial),
        ("Monte Carlo", f"within {result.monte_carlo_deviation:.2f} standard errors everywhere"),
        *(
            (f"Claim {k}", f"{verdicts[claim.holds]}: {claim.statement}{remark}")
            for k, (claim, remark) in enumerate(zip(result.claims, remarks, strict=True), 1)
        ),
        ("Figure", f"{out / 'gaussian.png'} and .pdf"),
        ("Data", f"{out / 'gaussian.csv'} and .json"),
    ):
        print_fact(f"  {name}", text, width=17)
