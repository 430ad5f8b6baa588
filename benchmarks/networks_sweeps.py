"""A sweep over radii and seeds, stacked in one vmap, against one run after the other."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import torch
from networks_tables import medians, table
from torch import nn

from crosslearning.nn import sweep
from crosslearning.nn.architectures import mlp

if TYPE_CHECKING:
    from collections.abc import Sequence

FEATURES, CLASSES, EPOCHS = 20, 3, 5
RADII = (0.0, 1e-3, 1e-2, 0.03, 0.1, 0.3, 1.0, 3.0, float("inf"))
EXPECTED = 4.0  # separate runs, times the stacked sweep of nine radii


def sweeps(n_tasks: Sequence[int], seeds: Sequence[int], runs: int) -> str:
    """Seconds of both ways to train an MLP with 64 and 64 units at nine radii."""
    rows = []
    for tasks in n_tasks:
        torch.manual_seed(0)
        data = {k: (torch.randn(64, FEATURES), torch.randint(CLASSES, (64,))) for k in range(tasks)}
        for n_seeds in seeds:
            run = partial(
                sweep,
                lambda: mlp(FEATURES, CLASSES, (64, 64)),
                data,
                nn.CrossEntropyLoss(),
                lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9),
                EPOCHS,
                epsilons=RADII,
                seeds=range(n_seeds),
                batch_size=8,
            )
            one_by_one, stacked = medians(
                runs, partial(run, stacked=False), partial(run, stacked=True)
            )
            ratio = one_by_one / stacked
            met = "yes" if ratio >= EXPECTED else "no"
            rows.append(
                [
                    *(str(tasks), str(len(RADII)), str(n_seeds)),
                    *(f"{one_by_one:.2f}", f"{stacked:.2f}", f"{ratio:.1f}"),
                    f"{met} ({EXPECTED:g})" if n_seeds == 1 else "",
                ]
            )
    head = ["N", "radii", "seeds", "one by one, s", "stacked, s", "ratio", "as expected"]
    return table(head, rows)
