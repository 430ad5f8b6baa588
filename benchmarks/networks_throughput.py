"""Rows per second of `fit` against a plain torch loop over separate models."""

from __future__ import annotations

from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import torch
from networks_tables import medians, table
from torch import nn

from crosslearning.nn import TaskModels, fit
from crosslearning.nn.architectures import batchnorm_cnn, mlp

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LOSS = nn.CrossEntropyLoss()
EXPECTED = 0.95  # of the rows per second of separate models
RADIUS = 0.1


class Case(NamedTuple):
    """Networks to train, and the rows of each task."""

    name: str
    make: Callable[[], nn.Module]
    shape: tuple[int, ...]  # of an input
    n_classes: int
    n_tasks: int
    n_rows: int
    batch: int


CASES = (
    Case("batchnorm_cnn, 64 px", lambda: batchnorm_cnn(65), (3, 64, 64), 65, 4, 64, 16),
    Case("MLP, 64 and 64 units", lambda: mlp(20, 3), (20,), 3, 4, 1600, 16),
    Case("MLP, 64 and 64 units", lambda: mlp(20, 3), (20,), 3, 32, 800, 16),
)


def momentum(parameters: object) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.01, momentum=0.9)


def separate(
    module: nn.Module, data: dict[int, tuple[torch.Tensor, torch.Tensor]], batch: int
) -> None:
    """Train a copy of the module for every task, one epoch, as one would without a library."""
    modules = [deepcopy(module).train() for _ in data]
    optimizers = [momentum(one.parameters()) for one in modules]
    orders = [torch.randperm(len(x)).split(batch) for x, _ in data.values()]
    for step in range(len(orders[0])):
        for one, optimizer, order, (x, y) in zip(
            modules, optimizers, orders, data.values(), strict=True
        ):
            rows = order[step]
            optimizer.zero_grad()
            LOSS(one(x[rows]), y[rows]).backward()
            optimizer.step()


def cross(
    module: nn.Module, data: dict[int, tuple[torch.Tensor, torch.Tensor]], batch: int
) -> None:
    """Train the same with `fit`, which projects after every step."""
    fit(TaskModels(module, data, epsilon=RADIUS), data, LOSS, momentum, 1, batch_size=batch)


def throughput(cases: Sequence[Case], runs: int) -> str:
    rows = []
    for case in cases:
        torch.manual_seed(0)
        data = {
            task: (
                torch.randn(case.n_rows, *case.shape),
                torch.randint(case.n_classes, (case.n_rows,)),
            )
            for task in range(case.n_tasks)
        }
        module = case.make()
        ways = (partial(way, module, data, case.batch) for way in (separate, cross))
        apart, together = (case.n_tasks * case.n_rows / taken for taken in medians(runs, *ways))
        ratio = together / apart
        rows.append(
            [
                *(case.name, str(case.n_tasks), str(case.batch), f"{apart:,.0f}"),
                *(f"{together:,.0f}", f"{ratio:.2f}"),
                f"{'yes' if ratio >= EXPECTED else 'no'} ({EXPECTED:g})",
            ]
        )
    head = ["network", "N", "rows per task", "separate, rows / s", "`fit`, rows / s", "ratio"]
    return table([*head, "as expected"], rows)
