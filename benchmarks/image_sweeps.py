"""The default network and linear heads on images of several domains, against the alternatives."""

from __future__ import annotations

import argparse
import math
import os
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import pandas as pd
import torch
from networks_tables import table
from scipy import stats

from crosslearning.datasets import ImageData
from crosslearning.evaluation.numbers import radius_name
from crosslearning.images import ImageDomains, TrainingSettings, train

if TYPE_CHECKING:
    from collections.abc import Sequence

RESULTS = Path(__file__).parent / "results"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "crosslearning"
OURS = "within ε of the centre"
ANY = "ε by validation, ends included"
NETWORK = TrainingSettings(
    image_size=32, epochs=6, flip=False, epsilons=(0.0, 0.2, 0.4, 1.1, math.inf), baselines=True
)
ENDS = {0.0: "pooled, own BatchNorm statistics", math.inf: "separate"}
SECTIONS = {
    """## The default network{part}

`batchnorm_cnn` with the default settings except for smaller images (32 px), 6 epochs and no
mirroring. The first four epochs are pooled; the radii, which apply to the other two, are about 1, 2
and 6 % of the norm of the network, as by default. Validation chooses among springs of stiffness 1,
10 and 100; softer ones had been tried first, and were far behind.""": ("network", NETWORK, ENDS),
    """## The same, within ε from the first step{part}

`--pooled-share 0`, and FedBN alone of the alternatives.""": (
        "first-step",
        replace(
            NETWORK, epsilons=(0.0, 0.4, 1.1, math.inf), pooled_share=0.0, baselines=("FedBN",)
        ),
        ENDS,
    ),
    """## Linear heads on frozen features{part}

`--backbone efficientnet_lite0`, with ImageNet weights, and its default radii.""": (
        "heads",
        TrainingSettings(backbone="efficientnet_lite0"),
        {0.0: "pooled", math.inf: "separate"},
    ),
}


def runs_of(
    data: ImageData, folder: Path, settings: TrainingSettings, ends: dict[float, str], seeds: int
) -> pd.DataFrame:
    """Train what is missing; return a row for each method, radius and seed."""
    for n in [seeds] if settings.backbone else range(1, seeds + 1):  # leaves whole seeds
        settings = replace(settings, seeds=tuple(range(n)))
        results = train(data, folder, settings, keep_models=False)
    rows = [
        {"method": ends.get(float(run["epsilon"]), OURS), "epsilon": float(run["epsilon"])}
        | {column: run[column] for column in ("seed", "validation", "test")}
        for run in results["runs"]
    ]
    for baseline in results.get("baselines", ()):
        pairs = zip(settings.seeds, baseline["by_seed"], strict=True)
        rows += [{"method": baseline["method"], "seed": s, "test": value} for s, value in pairs]
    return pd.DataFrame(rows)


def comparison(runs: pd.DataFrame) -> str:
    """Accuracy of each method, and what ours gains over it, paired by seed."""
    swept = runs.dropna(subset="epsilon").reset_index(drop=True)
    any_radius = swept.loc[swept.groupby("seed")["validation"].idxmax()].assign(method=ANY)
    runs = pd.concat([runs, any_radius], ignore_index=True)
    best = runs.fillna({"validation": 0}).groupby(["method", "seed"])["validation"].idxmax()
    test, rows = 100 * runs.loc[best].pivot_table("test", "seed", "method"), []
    for method in test.mean().sort_values(ascending=False).index:
        gain = test[OURS] - test[method]
        found = ["", ""]
        if gain.any():
            p = stats.ttest_1samp(gain, 0).pvalue
            found = [f"{gain.mean():+.2f} ± {gain.sem():.2f}", f"{p:.2g}"]
        accuracy = f"{test[method].mean():.2f} ± {test[method].std():.2f}"
        rows.append([method, accuracy, *found])
    return table(["method", "test accuracy, %", "gain of ours ± standard error", "p"], rows)


def path(runs: pd.DataFrame) -> str:
    """Accuracies at all radii, and how many seeds choose each of those between the ends."""
    swept = runs.dropna(subset="epsilon")
    between = swept[swept["method"] == OURS]
    chosen = between.loc[between.groupby("seed")["validation"].idxmax(), "epsilon"].value_counts()
    rows = []
    for epsilon, some in swept.groupby("epsilon"):
        means = [f"{100 * some[part].mean():.1f}" for part in ("validation", "test")]
        rows.append([radius_name(epsilon), *means, str(chosen.get(epsilon, ""))])
    return table(["ε", "validation, %", "test, %", "seeds that choose it"], rows)


def main(
    data: ImageData, name: str, about: str, fractions: Sequence[float] = (1.0,), more: str = ""
) -> None:
    """Train what is missing with parts of the images; write the table of runs and the page."""
    parser = argparse.ArgumentParser(description=about.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=8)
    kinds = [kind for kind, *_ in SECTIONS.values()]
    kept = "to train; the runs of others are kept"
    parser.add_argument("--kinds", nargs="+", default=kinds, choices=kinds, help=kept)
    parser.add_argument("--fractions", type=float, nargs="+", default=fractions, help=kept)
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # networks this small gain nothing from more
    question, *paragraphs, _ = about.split("\n\n")
    text = [f"# {question}", f"`python benchmarks/{name}.py` writes this page.", *paragraphs]
    file, tables = RESULTS / f"{name}.csv", []
    last = pd.read_csv(file) if file.exists() else pd.DataFrame(columns=["kind", "images"])
    for (title, (kind, settings, ends)), fraction in product(SECTIONS.items(), fractions):
        settings = replace(settings, train_fraction=fraction)
        if settings.backbone and isinstance(data, ImageDomains):
            settings = replace(settings, image_size=224)
        folder = CACHE / f"benchmark-{name}-{kind}{f'-{fraction:g}' * (fraction < 1)}"
        if kind in arguments.kinds and fraction in arguments.fractions:
            runs = runs_of(data, folder, settings, ends, arguments.seeds)
            runs = runs.assign(kind=kind, images=fraction)
        else:
            runs = last[(last["kind"] == kind) & (last["images"] == fraction)]
        if runs.empty:
            continue
        tables.append(runs)
        part = ", all images" if fraction == 1 else f", {100 * fraction:g} % of the images"
        title = title.format(part=part * (len(fractions) > 1))
        text += [f"{title} {runs['seed'].nunique()} seeds:", comparison(runs), path(runs)]
    pd.concat(tables).round(5).to_csv(file, index=False)
    (RESULTS / f"{name}.md").write_text("\n\n".join([*text, *([more] if more else [])]) + "\n")
