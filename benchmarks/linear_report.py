"""What the measurements of the linear models look like: a page and a figure."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from linear_instance import RADIUS
from matplotlib.figure import Figure
from projection_report import _table, _time, _times

if TYPE_CHECKING:
    from pathlib import Path

SOLVER, ESTIMATOR = 20, 10  # times faster than CVXPY, as expected
PACKAGES = ("crosslearning", "numpy", "scikit-learn", "cvxpy", "clarabel", "statsmodels")
NOTES = f"""
Expected: the solver at least {SOLVER}×, the estimator at least {ESTIMATOR}× faster than CVXPY.

- ε is {RADIUS} of its right end, by block if there are two (coefficients, intercept); α = 1.
- *solver*: `ConvexProblem.fit`, given Gram matrices (ridge) or rows (logistic); *estimator*: all of
  `fit`, checks of its input included, but not `epsilon_max_`, which is worked out when asked for.
- CVXPY is given a loss and bounds for each task, as one would write it (*task by task*); the rows
  as one block-diagonal matrix (*vectorised*); or triangular factors in place of the rows, as our
  solver is given Gram matrices (*compressed*). In parentheses: Clarabel's own time, and its ratios;
  that time is by the clock, which other programs lengthen, all others are of the processor.
- f of CVXPY's point, made feasible, is its excess over ours relative to 1 + |f|.
"""


def verdict(ratio: float, expected: float) -> str:
    return _times(ratio) + ("" if ratio >= expected else " **missed**")


def figure(grown: dict[str, list[Any]], path: Path) -> None:
    drawing = Figure(figsize=(11, 3.8), layout="constrained")
    panels = drawing.subplots(1, len(grown), sharey=True)
    for k, (axes, (label, rows)) in enumerate(zip(panels, grown.items(), strict=True)):
        sizes, solver, estimator, _ = zip(*rows, strict=True)
        varied = [size[k] for size in sizes]
        axes.loglog(varied, estimator, "o-", color="C3", label="CrossRidge.fit")
        axes.loglog(varied, solver, "s--", color="0.5", label="solver alone")
        axes.set(xlabel=label, ylabel="" if k else "seconds")
        axes.xaxis.set_minor_formatter("")
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].legend(frameon=False, loc="upper left")
    drawing.savefig(path, format="png", dpi=150)


def table(head: str, rows: list[list[str]]) -> str:
    return "\n".join(_table(head.split(", "), rows))


def page(cvxpy: list[list[str]], mixed: list[list[str]], grown: list[Any]) -> str:
    machine = f"{platform.machine()}, {os.cpu_count()} cores, BLAS on one thread"
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    command = " ".join(["python benchmarks/linear.py", *sys.argv[1:]])
    sizes = [
        [*map("{:,}".format, size), _time(s), _time(e), str(x.n_iter), f"{x.kkt_residual:.0e}"]
        for size, s, e, x in grown
    ]
    return f"""# The linear models, measured

`{command}` wrote this page and its figure. {machine}; Python
{platform.python_version()}, {versions}.
Load of the last 15 minutes: {os.getloadavg()[2]:.1f}, where 1 is this program alone. Times are
medians of up to 9 turns (one with `--quick`) in which all methods of a comparison take part.

## Against CVXPY and Clarabel
{NOTES}
{table("problem, method, time, × solver, × estimator, remarks", cvxpy)}

## Against mixed models

Expected: at least as fast.

{table("hsb82, time, `MixedLM`, its time, times faster, remarks", mixed)}

## How the time grows

![Time against tasks, rows and features](linear.png)

{table("tasks, rows, features, solver, estimator, steps, KKT residual", sizes)}
"""
