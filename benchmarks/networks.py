"""What do projection and training of networks cost? Ratios measured in one run.

Run it with ``python benchmarks/networks.py`` (some minutes), or try it with ``--quick``.
"""

from __future__ import annotations

import argparse
import os
import platform
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
import torch
from networks_engines import SEPARATE, engines, memory, model_megabytes
from networks_tables import medians, milliseconds, table, verdict
from networks_throughput import CASES, throughput
from torch import nn

from crosslearning.nn import TaskModels
from crosslearning.paper import alexnet256

RESULTS = Path(__file__).parent / "results"
S = 4_911_745  # parameters of the paper's network
N = 4
RADIUS = 1e-2
EXPECTED_PROJECTION = 2.2  # times a copy of the buffer; the limit is 1.5: read, read, write
EXPECTED_STEP = {1: 1.15, 8: 1.05}  # times the step without projection, by images per task


class Plan(NamedTuple):
    """What to measure, and how often."""

    runs: int = 21
    steps: int = 7
    n_tasks: tuple[int, ...] = (2, 4, 8, 16, 32, 64, 128)
    n_parameters: tuple[int, ...] = (10**3, 10**4, 10**5, 10**6, 10**7)
    engines: tuple[str, ...] = ("loop", "vmap")
    mlps: tuple[tuple[int, tuple[int, ...]], ...] = (
        (4, (64, 64)),
        (8, (64, 64)),
        (32, (64, 64)),
        (128, (64, 64)),
        (32, (32,)),
    )
    epochs: int = 5
    adapters: tuple[int, int] = (100, 10**6)


QUICK = Plan(
    runs=3,
    steps=1,
    n_tasks=(2, 8),
    n_parameters=(10**3, 10**5),
    mlps=((32, (32,)),),
    epochs=1,
    adapters=(20, 10**4),
)


class Vector(nn.Module):
    """As many parameters as wanted, and nothing to compute."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.values = nn.Parameter(0.01 * torch.randn(size))


def scattered(n_tasks: int, n_parameters: int, epsilon: float = RADIUS) -> TaskModels:
    """Models that a step has carried to about twice their radius."""
    models = TaskModels(Vector(n_parameters), range(n_tasks), epsilon=epsilon)
    scatter(models, epsilon)
    return models


@torch.no_grad()
def scatter(models: TaskModels, epsilon: float) -> None:
    for parameter in models.parameters():
        parameter += torch.randn_like(parameter) * (2 * epsilon / parameter.numel() ** 0.5)


def projection(models: TaskModels, runs: int) -> dict[str, float]:
    """Median seconds of a projection that moves every task, and of copying its buffer."""
    flat = models.flats[0].flat
    copy = torch.empty_like(flat)
    start = flat.clone()
    (work,) = models._members.local
    n_tasks = len(models)
    pull = np.full(n_tasks, 0.5)

    def project() -> None:
        nonlocal certificate
        certificate = models.project()

    certificate = models.project()
    calls = {
        "copy": lambda: copy.copy_(flat),
        "reset": lambda: flat.copy_(start),
        "project": project,
        "gram": work.gram,
        "move": lambda: work.move(pull, pull / (1 + n_tasks)),
        "measure": work.distances,
    }
    taken = dict(zip(calls, medians(runs, *calls.values()), strict=True))
    assert certificate.active.all(), "a projection that moves nothing measures nothing"
    return taken


def training_step(n_images: int, steps: int) -> tuple[float, float]:
    """Median seconds of a step of AlexNet-256 with SGD, without and with projection."""
    models = TaskModels(alexnet256(65), range(N), epsilon=1e-3)
    optimizer = torch.optim.SGD(models.parameters(), lr=1e-3, fused=True)
    loss = nn.CrossEntropyLoss()
    x, y = torch.randn(n_images, 3, 224, 224), torch.randint(65, (n_images,))

    def step() -> None:
        optimizer.zero_grad()
        for task in models:
            loss(models[task](x), y).backward()
        optimizer.step()

    without, projected = medians(steps, step, models.project)
    return without, without + projected


def large(plan: Plan) -> str:
    models = scattered(N, S)
    taken = projection(models, plan.runs)
    limits = {"project": EXPECTED_PROJECTION}
    names = {
        "copy": "copy of the buffer",
        "project": "`models.project()`",
        "gram": "of it the Gram matrix",
        "move": "of it the move",
        "measure": "measuring distances",
    }
    rows = []
    for part, name in names.items():
        ratio = taken[part] / taken["copy"]
        judged = f"{verdict(ratio, limits[part])} ({limits[part]})" if part in limits else ""
        rows.append([name, milliseconds(taken[part]), f"{ratio:.2f}", judged])
    return table(["", "ms", "× copy", "as expected"], rows)


def steps(plan: Plan) -> str:
    rows = []
    for n_images, limit in EXPECTED_STEP.items():
        without, with_it = training_step(n_images, plan.steps)
        ratio = with_it / without
        times = [milliseconds(without), milliseconds(with_it)]
        rows.append([str(n_images), *times, f"{ratio:.3f}", f"{verdict(ratio, limit)} ({limit})"])
    return table(["images per task", "without, ms", "with, ms", "ratio", "as expected"], rows)


def growth(plan: Plan) -> str:
    sizes = [(n, 300_000) for n in plan.n_tasks] + [(N, size) for size in plan.n_parameters]
    sizes.append(plan.adapters)
    rows = []
    for n_tasks, n_parameters in sizes:
        taken = projection(scattered(n_tasks, n_parameters), plan.runs)
        ratio = f"{taken['project'] / taken['copy']:.2f}"
        times = [milliseconds(taken["copy"]), milliseconds(taken["project"])]
        rows.append([str(n_tasks), f"{n_parameters:,}", *times, ratio])
    return table(["N", "S", "copy, ms", "`project`, ms", "× copy"], rows)


def least(plan: Plan) -> str:
    """What is possible for adapters, given the rate of a plain product of matrices."""
    n_tasks, n_parameters = plan.adapters
    side, columns = torch.randn(1024, 1024), torch.empty(n_tasks + 1, n_parameters)
    copy, product = torch.empty_like(columns), np.empty((1024, 1024), np.float32)
    square, other = side.numpy(), side.T.contiguous().numpy()
    calls = lambda: copy.copy_(columns), lambda: np.matmul(square, other, out=product)
    copied, multiplied = medians(plan.runs, *calls)
    rate = 2 * 1024**3 / multiplied
    half = n_tasks * (n_tasks + 1) * n_parameters / rate
    return (
        f"NumPy multiplies matrices of 1024 × 1024 at {rate / 1e9:.0f} GFLOP/s in this run. At "
        f"that rate, half of the Gram matrix of {n_tasks} × {n_parameters:,} takes "
        f"{half / copied:.1f} copies; with 1.5 for reading and writing, "
        f"{half / copied + 1.5:.1f} copies is the least for an exact projection of that size."
    )


def page(plan: Plan) -> str:
    load = os.getloadavg()[1]
    return f"""# Networks, measured

`python benchmarks/networks.py` writes this page.

{platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__} on one thread, float32;
Python {platform.python_version()}. The load of the last 5 minutes was {load:.1f}; 1 is this
program alone, and more than that disturbs caches and memory.

Medians of calls that take turns, in processor time; ratios are from this one run. A copy is
`copy_` of the whole buffer, (N + 1) × S. Every measured projection moves all tasks, ε = {RADIUS:g}.

## `models.project()` at N = {N}, S = {S:,}

{large(plan)}

Read for the Gram matrix, read and write for the move: 1.5 copies is the least. Distances are
measured after the move, as an extra, only where rounding could change their fourth digit;
elsewhere they are known from the solution.

## A training step of AlexNet-256, N = {N}

{steps(plan)}

## Growth with the number of tasks and parameters

{growth(plan)}

Half of the symmetric Gram matrix takes N² S / 2 multiplications, everything else is proportional to
N S. At a few thousand parameters the time is that of calls, most of it in the solver.

{least(plan)}

## Engines of `fit`

MLPs with 20 inputs, 3 classes and these hidden units; 8 rows per task and step; SGD with momentum.
Times include taking the batches.

{engines(plan.mlps, plan.engines, plan.runs)}

The loop costs a few hundred microseconds of calls per task, one pass over all tasks little more
than that once; where it can, the optimizer then steps over the flat buffer too. The projection is
the same for all. Threads are for convolutions on more cores, which this page does not use.

## Throughput of `fit`

Rows per second of processor time in one epoch of `fit`, with the engine that it chooses, against a
plain loop over as many separate models, each with its own optimizer: SGD with momentum, no
augmentation. `fit` takes its batches in a reproducible order, projects after every step, and
evaluates nothing. The first network is the default of `crosslearning train`.

{throughput(CASES, plan.epochs)}

What `fit` adds is the same for small and large networks: about half a millisecond of calls per
step, most of it in the solver. A step of four small perceptrons takes little more than that.

## Memory of training

Peak of the resident memory of a process beyond that of importing everything, {SEPARATE} MLPs of
{model_megabytes():.0f} MB each, SGD with momentum: parameters, gradients and momentum of all are
{3 * SEPARATE * model_megabytes():.0f} MB.

{memory()}

Beyond separate models there are the row of the centre and buffers of fixed size.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a try; writes nothing")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    torch.manual_seed(0)
    text = page(QUICK if quick else Plan())
    if not quick:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "networks.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
