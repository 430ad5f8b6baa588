"""What the pages show and nobody writes: pictures, a report, pages of measurements."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import figures

from crosslearning import report
from crosslearning.datasets import load_hsb82
from crosslearning.tables import fit_table

DOCS = Path(__file__).parent
FOLDER = DOCS / "_generated"


def generate() -> None:
    """Write everything into ``_generated``, and a page for each page of measurements."""
    figures.draw_all(FOLDER)
    write_report(FOLDER / "extra" / "pupils.html")
    include_measurements()


def include_measurements() -> None:
    """Make pages of what the benchmarks wrote, as it is."""
    shutil.rmtree(DOCS / "benchmarks", ignore_errors=True)  # with pages that are no longer
    (DOCS / "benchmarks").mkdir()
    for page in (DOCS.parent / "benchmarks" / "results").glob("*.md"):
        include = f"```{{include}} ../../benchmarks/results/{page.name}\n:relative-images:\n```\n"
        (DOCS / "benchmarks" / page.name).write_text(include)


def write_report(page: Path) -> None:
    """Fit the schools and write the report on it."""
    command = "crosslearning fit hsb82.csv --task school --target math"
    model = fit_table(load_hsb82().frame, task="school", target="math", command=command)
    with TemporaryDirectory() as temporary:
        folder = Path(temporary) / "crosslearning-hsb82"  # which the page names
        model.save(folder)
        report.write(folder, out=page)


if __name__ == "__main__":
    generate()
