"""Figure 1 of the paper: the error of two cross-learned means against the gap allowed to them.

The paper's settings are the defaults: true gap 2, ``sigma_m`` 1, 100,000 realisations.
"""

import csv
import math
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from crosslearning.files import AnyPath, replacing, write_json
from crosslearning.paper import gaussian

_COLUMNS = ("max_gap", "mse", "monte_carlo", "standard_error")


@dataclass(frozen=True)
class GaussianConfig:
    """Settings of the experiment."""

    gap: float = 2.0  # of the true means
    sigma: float = 1.0  # of one sample
    samples: int = 1  # per group
    realizations: int = 100_000
    seed: int = 0

    def __post_init__(self) -> None:
        gaussian.number("gap", self.gap)
        gaussian.number("sigma", self.sigma)
        for name, least in {"samples": 1, "realizations": 2, "seed": 0}.items():
            if not least <= getattr(self, name) < 2**63:
                raise ValueError(
                    f"`{name}` must be at least {least} and below 2**63; got "
                    f"{getattr(self, name)}. The default is {getattr(type(self), name)}."
                )

    @property
    def sigma_m(self) -> float:
        """Standard deviation of a sample mean."""
        return self.sigma / math.sqrt(self.samples)

    def grid(self) -> NDArray[np.float64]:
        """Return 61 values of ``max_gap`` around the gap, and 20 below if these start late."""
        start, end = max(0.0, self.gap - 4 * self.sigma_m), self.gap + 4 * self.sigma_m
        if not 0 < start < end:
            return np.linspace(0.0, end, 61)
        approach = np.linspace(0.0, start, 20, endpoint=False)
        return np.concatenate([approach, np.linspace(start, end, 61)])


@dataclass(frozen=True)
class Claim:
    """A statement of the paper, and whether it holds here."""

    statement: str
    holds: bool


@dataclass(frozen=True)
class GaussianResult:
    """The summary; errors are mean squared errors of one estimate."""

    config: GaussianConfig
    sigma_m: float
    consensus: float
    agnostic: float
    minimum: float
    minimum_at: float
    at_gap: float
    beneficial_from: float
    monte_carlo_deviation: float
    claims: tuple[Claim, Claim]


def run(config: GaussianConfig, folder: AnyPath) -> GaussianResult:
    """Compute the curve; write ``gaussian.csv`` and ``gaussian.json`` to ``folder``."""
    truth, grid = (config.gap, config.sigma_m), config.grid()
    exact = gaussian.mse(grid, *truth)
    options = {"realizations": config.realizations, "seed": config.seed}
    simulated = gaussian.monte_carlo(grid, *truth, **options)
    best = gaussian.best_max_gap(*truth)
    ends = [0.0, best, config.gap, math.inf]
    consensus, minimum, at_gap, agnostic = gaussian.mse(ends, *truth).tolist()
    first = "At the true gap the error is at most 3/4 of the agnostic one."
    second = "Some max_gap > 0 is strictly better than consensus."
    # By the slope at 0: for a small gap the two errors agree to the last digit.
    better = bool(gaussian.mse_derivative(0.0, *truth) < 0)
    # In standard errors, where these exceed rounding.
    difference, error = np.abs(simulated.mse - exact), simulated.standard_error
    deviations = np.divide(difference, error, out=0 * error, where=error > 1e-14 * exact)
    result = GaussianResult(
        config=config,
        sigma_m=config.sigma_m,
        consensus=consensus,
        agnostic=agnostic,
        minimum=minimum,
        minimum_at=best,
        at_gap=at_gap,
        beneficial_from=gaussian.beneficial_from(*truth),
        monte_carlo_deviation=float(deviations.max()),
        claims=(Claim(first, at_gap <= 0.75 * agnostic * (1 + 1e-12)), Claim(second, better)),
    )
    curve, folder = np.column_stack([grid, exact, *simulated]), Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / "gaussian.csv") as path, path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([_COLUMNS, *curve.tolist()])
        write_json(folder / "gaussian.json", asdict(result), indent=2)
    return result
