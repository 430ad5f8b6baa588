"""Tables and a figure of what benchmarks/projection.py measured."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

PACKAGES = ("crosslearning", "numpy", "cvxpy", "clarabel", "scs")
EXPECTED = 100  # times faster than the others, on (4, 10⁵)
EXPECTED_AT = (4, 10**5)


@dataclass(frozen=True)
class Row:
    """One method: seconds, and distances to the exact solution in units of ε."""

    method: str
    seconds: float | None
    tasks: float | None = None
    center: float | None = None
    remark: str = ""
    proven: bool = False  # the distances are bounds
    finished: bool = True  # or stopped before it was close

    def cells(self, unit: float) -> list[str]:
        if self.seconds is None:
            return [self.method, "–", "–", "–", "–", self.remark]
        sign = "≤ " if self.proven else ""
        off = ["–" if x is None else f"{sign}{x:.1e}" for x in (self.tasks, self.center)]
        ratio = self.ratio(unit)
        remark = self.remark if self.finished else f"{self.remark}, not close yet"
        return [self.method, _time(self.seconds), ratio, *off, remark]

    def ratio(self, unit: float) -> str:
        return ("" if self.finished else "> ") + _times(self.seconds / unit)


@dataclass(frozen=True)
class Case:
    """All methods on one problem; the first row is Newton's."""

    n_tasks: int
    n_parameters: int
    radius: float
    n_active: int
    rows: list[Row]
    references: list[Row]

    def markdown(self) -> Iterator[str]:
        yield (
            f"\n### N = {self.n_tasks:,}, S = {self.n_parameters:,}, "
            f"ε = {self.radius} × median distance ({self.n_active} tasks active)\n"
        )
        rows = self.rows + self.references
        head = ("method", "time", "× `project`", "task error", "centre error", "remarks")
        yield from _table(head, (row.cells(self.rows[0].seconds) for row in rows))

    def verdicts(self) -> Iterator[list[str]]:
        """Say of each rival whether it is as much slower as was expected."""
        newton, *rivals = self.rows
        for rival in rivals:
            if rival.seconds is None:
                word, ratio = "no answer", "–"
            else:
                enough = rival.seconds >= EXPECTED * newton.seconds
                word = "yes" if enough else "no" if rival.finished else "open"
                ratio = rival.ratio(newton.seconds)
            yield [rival.method, f"{self.radius} × median", ratio, word]


@dataclass(frozen=True)
class Growth:
    """One projection beside a memcpy of its input."""

    n_tasks: int
    n_parameters: int
    seconds: float
    memcpy: float
    n_iter: int
    kkt_residual: float

    def cells(self) -> list[str]:
        ratio = _times(self.seconds / self.memcpy)
        sizes = [f"{self.n_tasks:,}", f"{self.n_parameters:,}"]
        solver = [str(self.n_iter), f"{self.kkt_residual:.0e}"]
        return [*sizes, _time(self.memcpy), _time(self.seconds), ratio, *solver]


@dataclass(frozen=True)
class Report:
    """Everything that was measured in one run."""

    cases: list[Case]
    by_tasks: list[Growth]
    by_parameters: list[Growth]
    iterations: int
    steps: Sequence[float]

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        draft = folder / ".projection.png"
        self._figure().savefig(draft, format="png", dpi=150)
        draft.replace(folder / "projection.png")
        draft = folder / ".projection.md"
        draft.write_text(self.markdown() + "\n", encoding="utf-8")
        draft.replace(folder / "projection.md")

    def markdown(self) -> str:
        return "\n".join([*self._intro(), *self._comparison(), *self._growth()])

    def _intro(self) -> Iterator[str]:
        yield "# The exact projection, measured\n"
        yield "`make bench` (`python benchmarks/projection.py`) writes this page and its figure.\n"
        machine = platform.processor() or platform.machine()
        yield f"{machine}, {os.cpu_count()} cores, numpy's BLAS on one thread; {_versions()}.\n"
        yield (
            "Tasks lie in random directions at 0.2 to 1.8 from a common point, the given centre "
            "(weight 1) near their mean; float64. All ratios are from this one run."
        )

    def _comparison(self) -> Iterator[str]:
        yield "\n## Against the paper's Algorithm 2 and CVXPY\n"
        yield f"Expected on (N, S) = (4, 10⁵): at least {EXPECTED}× faster than either. Came out:\n"
        there = [c for c in self.cases if (c.n_tasks, c.n_parameters) == EXPECTED_AT]
        verdicts = [verdict for case in there for verdict in case.verdicts()]
        head = ("method", "ε", "× `project`", f"at least {EXPECTED}×")
        yield from _table(head, verdicts) if verdicts else ["Not measured in this run."]
        steps = ", ".join(f"{step:,}" for step in self.steps)
        yield f"""
- Errors are distances to the exact solution in units of ε, the largest of the tasks. For `project`
  they are bounds that its certificate proves; for the others, distances to its solution.
- Times are medians of up to 9 runs in which the methods take turns; CVXPY ran once, in a process
  of its own, with a limit of 5 minutes. memcpy (to memory already in use) is timed by itself.
- A time is the processor's, or the clock's where that is less: other programs do not lengthen it.
- *>*: the method was stopped before it was close to the solution; *open*: then the ratio is too
  small to say.
- Algorithm 2 works on the Gram matrix and does all else (checks, Gram matrix, moving the tasks,
  certificate) as `project` does. It is stopped by an oracle: at the first iterate within 1e-3 ε
  of the exact solution, or after {self.iterations:,}; the oracle's time is not counted. Its step
  is α / (k + 1), with the library's default α, and with the best in hindsight of
  {steps}.
- CVXPY with default settings (Clarabel then uses all cores), compilation included; the remark has
  the time without it. *tasks and centre* is the problem as stated, *centre only* minimises over the
  centre alone; *on the Gram matrix* it is given the problem in N dimensions that `project` solves,
  as Algorithm 2 is."""
        for case in self.cases:
            yield from case.markdown()

    def _growth(self) -> Iterator[str]:
        head = ("N", "S", "memcpy", "`project`", "× memcpy", "steps", "KKT residual")
        yield "\n## How the time grows\n"
        yield "The fastest of up to 21 runs each (51 for memcpy), ε = 0.5 × median distance.\n"
        yield "![Time against N and against S](projection.png)\n"
        yield from _table(head, (row.cells() for row in self.by_tasks))
        yield ""
        yield from _table(head, (row.cells() for row in self.by_parameters))

    def _figure(self) -> Figure:
        figure = Figure(figsize=(9, 3.8), layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True)
        _draw(left, [row.n_tasks for row in self.by_tasks], self.by_tasks)
        _draw(right, [row.n_parameters for row in self.by_parameters], self.by_parameters)
        left.set(xlabel="N (tasks)", ylabel="seconds", title="S = 2,000 parameters")
        right.set(xlabel="S (parameters)", title="N = 4 tasks")
        left.legend(frameon=False)
        return figure


def _draw(axes: Axes, sizes: list[int], rows: list[Growth]) -> None:
    axes.loglog(sizes, [row.seconds for row in rows], "o-", color="C3", label="project")
    axes.loglog(
        sizes, [row.memcpy for row in rows], "s--", color="0.5", label="memcpy of the input"
    )
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    lines = [list(head), *map(list, rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    return (f"| {' | '.join(cells)} |" for cells in lines)


def _time(seconds: float) -> str:
    units = {"s": 1.0, "ms": 1e-3, "µs": 1e-6}
    name = next((name for name, unit in units.items() if seconds >= unit), "µs")
    return f"{seconds / units[name]:.3g} {name}"


def _times(ratio: float) -> str:
    return f"{ratio:.2g}" if ratio < 99.5 else f"{float(f'{ratio:.2g}'):,.0f}"


def _versions() -> str:
    found = [f"Python {platform.python_version()}"]
    for package in PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            found.append(f"no {package}")
    return ", ".join(found)
