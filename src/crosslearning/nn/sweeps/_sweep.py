"""Radii, seeds and baselines, trained and evaluated in one call."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from typing import Any, Literal

import pandas as pd
import torch
from joblib import Parallel, delayed
from torch import nn
from torch.distributed.device_mesh import DeviceMesh

from crosslearning.nn._checks import check_counts
from crosslearning.nn._evaluation import Metric
from crosslearning.nn._history import EpochRecord
from crosslearning.nn._ranks import Ranks
from crosslearning.nn._sampling import Augment
from crosslearning.nn.sweeps._settings import Measure, Plan, settings_of
from crosslearning.nn.sweeps._single import Folder, train_single
from crosslearning.nn.sweeps._stacked import train_stacked, why_not_stacked


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
    project_every: int = 1,
    pooled_epochs: int = 0,
    center_weight: float = 1.0,
    scheduler: Callable[[torch.optim.Optimizer], Any] | None = None,
    augment: Augment | None = None,
    engine: str = "auto",
    stacked: bool | Literal["auto"] = "auto",
    n_jobs: int | None = None,
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
    data, loss, epochs, batch_size, sampling, project_every, augment, center_weight
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
        folder, these epochs are trained once for all radii of a seed, except on a mesh or in
        several processes.
    seeds : int or sequence of int, default=1
        Each determines initial parameters, order of the data and dropout. A number n stands for
        the seeds 0 to n - 1.
    test : mapping from task to data, optional
        Data to evaluate on; by default the training data.
    metric : "accuracy" or callable, optional
        Function of a task's outputs and targets, as in :func:`evaluate`; by default the loss.
    engine : str, default="auto"
        As in :func:`fit`, for runs that are not stacked.
    stacked : bool or "auto", default="auto"
        Whether to train all runs at the same time, in one vmap, which is several times faster for
        linear models and multi-layer perceptrons. "auto" does so where it gives the same numbers
        and is no slower.
    n_jobs : int, optional
        Number of processes for runs that are not stacked; by default there is only this one.
    folder : path, optional
        Folder for finished runs and the state of the current one, from which an interrupted sweep
        resumes; stacked runs finish all at once. A folder of another sweep is refused.
    checkpoint_every : int, optional
        Steps after which the state of a run is also saved, in addition to the end of each epoch.
    measure, on_epoch : callable, optional
        ``measure(run, models, history)`` returns, for each task of a trained run, a dict of further
        columns, of JSON values; ``run`` has ``method``, ``epsilon``, ``stiffness`` and ``seed``.
        ``on_epoch(run, record)`` is called after each epoch. With either, runs are not stacked.
    mesh : DeviceMesh, optional
        Spreads the tasks of every run over ranks; see :class:`TaskModels`. All ranks need all
        data and must call this function. Runs are not stacked.

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
        project_every=project_every,
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
    settings = settings_of(epsilons, baselines, stiffness)
    ranks = Ranks(mesh, len(data))
    if ranks.mesh is not None and n_jobs not in (None, 1):
        raise ValueError(f"Runs on a mesh are trained one after the other; got n_jobs={n_jobs}.")
    with ranks.first_alone():
        kept = None if folder is None else Folder(folder, plan)
    if isinstance(seeds, int):
        check_counts(seeds=seeds)
    starts = list(range(seeds) if isinstance(seeds, int) else seeds)
    pairs = list(product(settings, starts))
    runs = {pair: kept.find(*pair) if kept else None for pair in pairs}
    missing = [run for run, rows in runs.items() if rows is None]
    if missing and _to_stack(stacked, plan):
        finished = train_stacked(plan, missing)
    else:
        one_by_one = ranks.mesh is None and n_jobs in (None, 1)
        work = (delayed(train_single)(plan, *run, engine, kept, one_by_one) for run in missing)
        finished = Parallel(n_jobs=n_jobs, return_as="generator")(work)
    for run, rows in zip(missing, finished, strict=True):
        runs[run] = rows
        if kept and ranks.is_first:
            kept.keep(*run, rows)
    if kept and ranks.is_first:
        for seed in starts:
            kept.stage(seed).unlink(missing_ok=True)
    return pd.DataFrame(
        [
            {**setting.run(seed), "task": task, **row}
            for (setting, seed), rows in runs.items()
            for task, row in zip(data, rows or (), strict=True)
        ]
    )


def _to_stack(stacked: bool | Literal["auto"], plan: Plan) -> bool:
    if not (isinstance(stacked, bool) or stacked == "auto"):
        raise ValueError(f"`stacked` must be True, False or 'auto'; got {stacked!r}.")
    if stacked is False:
        return False
    obstacle = why_not_stacked(plan, required=stacked is True)
    if stacked is True and obstacle:
        raise ValueError(f"The runs cannot be stacked: {obstacle}. Use stacked='auto'.")
    return obstacle is None
