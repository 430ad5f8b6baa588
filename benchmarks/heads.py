"""How long do linear heads take, how much memory, and how exact are they?

A path of ten radii, from pooled to separate, in each of five folds: heads for the 32 categories
of 5,000 pictures in four domains, on the 1,280 features of `efficientnet_lite0`. The heads of each
fold are also solved to a gap 1000 times as small, and compared. Features are computed once
(some minutes) and cached; they are no part of the times.

Run it with ``python benchmarks/heads.py`` (ten minutes on one core), or try it with ``--quick``.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import resource
import time
from pathlib import Path
from types import SimpleNamespace

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
import torch
from networks_tables import table

from crosslearning.coupling import smallest_enclosing_ball
from crosslearning.datasets import load_pictures32
from crosslearning.images import features
from crosslearning.images.heads import fit_heads, objective

RESULTS = Path(__file__).parent / "results"
IMAGES, FOLDS, RIDGE = 5000, 5, 1e-3
SHARES = (0.0, 0.01, 0.03, 0.06, 0.1, 0.2, 0.4, 0.6, 0.8, math.inf)  # of the separate radius
EXACT = 1e-6  # gap of the heads to compare with


def problem(images: int) -> tuple[torch.Tensor, torch.Tensor, np.ndarray]:
    """Standardised features, categories and domains of some pictures."""
    pictures = load_pictures32()
    rows = np.sort(np.random.default_rng(0).permutation(len(pictures))[:images])
    some = SimpleNamespace(pixels=lambda _: pictures.pixels()[rows])
    x = torch.from_numpy(features(some, "efficientnet_lite0", image_size=64))
    x = (x - x.mean(0)) / x.std(0).clamp(min=1e-6)
    return x, torch.from_numpy(pictures.category_codes[rows]), pictures.domain_codes[rows]


class Fold:
    """Training and test rows of each domain."""

    def __init__(self, k: int, x: torch.Tensor, y: torch.Tensor, domains: np.ndarray) -> None:
        fold = np.random.default_rng(1).integers(FOLDS, size=len(x))
        self.train, self.test = (
            [
                (x[rows], y[rows])
                for d in np.unique(domains)
                for rows in [np.flatnonzero((domains == d) & part)]
            ]
            for part in (fold != k, fold == k)
        )
        self.zeros = torch.zeros(len(self.train), x.shape[1] + 1, int(y.max()) + 1)

    def path(self, radii: list[float], **options: float) -> list[dict[str, float]]:
        """Solve at every radius, from the solution of the one before."""
        start, found = self.zeros, []
        for epsilon in radii:
            heads = fit_heads(self.train, start, epsilon, RIDGE, **options)
            start = heads.thetas
            pairs = zip(heads.thetas.to(self.zeros), self.test, strict=True)
            hits = [
                float(((x @ t[:-1] + t[-1]).argmax(1) == y).float().mean()) for t, (x, y) in pairs
            ]
            value = objective(self.train, heads.thetas, RIDGE)[0]
            found.append({"value": value, "gap": heads.gap, "accuracy": np.mean(hits)})
        return found

    def radii(self) -> list[float]:
        separate = fit_heads(self.train, self.zeros, math.inf, RIDGE).thetas
        largest = smallest_enclosing_ball(separate.flatten(1).numpy())[1]
        return [largest * share if share else 0.0 for share in SHARES]


def measured(images: int, folds: int) -> tuple[list[dict[str, float]], dict[str, float]]:
    """Means over folds by radius; wall and processor seconds, and memory in GiB."""
    data = problem(images)
    parts = [Fold(k, *data) for k in range(folds)]
    began, wall = time.process_time(), time.perf_counter()
    radii = parts[0].radii()
    loose = [part.path(radii) for part in parts]
    spent = {"processor": time.process_time() - began, "wall": time.perf_counter() - wall}
    spent["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    tight = [part.path(radii, tol=EXACT) for part in parts]
    rows = []
    for k, epsilon in enumerate(radii):
        pairs = [(one[k], other[k]) for one, other in zip(loose, tight, strict=True)]
        rows.append(
            {
                "epsilon": epsilon,
                "gap": max(one["gap"] for one, _ in pairs),
                "excess": max(one["value"] / other["value"] - 1 for one, other in pairs),
                "accuracy": np.mean([one["accuracy"] for one, _ in pairs]),
                "exact": np.mean([other["accuracy"] for _, other in pairs]),
            }
        )
    return rows, spent


def page(rows: list[dict[str, float]], spent: dict[str, float], images: int, folds: int) -> str:
    head = ["ε", "gap", "objective above the exact one", "accuracy, %", "exact, %"]
    cells = [
        [
            f"{row['epsilon']:.3g}",
            f"{row['gap']:.1e}",
            f"{row['excess']:.1e}",
            f"{100 * row['accuracy']:.2f}",
            f"{100 * row['exact']:.2f}",
        ]
        for row in rows
    ]
    threads, load = torch.get_num_threads(), os.getloadavg()[1]
    return f"""# Linear heads on frozen features, measured

`python benchmarks/heads.py` writes this page.

Expected: at most 3 minutes on two cores, and 4 GiB. Measured: **{spent["processor"]:.0f} s of
processor time** ({spent["wall"]:.0f} s passed) and **{spent["memory"]:.1f} GiB**, for {len(rows)}
radii in each of {folds} folds: {len(rows) * folds} fits of four heads with 1,280 features and 32
categories, {images:,} pictures in all, ridge {RIDGE:g}. Features are computed before, and cached.

{platform.machine()}, torch {torch.__version__} with {threads} thread{"s" * (threads > 1)}, float32;
Python {platform.python_version()}. The load of the last 5 minutes was {load:.1f} on
{os.cpu_count()} cores.

{table(head, cells)}

The gap bounds how far the objective is above its minimum, relative to its value; fits stop at
1e-3. The worst of all folds is shown, and so is the objective, relative to that of heads with a
gap of {EXACT:g}. Accuracies are means over folds and domains, on the images left out.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a try; writes nothing")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    sizes = (500, 1) if quick else (IMAGES, FOLDS)
    text = page(*measured(*sizes), *sizes)
    if not quick:
        (RESULTS / "heads.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
