"""Train the models of all tasks together."""

import os
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch.optim import Optimizer
from torch.optim.lr_scheduler import ReduceLROnPlateau

from crosslearning.nn._checkpoint import Checkpoint, RankCheckpoint
from crosslearning.nn._data import Augment, Feed, Source, as_sources, check_counts, schedule
from crosslearning.nn._engines import Engine, choose_engine
from crosslearning.nn._evaluation import EpochRecord, History, Metric, Validation, mode
from crosslearning.nn._members import StepCertificate
from crosslearning.nn._seeds import forked_generators
from crosslearning.nn._task_models import TaskModels
from crosslearning.tether import Array


def fit(
    models: TaskModels,
    data: Mapping[Any, Any],
    loss: Callable[[Any, Any], torch.Tensor],
    optimizer: Optimizer | Callable[[Any], Optimizer],
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
    epochs, batch_size : int, int or None, default=32
        Number of epochs; rows of each task in a step, or None for all rows of all tasks.
    sampling : {"cycle", "proportional"}, default="cycle"
        "cycle": an epoch passes once over the rows of the largest task, in whole batches, and
        smaller tasks start over in a new order. "proportional": an epoch uses each row once; a step
        takes `batch_size` rows per task on average, and more of large tasks.
    project_every : int, default=1
        Number of steps between projections; there is always one at the end of an epoch.
    pooled_epochs : int or dict from block to int, default=0
        Number of epochs at the beginning in which ε is 0, whatever the tethers, in all blocks or in
        those of a dict; then the tasks part. What is in no block always belongs to its task alone.
    scheduler : scheduler or callable, optional
        A scheduler of the optimizer, or a function of it that returns one. It advances after each
        epoch; ``ReduceLROnPlateau`` gets the validation score, or else the loss.
    validation : mapping from task to data, optional
        Scored after each epoch; see :func:`evaluate`.
    metric : "accuracy" or callable, optional
        Validation score, a function of a task's outputs and targets; higher is better. By default
        the loss, for which lower is better.
    patience : int, optional
        Stop when the mean validation score has not improved for this many epochs, and keep the
        parameters of the best epoch, however training ends.
    augment : callable, optional
        ``augment(x, generator) -> x`` transforms the inputs of training batches, with random
        numbers from the generator, so that runs are reproducible.
    callbacks : sequence of callable, optional
        Called with an :class:`EpochRecord` after each epoch; returning True stops training.
    engine : {"auto", "loop", "threads", "vmap"}, default="auto"
        How gradients are computed: one task after another; in a thread per task; or in one
        vectorised pass, which needs the same architecture, batches of the same shape and no buffers
        that change. All agree up to rounding, and up to dropout with "vmap". "auto" uses "vmap" for
        at least 4 tasks whose models consist of torch's linear layers, with a torch loss and
        tensors as data; "threads" for convolutions on a CPU where torch has more than one thread.
    seed : int, default=0
        Determines, with the task's label and the step, the order of rows, augmentation and dropout:
        with ε = ∞, tasks train exactly as they would alone (except for dropout with "vmap").
    checkpoint : path, optional
        File to which training is saved after every epoch, and from which it resumes, with the
        result of an uninterrupted run (bit for bit on the CPU with "loop"). Pass the same arguments
        again, possibly with more epochs. With a mesh it is a folder, for any number of ranks.
    checkpoint_every : int, optional
        Steps after which to save, too.

    Returns
    -------
    History
        Tables of the epochs.

    Raises
    ------
    ValueError
        If the checkpoint is damaged or belongs to another run, or if the loss or the parameters of
        a task become NaN or infinite.

    Notes
    -----
    Springs and tensions are scaled by the learning rate times the steps since the last projection.

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
    scored = Validation.optional(validation, metric, loss, patience)
    sources = _sources(data, models)
    device = next(models.parameters()).device
    plan = schedule(tuple(sources.values()), batch_size, sampling, models.ranks)
    made = make_optimizer(optimizer, models)
    run = Run(
        models=models,
        feed=Feed(sources, plan, seed, augment, device, models.ranks),
        optimizer=made,
        scheduler=make_scheduler(scheduler, made),
        validation=scored,
        callbacks=callbacks,
        project_every=project_every,
        pooled_epochs=_by_block(pooled_epochs, models),
    )
    saved = _resume(checkpoint, checkpoint_every, run, epochs)
    with (
        forked_generators(device),
        mode(models, training=True),
        closing(choose_engine(engine, models, loss, made, run.feed)) as computing,
    ):
        run.train(computing, epochs, saved)
    if scored is not None and scored.best_state is not None:
        models.load_state_dict(scored.best_state)
    return run.history


def _resume(path: Any, every: int | None, run: "Run", epochs: int) -> Checkpoint | None:
    if every is not None:
        check_counts(checkpoint_every=every)
    if path is None:
        if every is not None:
            raise ValueError("`checkpoint_every` needs `checkpoint`, the file to save to.")
        return None
    kind = Checkpoint if run.models.ranks.mesh is None else RankCheckpoint
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
    if odd := sorted(map(repr, missing | (set(sources) - set(models.tasks)))):
        raise ValueError(
            f"`data` must have exactly the tasks of the models; {', '.join(odd)} is in only one of "
            f"them. The models have the tasks {', '.join(map(repr, models.tasks))}."
        )
    return {task: sources[task] for task in models.local_tasks}


@dataclass(eq=False, kw_only=True)
class Run:
    """A training run, from any step on."""

    models: TaskModels
    feed: Feed
    optimizer: Optimizer
    scheduler: Any
    validation: Validation | None
    callbacks: Sequence[Callable[[EpochRecord], Any]]
    project_every: int
    pooled_epochs: dict[str, int]  # by block
    step: int = 0  # steps done
    stopped: bool = False  # by validation or a callback
    seconds: float = 0.0  # of the current epoch before `train` was called

    def __post_init__(self) -> None:
        self.sums, self.counts = np.zeros((2, len(self.models)))  # losses of the current epoch
        self.history = History(self.models.tasks)

    @property
    def steps(self) -> int:
        return self.feed.plan.steps

    @property
    def pooled_steps(self) -> dict[str, int]:
        return {name: epochs * self.steps for name, epochs in self.pooled_epochs.items()}

    def train(self, engine: Engine, epochs: int, checkpoint: Checkpoint | None) -> None:
        """Train until the end, or until validation or a callback says so."""
        self._started = time.perf_counter() - self.seconds
        certificate = None
        self.models.link()
        while self.step < epochs * self.steps and not self.stopped:
            self._take_gradients(engine)
            self.optimizer.step()
            self.step += 1
            certificate = self._project() or certificate
            self.seconds = time.perf_counter() - self._started
            if self.step % self.steps == 0:
                self._end_epoch(certificate)
            if checkpoint is not None and checkpoint.is_due:
                with engine.released():
                    checkpoint.save()
        self.models.zero_grad()
        self.models.mark_changed()

    def _take_gradients(self, engine: Engine) -> None:
        rows, losses = engine.gradients(self.step)
        self.models.average_gradients()
        values = losses.double().cpu().numpy()
        if values.shape != (len(rows),):
            raise ValueError(
                "`loss` must return one number per batch; got shape "
                f"{values.shape[1:]}. Use one that averages, such as reduction='mean'."
            )
        if self.models.ranks.mesh is not None:
            rows, values = self._of_all_ranks(rows, values)
        if not np.isfinite(values).all():
            self._refuse(rows, values)
        self.sums[rows] += values
        self.counts[rows] += 1

    def _of_all_ranks(self, rows: list[int], values: Array) -> tuple[list[int], Array]:
        """Positions and losses of all tasks that took part in a step, given the local ones."""
        ranks = self.models.ranks
        table = np.zeros((len(self.models.local_tasks), 2))
        table[rows] = np.stack([np.ones(len(rows)), values], axis=1)
        table = ranks.gather(ranks.sum(table, "data") / ranks.copies)
        took_part = np.flatnonzero(table[:, 0])
        return took_part.tolist(), table[took_part, 1]

    def _refuse(self, rows: list[int], values: Array) -> None:
        pairs = zip((self.models.tasks[row] for row in rows), values, strict=True)
        bad = [f"task {task!r} is {value}" for task, value in pairs if not np.isfinite(value)]
        raise ValueError(
            f"A loss must be finite; that of {', that of '.join(bad)} in step {self.step + 1}. "
            "The models are as they were before this step. Lower the learning rate, and check the "
            "data of the task."
        )

    def _project(self) -> StepCertificate | None:
        since = (self.step - 1) % self.steps % self.project_every + 1
        if since < self.project_every and self.step % self.steps:
            return None
        rate = step_size(self.models, self.optimizer)
        if rate == 0.0:  # nothing has moved, and springs scale with the rate
            return None
        pooled = [name for name, last in self.pooled_steps.items() if self.step <= last]
        return self.models.project_linked(None if rate is None else since * rate, pooled)

    def _end_epoch(self, certificate: StepCertificate | None) -> None:
        models, epoch = self.models, self.step // self.steps
        scores, score = np.full(len(models), np.nan), np.nan
        if self.validation is not None:
            scores, score = self.validation.scores(models)
            self.stopped = self.validation.note(models, epoch, score)
            self.history.best_epoch = self.validation.best_epoch
        record = EpochRecord(
            epoch=epoch,
            step=self.step,
            losses=self.sums / self.counts,
            distances=models.distances(),
            pulls=np.zeros(len(models)) if certificate is None else certificate.pull,
            scores=scores,
            score=score,
            learning_rate=float(self.optimizer.param_groups[0]["lr"]),
            seconds=self.seconds,
        )
        self.history.records.append(record)
        if isinstance(self.scheduler, ReduceLROnPlateau):
            self.scheduler.step(record.loss if self.validation is None else score)
        elif self.scheduler is not None:
            self.scheduler.step()
        for callback in self.callbacks:
            self.stopped |= callback(record) is True
        self.stopped = models.ranks.any(self.stopped)
        models.link()  # what callbacks may have replaced
        self.sums, self.counts = np.zeros((2, len(models)))
        self.seconds, self._started = 0.0, time.perf_counter()


def make_optimizer(source: Any, models: TaskModels) -> Optimizer:
    """Return the given optimizer, or that of a function of the parameters."""
    optimizer = source(models.parameters()) if callable(source) else source
    if not isinstance(optimizer, Optimizer):
        raise ValueError(
            "`optimizer` must be a torch optimizer, or a function of parameters that returns one; "
            f"got {type(source).__name__}. Use lambda p: torch.optim.SGD(p, lr=0.1)."
        )
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    if foreign := len(set(parameters) - set(models.parameters())):
        raise ValueError(
            f"The optimizer must hold only parameters of the models; {foreign} of its "
            f"{len(parameters)} are not. Build it with `models.parameters()`."
        )
    return optimizer


def make_scheduler(source: Any, optimizer: Optimizer) -> Any:
    """Return the given scheduler, the one that a function returns, or None."""
    scheduler = source(optimizer) if callable(source) else source
    if scheduler is not None and getattr(scheduler, "optimizer", None) is not optimizer:
        raise ValueError(
            "`scheduler` must be a scheduler of the given optimizer, or a function that returns "
            "one. Use lambda o: StepLR(o, step_size=10)."
        )
    return scheduler


def step_size(models: TaskModels, optimizer: Optimizer) -> float | None:
    """Return the learning rate if springs or tensions need it, otherwise None."""
    if all(block.tether.is_ball for block in models.blocks):
        return None
    rates = {float(group["lr"]) for group in optimizer.param_groups}
    if len(rates) > 1:
        raise ValueError(
            "Springs and tensions scale with the step, and need one learning rate; got "
            f"{sorted(rates)}. Use one group of parameters, or a bound alone: epsilon=..."
        )
    return rates.pop()
