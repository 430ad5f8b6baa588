"""Engines of `fit` against the loop, and the memory that training takes beyond separate models."""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from networks_tables import medians, milliseconds, table
from torch import nn

from crosslearning.nn import TaskModels, fit
from crosslearning.nn._data import Feed, as_sources, schedule
from crosslearning.nn._engines import choose_engine
from crosslearning.nn.architectures import mlp

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FEATURES, CLASSES, ROWS = 20, 3, 8
LOSS = nn.CrossEntropyLoss()
WIDE = (512, 65, (2048, 1536))  # inputs, outputs and hidden units: 4.3 million parameters
SEPARATE = 4  # models whose memory is compared
EXPECTED = 5.0  # the loop, times one pass over 32 tasks
KINDS = {
    "separate": "separate models, a loop by hand",
    "loop": "`fit(engine='loop')`",
    "vmap": "`fit(engine='vmap')`",
}


class Step(NamedTuple):
    """One engine and all that it takes for a step."""

    gradients: Callable[[], object]
    optimize: Callable[[], object]
    project: Callable[[], object]


def step_of(engine: str, n_tasks: int, hidden: Sequence[int]) -> Step:
    """Calls that make up a step of an MLP, with momentum, 8 rows per task."""
    torch.manual_seed(0)
    models = TaskModels(mlp(FEATURES, CLASSES, hidden), range(n_tasks), epsilon=0.1)
    optimizer = torch.optim.SGD(models.parameters(), lr=0.01, momentum=0.9)
    data = {k: (torch.randn(100, FEATURES), torch.randint(CLASSES, (100,))) for k in models}
    sources = as_sources(data)
    plan = schedule(tuple(sources.values()), ROWS, "cycle")
    feed = Feed(sources, plan, 0, None, torch.device("cpu"))
    computing = choose_engine(engine, models, LOSS, optimizer, feed)
    numbers = count()
    return Step(
        lambda: computing.gradients(next(numbers)),
        optimizer.step,
        lambda: models.project_linked(None),
    )


def engines(sizes: Sequence[tuple[int, Sequence[int]]], names: Sequence[str], runs: int) -> str:
    """Seconds of gradients with the optimizer's step, and of these with the projection."""
    rows = []
    for n_tasks, hidden in sizes:
        steps = [step_of(name, n_tasks, hidden) for name in names]
        taken = np.reshape(medians(runs, *chain.from_iterable(steps)), (len(names), 3)).cumsum(1)
        for name, own, ratio in zip(names, taken, taken[0] / taken, strict=True):
            met = "yes" if ratio[1] >= EXPECTED else "no"
            rows.append(
                [
                    *(str(n_tasks), " and ".join(map(str, hidden)), name),
                    *(milliseconds(own[1]), f"{ratio[1]:.1f}"),
                    *(milliseconds(own[2]), f"{ratio[2]:.1f}"),
                    f"{met} ({EXPECTED:g})" if n_tasks == 32 and name == "vmap" else "",
                ]
            )
    head = ["N", "units", "engine", "gradients and step, ms", "loop / it", "with projection, ms"]
    return table([*head, "loop / it", "as expected"], rows)


def memory() -> str:
    nothing, one = peak("nothing"), model_megabytes()
    found = {name: peak(kind) - nothing for kind, name in KINDS.items()}
    separate = found[KINDS["separate"]]
    rows = [
        [name, f"{taken:.0f}", f"{taken - separate:.0f}", f"{(taken - separate) / one:.1f}"]
        for name, taken in found.items()
    ]
    return table(["", "MB", "beyond separate, MB", "in models"], rows)


def train_wide(kind: str) -> None:
    """Train four MLPs of 4.3 million parameters for some steps, apart or together."""
    torch.set_num_threads(1)
    n_in, n_out, hidden = WIDE
    data = {k: (torch.randn(32, n_in), torch.randint(n_out, (32,))) for k in range(SEPARATE)}

    def momentum(parameters: object) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, lr=0.01, momentum=0.9)

    def net() -> nn.Module:
        return mlp(n_in, n_out, hidden)

    if kind == "nothing":  # but what comes with torch: import it all, and step once
        momentum(nn.Linear(1, 1).parameters()).step()
    elif kind == "separate":
        modules = [net() for _ in range(SEPARATE)]
        optimizer = momentum([p for module in modules for p in module.parameters()])
        for _ in range(8):
            optimizer.zero_grad()
            for module, (x, y) in zip(modules, data.values(), strict=True):
                LOSS(module(x), y).backward()
            optimizer.step()
    else:
        models = TaskModels(net(), data, epsilon=0.1)
        fit(models, data, LOSS, momentum, 2, batch_size=8, engine=kind)


def peak(kind: str) -> float:
    """Largest resident memory of a process that trains so, in MB; the least of three."""
    command = [sys.executable, __file__, kind]
    runs = [subprocess.run(command, check=True, capture_output=True, text=True) for _ in range(3)]
    return min(float(done.stdout) for done in runs) / 1e3


def model_megabytes() -> float:
    """Parameters of one model, in MB."""
    n_in, n_out, hidden = WIDE
    return sum(p.numel() * p.element_size() for p in mlp(n_in, n_out, hidden).parameters()) / 1e6


if __name__ == "__main__":
    train_wide(sys.argv[1])
    # What getrusage tells begins with the peak of the process that started this one.
    print(re.findall(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text())[0])
