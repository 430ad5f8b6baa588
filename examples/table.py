"""
A table, from files to files
============================

A table with a group column: fit, read the verdict, predict, from files to files.

The same as these commands, which need no Python::

    crosslearning data export hsb82 pupils
    crosslearning fit pupils/hsb82.csv --task school --target math
    crosslearning predict crosslearning-hsb82 new.csv

Run it with ``python examples/table.py [FOLDER]``; model and report go to the folder.
"""

# sphinx_gallery_thumbnail_path = '_static/report.png'

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd

from crosslearning import report
from crosslearning.datasets import load_hsb82
from crosslearning.tables import TableModel, fit_table


def main(folder: Path) -> None:
    """Fit 25 schools, save, load, and predict pupils of a known and of a new school."""
    pupils = load_hsb82().frame
    schools = pupils["school"].unique()[:25]
    table = pupils[pupils["school"].isin(schools)]
    features = ["minority", "female", "ses"]
    model = fit_table(table, task="school", target="math", features=features)

    results = model.results
    print(results["sentence"])
    for row in results["models"]:
        print(f"  {row['label']:32} {results['score']['name']} {row['score']:.2f}")
    for level in results["differences"]["levels"]:
        for row in level["shown"]:
            print(f"  schools differ in {row['what']} by a standard deviation of {row['sd']:.2f}")

    model.save(folder)
    print(f"Files: {sorted(path.name for path in folder.iterdir())}")
    print(f"Report: {report.write(folder).name}")

    again = TableModel.load(folder)
    new = pd.DataFrame(
        {"school": [schools[0], "a new one"], "minority": 0, "female": 1, "ses": 0.5}
    )
    for school, said in zip(new["school"], again.predict(new).itertuples(), strict=True):
        range_ = f"{said.lower:.1f} to {said.upper:.1f}"
        print(f"  a pupil of school {school}: {said.prediction:.1f} points ({range_})")
    print(f"Predicted by the centre: {again.unknown_tasks(new)}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with TemporaryDirectory() as scratch:
            main(Path(scratch))
