"""The choice of a radius on held-out rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import nn

from crosslearning.evaluation import Comparison, Scores
from crosslearning.evaluation.scores import best, nested
from crosslearning.nn._evaluation import Metric
from crosslearning.nn._sources import Batches, Pair, as_sources
from crosslearning.nn.sweeps._sweep import sweep
from crosslearning.tasks import within_task_folds
from crosslearning.tether import Flags


@dataclass(frozen=True, eq=False)
class Selection:
    """The chosen radius, and the scores behind the choice.

    The ``comparison`` of pooled, separate and cross-learned networks is paired by fold and seed;
    its scores are negative losses if there is no metric.
    """

    epsilon: float  # with the best score, averaged over tasks, folds and seeds
    scores: pd.DataFrame  # mean ``score`` by radius, ``standard_error`` over folds and seeds
    table: pd.DataFrame  # of :func:`sweep` for all folds, with the column ``fold``
    comparison: Comparison | None = None  # if 0 and infinity are among the radii


def select_epsilon(
    module: Callable[[], nn.Module],
    data: Mapping[Any, Any],
    loss: Callable[[Any, Any], torch.Tensor],
    optimizer: Callable[[Any], torch.optim.Optimizer],
    epochs: int,
    *,
    epsilons: Iterable[float],
    cv: float = 5,
    metric: str | Metric | None = None,
    random_state: int = 0,
    folder: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Selection:
    """Choose the radius by cross-validation, or by a validation split.

    Parameters
    ----------
    module, data, loss, optimizer, epochs
        As in :func:`sweep`; DataLoaders cannot be divided and are refused.
    epsilons : iterable of float
        Radii to choose from.
    cv : int or float, default=5
        If at least 2, the number of folds, which divide every task; if between 0 and 1, the
        fraction of every task that is held out once.
    metric : "accuracy" or callable, optional
        The score, for which higher is better; by default the loss, for which lower is better.
    random_state : int, default=0
        Seed of the folds.
    folder : path, optional
        Folder for finished runs, as in :func:`sweep`.
    **options
        Further arguments of :func:`sweep`, such as `seeds` and `batch_size`.

    Examples
    --------
    >>> import torch
    >>> from torch import nn
    >>> from crosslearning.nn import select_epsilon
    >>> _ = torch.manual_seed(0)
    >>> x = torch.randn(40, 3)
    >>> data = {"north": (x, x @ torch.ones(3, 1)), "south": (x, x @ torch.ones(3, 1) + 1)}
    >>> selection = select_epsilon(
    ...     lambda: nn.Linear(3, 1), data, nn.MSELoss(), lambda p: torch.optim.SGD(p, lr=0.1), 20,
    ...     epsilons=[0.0, 0.1, 1.0], cv=0.25, batch_size=8,
    ... )  # fmt: skip
    >>> selection.epsilon
    1.0
    """
    radii = list(epsilons)
    tables = [
        sweep(
            module,
            train,
            loss,
            optimizer,
            epochs,
            epsilons=radii,
            test=held_out,
            metric=metric,
            folder=None if folder is None else Path(folder) / f"fold-{number}",
            **options,
        ).assign(fold=number)
        for number, (train, held_out) in enumerate(_splits(data, cv, random_state))
    ]
    table = pd.concat(tables, ignore_index=True)
    sign = -1.0 if metric is None else 1.0
    runs = _runs(table, len(data), sign)
    by_radius = pd.DataFrame(sign * runs.by_split, index=pd.Index(runs.settings, name="epsilon"))
    scores = by_radius.agg(["mean", "sem"], axis=1).set_axis(["score", "standard_error"], axis=1)
    return Selection(float(runs.settings[best(runs)]), scores, table, _compared(runs, data))


def _runs(table: pd.DataFrame, n_tasks: int, sign: float) -> Scores:
    """Scores by radius, run (of a fold and a seed) and task, greater is better."""
    radial = table[table["method"].isin(("pooled", "cross", "separate"))]
    radial = radial.sort_values("epsilon", kind="stable")
    radii = radial["epsilon"].unique().tolist()
    values = sign * radial["score"].to_numpy().reshape(len(radii), -1, n_tasks)
    return Scores(radii, values, np.ones(values.shape[1:]))


def _compared(runs: Scores, data: Mapping[Any, Any]) -> Comparison | None:
    """Compare pooled and separate with the chosen radius, if both were tried."""
    if not {0.0, np.inf} <= set(runs.settings):
        return None
    every = range(len(runs.settings))  # from 0 to infinity
    methods = {"pooled": every[:1], "separate": every[-1:], "cross": every}
    scores = nested(runs, methods, best(runs))
    sizes = [len(source) for source in as_sources(data).values()]
    return Comparison.of(scores, list(data), sizes, by_run=True, nested=scores.n_splits > 1)


class Part:
    """Some of the rows of a task."""

    def __init__(self, rows: Any, indices: torch.Tensor) -> None:
        self.rows, self.indices = rows, indices

    def __len__(self) -> int:
        return len(self.indices)

    def batch(self, indices: torch.Tensor) -> tuple[Any, Any]:
        return self.rows.batch(self.indices[indices])


def _splits(
    data: Mapping[Any, Any], cv: float, seed: int
) -> Iterator[tuple[dict[Hashable, Any], dict[Hashable, Any]]]:
    """Yield training and held-out data, fold by fold."""
    sources = as_sources(data)
    for task, source in sources.items():
        if isinstance(source, Batches) or len(source) < 2:
            raise ValueError(
                "To hold out rows, every task needs at least two rows that can be indexed; "
                f"task {task!r} has {'a DataLoader' if isinstance(source, Batches) else 'one row'}."
            )
    for held_out in _test_rows([len(source) for source in sources.values()], cv, seed):
        parts: tuple[dict[Hashable, Any], dict[Hashable, Any]] = {}, {}
        for (task, source), judged in zip(sources.items(), held_out, strict=True):
            for part, chosen in zip(parts, (~judged, judged), strict=True):
                rows = torch.from_numpy(np.flatnonzero(chosen))
                some: Any = source.batch if isinstance(source, Pair) else partial(Part, source)
                part[task] = some(rows)
        yield parts


def _test_rows(sizes: list[int], cv: float, seed: int) -> Iterator[list[Flags]]:
    """Which rows of each task are held out, fold by fold; never none, never all of a task."""
    if 0 < cv < 1:
        rng = np.random.default_rng(seed)
        counts = [min(max(round(cv * size), 1), size - 1) for size in sizes]
        yield [rng.permutation(size) < count for size, count in zip(sizes, counts, strict=True)]
        return
    smallest = min(sizes)
    if cv != int(cv) or not 2 <= cv <= smallest:
        raise ValueError(
            f"`cv` must be a number of folds from 2 to {smallest}, the rows of the smallest task, "
            f"or a fraction between 0 and 1; got {cv}."
        )
    folds = within_task_folds(np.repeat(np.arange(len(sizes)), sizes), int(cv), seed)
    for number in range(int(cv)):
        yield np.split(folds == number, np.cumsum(sizes)[:-1])
