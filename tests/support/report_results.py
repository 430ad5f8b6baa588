"""Results that the library made, once for each process; tests get copies that they may change."""

import json
import math
from copy import deepcopy
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pytest

from crosslearning.tables import fit_table
from tests.support.tinted_squares import TintedSquares

EPSILONS = [0.0, 0.01, 0.1, 1.0, 10.0, math.inf]
COMMAND = "crosslearning fit shops.csv --task shop --target spending --base linear --folds 2"


def save(folder, content):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(content))
    return folder


def shops(tasks, rows, seed=0):
    """Spending by shop: shops differ in their level and in the slopes of two columns."""
    rng, shop = np.random.default_rng(seed), np.arange(rows) % tasks
    differences = np.random.default_rng(5).normal(size=(tasks, 3))
    x = rng.normal(size=(rows, 2))
    mean = 10 + x @ [2.0, 1.0] + 0.5 * (differences[shop, :2] * x).sum(axis=1)
    spending = mean + 2 * differences[shop, 2] + rng.normal(size=rows)
    columns = {"shop": shop + 100, "age": x[:, 0], "income": x[:, 1], "spending": spending}
    return pd.DataFrame(columns)


def _dated(frame, start):
    """Add a year, a region that is the same for all rows of a shop, and a season."""
    row = np.arange(len(frame))
    return frame.assign(
        year=start + row // 18,
        region=np.where(frame["shop"] < 103, "the cold north", "the south"),
        season=np.array(["spring", "summer"])[row // 7 % 2],
    )


def _classes():
    frame = shops(5, 80)
    return frame.assign(spending=np.where(frame["spending"] > 10, "high", "low"))


def _counts():
    frame = shops(5, 80)
    means = np.exp(frame["spending"] / 5)
    return frame.assign(spending=np.random.default_rng(0).poisson(means))


_TABLES = {  # what to fit, and how
    "regression": lambda: (shops(45, 300), {}),
    "bound": lambda: (shops(6, 60), {"epsilon": 0.5}),
    "held-out table": lambda: (
        _dated(shops(6, 90), 2000),
        {"held_out": _dated(shops(6, 36, seed=1), 2005), "time": "year"},
    ),
    "classes": lambda: (_classes(), {}),
    "counts": lambda: (_counts(), {"family": "poisson"}),
}


@cache
def _fitted(name):
    frame, settings = _TABLES[name]()
    settings = {"base": "linear", "folds": 2, "command": COMMAND} | settings
    with TemporaryDirectory() as folder:
        fit_table(frame, task="shop", target="spending", **settings).save(folder)
        return json.loads((Path(folder) / "results.json").read_text())


def table_results(name="regression"):
    """Return a copy of the results of a fit."""
    return deepcopy(_fitted(name))


@cache
def _trained():
    pytest.importorskip("torch", reason="the extra `torch` is not installed")
    from crosslearning.images import TrainingSettings
    from crosslearning.paper import office_home

    settings = TrainingSettings(
        model="small_cnn",
        image_size=8,
        epochs=4,
        learning_rate=0.05,
        augment=False,
        epsilons=tuple(EPSILONS),
        seeds=(0, 1),
        baselines=("FedPer", "fine-tuned"),
    )
    about = {"name": "squares", "command": "crosslearning train squares", "keep_models": True}
    with TemporaryDirectory() as folder:
        office_home.run(TintedSquares(), folder, settings, **about)
        content = json.loads((Path(folder) / "results.json").read_text())
        return content, (Path(folder) / "contact_sheet.png").read_bytes()


def images_results(radii=None):
    """Return a copy of the results of networks, of these radii only."""
    content = deepcopy(_trained()[0])
    if radii is not None:
        content["path"] = [row for row in content["path"] if float(row["epsilon"]) in radii]
    return content


def contact_sheet():
    return _trained()[1]
