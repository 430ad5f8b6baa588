"""Train the models of all tasks together."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Literal

import torch

from crosslearning.nn._checkpoint import Checkpoint
from crosslearning.nn._checks import check_counts
from crosslearning.nn._engines import choose_engine
from crosslearning.nn._evaluation import Metric, Validation, check_validation, mode
from crosslearning.nn._history import EpochRecord, History
from crosslearning.nn._optimizers import make_optimizer, make_scheduler
from crosslearning.nn._run import Bar, Run
from crosslearning.nn._sampling import Augment, Feed, schedule
from crosslearning.nn._seeds import forked_generators
from crosslearning.nn._sources import Source, as_sources
from crosslearning.nn._task_models import TaskModels


def fit(
    models: TaskModels,
    data: Mapping[Any, Any],
    loss: Callable[[Any, Any], torch.Tensor],
    optimizer: torch.optim.Optimizer | Callable[[Any], torch.optim.Optimizer],
    epochs: int,
    *,
    batch_size: int | None = 32,
    sampling: Literal["cycle", "proportional"] = "cycle",
    project_every: int = 1,
    pooled_epochs: int | Mapping[str, int] = 0,
    scheduler: Any = None,
    validation: Mapping[Any, Any] | None = None,
    metric: str | Metric | None = None,
    patience: int | None = None,
    augment: Augment | None = None,
    callbacks: Sequence[Callable[[EpochRecord], Any]] = (),
    engine: Literal["auto", "loop", "threads", "vmap"] = "auto",
    seed: int = 0,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int | None = None,
    progress: bool = False,
) -> History:
    r"""Train the models of all tasks together, with Algorithm 1 of the paper.

    Every step takes a batch of each task, computes the gradient of each task's loss, takes an
    optimizer step, and projects, so that all tasks are within ε of the centre.

    Parameters
    ----------
    models : TaskModels
        The models, trained in place.
    data : mapping from task to data
        For each task a pair of tensors (x, y); or an object with a length and
        ``batch(indices) -> (x, y)``; or a map-style dataset of pairs; or a DataLoader, which keeps
        its own order and batch size. With a mesh, a rank needs only the data of its own tasks.
    loss : callable
        ``loss(output, target)``, a scalar; usually a mean over rows.
    optimizer : Optimizer or callable
        An optimizer of ``models.parameters()``, or a function of parameters that returns one.
    epochs : int
        Number of epochs.
    batch_size : int or None, default=32
        Rows of each task in a step; None takes all rows of all tasks.
    sampling : {"cycle", "proportional"}, default="cycle"
        "cycle": an epoch passes once over the rows of the largest task, in whole batches, and
        smaller tasks start over in a new order. "proportional": an epoch uses each row once; a step
        takes `batch_size` rows per task on average, and more of large tasks.
    project_every : int, default=1
        Number of steps between projections; there is always one at the end of an epoch.
    pooled_epochs : int or dict from block to int, default=0
        Number of epochs at the beginning in which ε is 0, whatever the tethers: the tasks part
        from a pooled model, and have the rest of the epochs for it. A dict does so for the blocks
        that it names; what is in no block always belongs to its task alone.
    scheduler : scheduler or callable, optional
        A scheduler of the optimizer, or a function of it that returns one. It advances after each
        epoch; ``ReduceLROnPlateau`` gets the validation score, or else the loss.
    validation : mapping from task to data, optional
        Scored after each epoch; see :func:`evaluate`.
    metric : "accuracy" or callable, optional
        Validation score, a function of a task's outputs and targets; higher is better. By default
        the loss, for which lower is better.
    patience : int, optional
        Stop when the mean validation score has not improved for this many epochs. However training
        ends, the parameters of the best epoch are kept.
    augment : callable, optional
        ``augment(x, generator) -> x`` transforms the inputs of training batches; it should draw
        random numbers from the generator, so that runs are reproducible.
    callbacks : sequence of callable, optional
        Called with an :class:`EpochRecord` after each epoch; returning True stops training.
    engine : {"auto", "loop", "threads", "vmap"}, default="auto"
        How gradients are computed: one task after another; in a thread per task; or in one
        vectorised pass over all tasks, which needs the same architecture, batches of the same shape
        and no buffers that change, such as those of BatchNorm. All agree up to rounding, and up to
        dropout with "vmap". "auto" uses "vmap" for at least 4 tasks whose models consist of torch's
        linear layers, with a torch loss and tensors as data; "threads" for models with convolutions
        on a CPU where torch has more than one thread; and "loop" otherwise.
    seed : int, default=0
        Determines, with the task's label and the step, the order of rows, augmentation and dropout:
        with ε = ∞, tasks train exactly as they would alone (except for dropout with "vmap").
    checkpoint : path, optional
        File to which training is saved after every epoch, and from which it resumes, with the
        result of an uninterrupted run (bit for bit on the CPU with "loop"). Pass the same arguments
        again, possibly with more epochs; all but functions are compared with the file. With a mesh
        it is a folder, for any number of ranks.
    checkpoint_every : int, optional
        Also save after every multiple of this number of steps.
    progress : bool, default=False
        Whether to show a progress bar on standard error (of the first rank).

    Returns
    -------
    History
        Tables of the epochs: ``history.epochs`` and ``history.tasks``.

    Raises
    ------
    ValueError
        If the checkpoint is damaged or belongs to another run, or if the loss or the parameters of
        a task become NaN or infinite; the other tasks are not affected.

    Notes
    -----
    Springs and tensions are scaled by the optimizer's learning rate times the number of steps since
    the last projection.

    Examples
    --------
    >>> import torch
    >>> from torch import nn
    >>> from crosslearning.nn import TaskModels, evaluate, fit
    >>> _ = torch.manual_seed(0)
    >>> x = torch.randn(40, 3)
    >>> data = {"north": (x, x @ torch.ones(3, 1)), "south": (x, x @ torch.ones(3, 1) + 1)}
    >>> models = TaskModels(nn.Linear(3, 1), tasks=data, epsilon=0.1)
    >>> history = fit(
    ...     models, data, nn.MSELoss(), lambda p: torch.optim.SGD(p, lr=0.1), 20, batch_size=8
    ... )
    >>> history.epochs["loss"].iloc[-1].round(2)
    np.float64(0.16)
    >>> models.distances().round(3)
    array([0.1, 0.1])
    """
    check_counts(epochs=epochs, project_every=project_every)
    check_validation(validation, metric, patience)
    sources = _sources(data, models)
    device = next(models.parameters()).device
    plan = schedule(tuple(sources.values()), batch_size, sampling, models.ranks)
    made = make_optimizer(optimizer, models)
    run = Run(
        models=models,
        feed=Feed(sources, plan, seed, augment, device, models.ranks),
        optimizer=made,
        scheduler=make_scheduler(scheduler, made),
        validation=(None if validation is None else Validation(validation, metric, loss, patience)),
        callbacks=callbacks,
        project_every=project_every,
        pooled_epochs=_by_block(pooled_epochs, models),
    )
    saved = _resume(checkpoint, checkpoint_every, run, epochs)
    with forked_generators(device), mode(models, training=True):
        computing = choose_engine(engine, models, loss, made, run.feed)
        try:
            with Bar(progress and models.ranks.is_first, models.tasks, epochs, plan.steps) as bar:
                run.train(computing, epochs, bar, saved)
        finally:
            computing.close()
    if run.validation is not None:
        run.validation.restore(models)
    return run.history


def _resume(path: Any, every: int | None, run: Run, epochs: int) -> Checkpoint | None:
    if every is not None:
        check_counts(checkpoint_every=every)
    if path is None:
        if every is not None:
            raise ValueError("`checkpoint_every` needs `checkpoint`, the file to save to.")
        return None
    kind = Checkpoint
    if run.models.ranks.mesh is not None:
        from crosslearning.nn._rank_checkpoint import RankCheckpoint as kind  # noqa: N813
    checkpoint = kind(path, every, run)
    checkpoint.resume(epochs)
    return checkpoint


def _by_block(pooled_epochs: int | Mapping[str, int], models: TaskModels) -> dict[str, int]:
    names = [block.name for block in models.blocks]
    if not isinstance(pooled_epochs, Mapping):
        pooled_epochs = dict.fromkeys(names, pooled_epochs)
    for name, value in pooled_epochs.items():
        check_counts(least=0, pooled_epochs=value)
        if name not in names:
            raise ValueError(
                f"`pooled_epochs` must name blocks of the models, {', '.join(map(repr, names))}; "
                f"got {name!r}."
            )
    return dict(pooled_epochs)


def _sources(data: Mapping[Any, Any], models: TaskModels) -> dict[Hashable, Source]:
    sources = as_sources(data)
    missing = set(models.local_tasks) - set(sources)
    odd = sorted(map(repr, missing | (set(sources) - set(models.tasks))))
    if odd:
        raise ValueError(
            f"`data` must have exactly the tasks of the models; {', '.join(odd)} is in only one of "
            "them. The models have the tasks "
            f"{', '.join(map(repr, models.tasks))}."
        )
    return {task: sources[task] for task in models.local_tasks}
