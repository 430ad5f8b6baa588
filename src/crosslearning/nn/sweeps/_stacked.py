"""Runs trained at the same time, radii and seeds and tasks in one vmap."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.nn.modules.dropout import _DropoutNd
from torch.optim.lr_scheduler import ReduceLROnPlateau

from crosslearning.nn._evaluation import in_order, mode
from crosslearning.nn._optimizers import ELEMENTWISE, advance, learning_rate, make_scheduler
from crosslearning.nn._sampling import Feed, schedule
from crosslearning.nn._seeds import build, forked_generators
from crosslearning.nn._vmap import StackedFeed, is_layered, is_of_torch
from crosslearning.nn.sweeps._stack import Stack

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from crosslearning.nn.sweeps._settings import Plan, Setting


def why_not_stacked(plan: Plan, settings: Sequence[Setting], *, asked_for: bool) -> str | None:
    """Say what keeps runs from being stacked, or None; who asks for it may try more."""
    module = build(plan.module, 0)
    parameters = list(module.parameters())
    optimizer = plan.optimizer([nn.Parameter(torch.zeros(1))])
    scheduler = make_scheduler(plan.scheduler, optimizer)
    steps = schedule(tuple(plan.sources().values()), plan.batch_size, plan.sampling)
    reasons = {
        "runs are looked at one by one": bool(plan.measure or plan.on_epoch),
        "fine-tuning takes two runs": any(setting.fine_tuned for setting in settings),
        "the model has buffers": any(True for _ in module.buffers()),
        "dropout would differ": any(
            isinstance(part, _DropoutNd) and part.p for part in module.modules()
        ),
        "some parameters are frozen": not all(one.requires_grad for one in parameters),
        "parameters differ in dtype": len({one.dtype for one in parameters}) != 1,
        "the optimizer mixes parameters": type(optimizer) not in ELEMENTWISE,
        "the scheduler looks at a score": isinstance(scheduler, ReduceLROnPlateau),
        "batches of the tasks differ in size": not steps.equal,
        "the model has more than linear layers": not (asked_for or is_layered(module)),
        "the loss is not torch's": not (asked_for or is_of_torch(plan.loss)),
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def train_stacked(plan: Plan, runs: Sequence[tuple[Setting, int]]) -> list[list[dict[str, Any]]]:
    """Train runs side by side, and return their rows of the table.

    All settings are trained with all seeds; where some of these are not asked for, they come along.
    """
    settings = list(dict.fromkeys(setting for setting, _ in runs))
    seeds = list(dict.fromkeys(seed for _, seed in runs))
    sources, modules = plan.sources(), [build(plan.module, seed) for seed in seeds]
    names = [f"run {setting.key} with seed {seed}" for seed in seeds for setting in settings]
    tethers = [one.tether for one in settings]
    stack = Stack(modules, list(sources), tethers, plan.center_weight, names)
    steps = schedule(tuple(sources.values()), plan.batch_size, plan.sampling)
    device = stack.tasks.device
    feeds = [StackedFeed(Feed(sources, steps, seed, plan.augment, device)) for seed in seeds]
    with forked_generators(device):
        with mode(modules[0], training=True):
            losses = _train(plan, stack, feeds, steps.steps)
        scores = _scores(plan, stack, modules[0])
    columns = {
        "loss": losses,
        "score": scores,
        "distance": stack.distances(),
        "pull": np.array(stack.pulls).T.reshape(losses.shape),
    }
    places = [(seeds.index(seed), settings.index(setting)) for setting, seed in runs]
    return [
        [
            {name: float(values[task, k, t]) for name, values in columns.items()}
            for task in range(len(sources))
        ]
        for k, t in places
    ]


def _train(plan: Plan, stack: Stack, feeds: list[StackedFeed], steps: int) -> NDArray[np.float64]:
    """Train, and return the mean loss over the last epoch, of shape (tasks, seeds, settings)."""
    optimizer = plan.optimizer([stack.tasks])
    scheduler = make_scheduler(plan.scheduler, optimizer)
    gradients = stack.gradients(plan.loss)
    total: Any = 0.0
    for step in range(plan.epochs * steps):
        in_epoch = step % steps
        batches = zip(*(feed.step(step) for feed in feeds), strict=True)  # inputs, and targets
        stack.tasks.grad, losses = gradients(*(torch.stack(one, dim=1) for one in batches))
        optimizer.step()
        since = in_epoch % plan.project_every + 1
        if since == plan.project_every or in_epoch + 1 == steps:
            stack.project(since * learning_rate(optimizer))
        total = losses + (total if in_epoch else 0.0)
        if in_epoch + 1 == steps:
            advance(scheduler, float("nan"))  # only those that look at no score
    return np.asarray((total / steps).double().cpu().numpy())


def _scores(plan: Plan, stack: Stack, skeleton: nn.Module) -> NDArray[np.float64]:
    """Metric of all models on their task's data for judging."""
    shape, device = stack.tasks.shape[:-1], stack.tasks.device
    result = np.empty(shape)
    outputs_of = torch.func.vmap(stack.forward, in_dims=(0, None))
    with mode(skeleton, training=False), torch.no_grad():
        for task, source in enumerate(plan.test_sources().values()):
            runs = stack.tasks[task].flatten(0, 1)
            pairs = [
                (outputs_of(runs, x.to(device)), y.to(device))
                for x, y in in_order(source, plan.rows_at_once)
            ]
            outputs = torch.cat([output for output, _ in pairs], dim=1)
            targets = torch.cat([target for _, target in pairs])
            scores = [float(plan.judge(output, targets)) for output in outputs]
            result[task] = np.reshape(scores, shape[1:])
    return result
