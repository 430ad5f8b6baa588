"""Sweeps over radii, seeds and baselines, and the choice of a radius on held-out rows."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh

from crosslearning.evaluation import Comparison, Scores
from crosslearning.evaluation.scores import best, nested
from crosslearning.nn._data import Augment, Batches, Pair, as_sources, check_counts
from crosslearning.nn._evaluation import EpochRecord, Metric
from crosslearning.nn._ranks import Ranks
from crosslearning.nn._sweep_runs import Folder, Measure, Plan, Setting, settings_of, train_single
from crosslearning.tasks import within_task_folds
from crosslearning.tether import Flags


def sweep(
    module: Callable[[], nn.Module],
    data: Mapping[Any, Any],
    loss: Callable[[Any, Any], torch.Tensor],
    optimizer: Callable[[Any], torch.optim.Optimizer],
    epochs: int,
    *,
    epsilons: float | Iterable[float] = (),
    baselines: str | Iterable[str] = (),
    stiffness: Iterable[float] = (1.0,),
    blocks: Mapping[str, float | None] | None = None,
    seeds: int | Sequence[int] = 1,
    test: Mapping[Any, Any] | None = None,
    metric: str | Metric | None = None,
    batch_size: int | None = 32,
    sampling: Literal["cycle", "proportional"] = "cycle",
    pooled_epochs: int = 0,
    center_weight: float = 1.0,
    scheduler: Callable[[torch.optim.Optimizer], Any] | None = None,
    augment: Augment | None = None,
    engine: str = "auto",
    folder: str | os.PathLike[str] | None = None,
    checkpoint_every: int | None = None,
    measure: Measure | None = None,
    on_epoch: Callable[[dict[str, Any], EpochRecord], Any] | None = None,
    mesh: DeviceMesh | None = None,
) -> pd.DataFrame:
    """Train with every radius and seed, and with the usual baselines, and evaluate the models.

    Parameters
    ----------
    module, optimizer, scheduler : callable
        Return a new module, with torch's generator seeded; an optimizer of parameters; and a
        scheduler of an optimizer.
    data, loss, epochs, batch_size, sampling, augment, engine, checkpoint_every, center_weight
        As in :func:`fit` and :class:`TaskModels`.
    epsilons : float or iterable of float
        Radii; 0 pools the tasks, ``math.inf`` separates them.
    baselines : one or several of {"pooled", "separate", "spring", "fine-tuned"}
        What to compare with: radius 0; radius infinity; springs to the centre instead of a radius
        (mean-regularised multi-task learning); and separate models that part from a pooled one
        after `pooled_epochs`, or else after half of the epochs.
    stiffness : iterable of float, default=(1.0,)
        Stiffness of the springs.
    blocks : dict from prefix to float or None, optional
        Radii of blocks of parameters, as in :class:`TaskModels`; None stands for the radius or
        spring of each run, as in ``{"*": None, "classifier": math.inf}``.
    pooled_epochs : int, default=0
        Number of epochs at the beginning in which ε is 0, as in :func:`fit`, for all radii but
        infinity; blocks whose radius is infinite for all runs are free from the first step. With a
        folder, these epochs are trained once for all radii of a seed, except on a mesh.
    seeds : int or sequence of int, default=1
        Each determines initial parameters, order of the data and dropout. A number n stands for
        the seeds 0 to n - 1.
    test, metric : mapping from task to data, "accuracy" or callable, optional
        Data to evaluate on, by default those of training; a function of a task's outputs and
        targets, as in :func:`evaluate`, by default the loss.
    folder : path, optional
        Where finished runs and the current one are kept, for an interrupted sweep to resume.
    measure, on_epoch : callable, optional
        ``measure(run, models, history)`` returns, for each task of a trained run, a dict of further
        columns, of JSON values; ``run`` has ``method``, ``epsilon``, ``stiffness`` and ``seed``.
        ``on_epoch(run, record)`` is called after each epoch.
    mesh : DeviceMesh, optional
        As in :class:`TaskModels`. All ranks need all data and must call this function.

    Returns
    -------
    DataFrame
        One row per setting, seed and task, with the columns ``method``, ``epsilon``,
        ``stiffness``, ``seed``, ``task``, ``loss`` (mean of the last epoch in training), ``score``,
        ``distance`` (to the centre) and ``pull`` (of the last projection).

    Examples
    --------
    >>> import torch
    >>> from torch import nn
    >>> from crosslearning.nn import sweep
    >>> _ = torch.manual_seed(0)
    >>> x = torch.randn(40, 3)
    >>> data = {"north": (x, x @ torch.ones(3, 1)), "south": (x, x @ torch.ones(3, 1) + 1)}
    >>> table = sweep(
    ...     lambda: nn.Linear(3, 1), data, nn.MSELoss(), lambda p: torch.optim.SGD(p, lr=0.1), 20,
    ...     epsilons=[0.1], baselines=["pooled", "separate"], batch_size=8,
    ... )  # fmt: skip
    >>> table.groupby("method")["score"].mean().round(2)
    method
    cross       0.16
    pooled      0.25
    separate    0.00
    Name: score, dtype: float64
    """
    plan = Plan(
        module=module,
        data=data,
        loss=loss,
        optimizer=optimizer,
        epochs=epochs,
        test=test,
        metric=metric,
        batch_size=batch_size,
        sampling=sampling,
        engine=engine,
        pooled_epochs=pooled_epochs,
        center_weight=center_weight,
        scheduler=scheduler,
        augment=augment,
        measure=measure,
        on_epoch=on_epoch,
        checkpoint_every=checkpoint_every,
        mesh=mesh,
        blocks=None if blocks is None else dict(blocks),
    )
    if isinstance(seeds, int):
        check_counts(seeds=seeds)
        seeds = range(seeds)
    return _table(plan, settings_of(epsilons, baselines, stiffness), list(seeds), folder)


def _table(plan: Plan, settings: list[Setting], seeds: list[int], folder: Any) -> pd.DataFrame:
    """Train what the folder lacks, run by run."""
    ranks = Ranks(plan.mesh, len(plan.data))
    with ranks.first_alone():
        kept = None if folder is None else Folder(folder, plan)
    runs = {pair: kept.find(*pair) if kept else None for pair in product(settings, seeds)}
    for run in [run for run, rows in runs.items() if rows is None]:
        runs[run] = rows = train_single(plan, *run, kept)
        if kept and ranks.is_first:
            kept.keep(*run, rows)
    if kept and ranks.is_first:
        for seed in seeds:
            kept.stage(seed).unlink(missing_ok=True)
    return pd.DataFrame(
        [
            {**setting.run(seed), "task": task, **row}
            for (setting, seed), rows in runs.items()
            for task, row in zip(plan.data, rows or (), strict=True)
        ]
    )


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
    folder, **options
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
    options |= {"epsilons": list(epsilons), "metric": metric}
    tables = []
    for number, (train, held_out) in enumerate(_splits(data, cv, random_state)):
        place = None if folder is None else Path(folder) / f"fold-{number}"
        runs = sweep(module, train, loss, optimizer, epochs, test=held_out, folder=place, **options)
        tables.append(runs.assign(fold=number))
    table = pd.concat(tables, ignore_index=True)
    radial = table[table["method"].isin(("pooled", "cross", "separate"))]
    radial = radial.sort_values("epsilon", kind="stable")
    radii = radial["epsilon"].unique().tolist()
    sign = -1.0 if metric is None else 1.0  # greater is better inside
    values = sign * radial["score"].to_numpy().reshape(len(radii), -1, len(data))
    by_run = Scores(radii, values, np.ones(values.shape[1:]))  # of a fold and a seed
    by_radius = pd.DataFrame(sign * by_run.by_split, index=pd.Index(radii, name="epsilon"))
    scores = by_radius.agg(["mean", "sem"], axis=1).set_axis(["score", "standard_error"], axis=1)
    return Selection(float(radii[best(by_run)]), scores, table, _compared(by_run, data))


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
    def __init__(self, rows: Any, indices: torch.Tensor) -> None:
        self.rows, self.indices = rows, indices

    def __len__(self) -> int:
        return len(self.indices)

    def batch(self, indices: torch.Tensor) -> tuple[Any, Any]:
        return self.rows.batch(self.indices[indices])


def _splits(data: Mapping[Any, Any], cv: float, seed: int) -> Iterator[list[dict[Any, Any]]]:
    sources = as_sources(data)
    for task, source in sources.items():
        if isinstance(source, Batches) or len(source) < 2:
            raise ValueError(
                "To hold out rows, every task needs at least two rows that can be indexed; "
                f"task {task!r} has {'a DataLoader' if isinstance(source, Batches) else 'one row'}."
            )
    for held_out in _test_rows([len(source) for source in sources.values()], cv, seed):
        parts: list[dict[Any, Any]] = [{}, {}]
        for (task, source), judged in zip(sources.items(), held_out, strict=True):
            for part, chosen in zip(parts, (~judged, judged), strict=True):
                rows = torch.from_numpy(np.flatnonzero(chosen))
                is_pair = isinstance(source, Pair)
                part[task] = source.batch(rows) if is_pair else Part(source, rows)
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
