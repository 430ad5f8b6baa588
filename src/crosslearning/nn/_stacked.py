"""Runs trained at the same time, radii and seeds and tasks in one vmap."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.func import functional_call, vmap
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.utils import parameters_to_vector
from torch.optim.lr_scheduler import ReduceLROnPlateau

from crosslearning.coupling import Status, Storage, couple
from crosslearning.nn._data import Feed
from crosslearning.nn._evaluation import in_order, mode
from crosslearning.nn._members import dtype_storage
from crosslearning.nn._seeds import build, forked_generators
from crosslearning.nn._sweep_runs import Plan, Setting
from crosslearning.nn._training import advance, learning_rate, make_scheduler
from crosslearning.nn._vmap import ELEMENTWISE, StackedFeed, is_layered, is_of_torch
from crosslearning.tether import Array, Tether


def why_not_stacked(plan: Plan, *, required: bool) -> str | None:
    """Return what keeps runs from being stacked, or None; an explicit request allows more."""
    module = build(plan.module, 0)
    parameters = list(module.parameters())
    optimizer = plan.optimizer([nn.Parameter(torch.zeros(1))])
    scheduler = make_scheduler(plan.scheduler, optimizer)
    steps = plan.schedule()
    reasons = {
        "runs are measured one by one": bool(plan.measure or plan.on_epoch),
        "there are blocks": plan.blocks is not None,
        "the tasks are on several ranks": plan.mesh is not None,
        "the model has buffers": any(True for _ in module.buffers()),
        "dropout would differ": any(
            isinstance(part, _DropoutNd) and part.p for part in module.modules()
        ),
        "some parameters are frozen": not all(one.requires_grad for one in parameters),
        "parameters differ in dtype": len({one.dtype for one in parameters}) != 1,
        "the optimizer mixes parameters": type(optimizer) not in ELEMENTWISE,
        "the scheduler depends on a score": isinstance(scheduler, ReduceLROnPlateau),
        "batches of the tasks differ in size": not steps.equal,
        "the model has more than linear layers": not (required or is_layered(module)),
        "the loss is not torch's": not (required or is_of_torch(plan.loss)),
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def train_stacked(plan: Plan, runs: Sequence[tuple[Setting, int]]) -> list[list[dict[str, Any]]]:
    """Train runs at the same time, all settings with all seeds; return their rows of the table."""
    settings = list(dict.fromkeys(setting for setting, _ in runs))
    seeds = list(dict.fromkeys(seed for _, seed in runs))
    sources, modules = plan.sources(), [build(plan.module, seed) for seed in seeds]
    called = [f"run {setting.key} with seed {seed}" for seed in seeds for setting in settings]
    tethers = [(one.tether, plan.pooled_epochs_of(one)) for one in settings]
    stack = Stack(modules, list(sources), tethers, plan.center_weight, called)
    steps = plan.schedule()
    device = stack.thetas.device
    feeds = [StackedFeed(Feed(sources, steps, seed, plan.augment, device)) for seed in seeds]
    with forked_generators(device):
        with mode(modules[0], training=True):
            losses = _train(plan, stack, feeds, steps.steps)
        scores = _scores(plan, stack, modules[0])
    values = np.stack([losses.T, scores.T, stack.distances(), np.array(stack.pulls)], axis=-1)
    names = ("loss", "score", "distance", "pull")
    places = [seeds.index(seed) * len(settings) + settings.index(setting) for setting, seed in runs]
    return [[dict(zip(names, row, strict=True)) for row in values[k].tolist()] for k in places]


def _train(plan: Plan, stack: Stack, feeds: list[StackedFeed], steps: int) -> Array:
    """Train, and return the mean loss over the last epoch, of shape (n_tasks, n_runs)."""
    optimizer = plan.optimizer([stack.thetas])
    scheduler = make_scheduler(plan.scheduler, optimizer)
    losses_of = vmap(lambda parameters, x, y: plan.loss(stack.forward(parameters, x), y))
    total: Any = 0.0
    for step in range(plan.epochs * steps):
        in_epoch = step % steps
        batches = zip(*(feed.step(step) for feed in feeds), strict=True)  # inputs, and targets
        losses = stack.take_gradients(losses_of, *(torch.stack(one, dim=1) for one in batches))
        optimizer.step()
        stack.project(learning_rate(optimizer), step // steps)
        total = losses + (total if in_epoch else 0.0)
        if in_epoch + 1 == steps:
            advance(scheduler, float("nan"))  # none that depends on a score
    return np.asarray((total / steps).double().cpu().numpy())


def _scores(plan: Plan, stack: Stack, skeleton: nn.Module) -> Array:
    """Metric of all models on their task's data for judging, of the shape of the losses."""
    device, result = stack.thetas.device, []
    outputs_of = vmap(stack.forward, in_dims=(0, None))
    with mode(skeleton, training=False), torch.no_grad():
        for runs, source in zip(stack.thetas, plan.test_sources().values(), strict=True):
            parameters = stack.parameters(runs)
            pairs = [
                (outputs_of(parameters, x.to(device)), y.to(device)) for x, y in in_order(source)
            ]
            outputs = torch.cat([output for output, _ in pairs], dim=1)
            targets = torch.cat([target for _, target in pairs])
            result.append([float(plan.test_metric(output, targets)) for output in outputs])
    return np.array(result)


class Stack:
    """Runs of every seed with every tether; members of a coupling, with a group per run.

    A tether comes with the number of epochs in which its runs are pooled first. `thetas` has shape
    (n_tasks, n_seeds, n_tethers, n_parameters). An optimizer that treats each number separately, as
    SGD and Adam do, trains every run as if it were alone.
    """

    def __init__(
        self,
        modules: Sequence[nn.Module],
        labels: Sequence[Hashable],
        tethers: Sequence[tuple[Tether, int]],
        center_weight: float,
        runs: Sequence[str],
    ) -> None:
        starts = torch.stack([parameters_to_vector(m.parameters()).detach() for m in modules])
        matrix = starts[None, :, None].repeat(len(labels) + 1, 1, len(tethers), 1)
        self.thetas, self.center = nn.Parameter(matrix[:-1]), matrix[-1]
        self.tasks, self.groups = [f"task {label!r}" for label in labels], runs
        self.pulls: list[Array | None] = [None] * len(runs)
        self._tethers, self._weight = list(tethers) * len(modules), center_weight
        self._skeleton, self._room = modules[0], torch.empty_like(self.thetas)
        self._resolution_warned = False

    def forward(self, parameters: dict[str, torch.Tensor], x: torch.Tensor) -> Any:
        return functional_call(self._skeleton, parameters, (x,))

    def parameters(self, thetas: torch.Tensor) -> dict[str, torch.Tensor]:
        """Parameters of models by name, stacked: views of their vectors."""
        named = dict(self._skeleton.named_parameters())
        vectors = thetas.detach().flatten(0, -2)
        pieces = vectors.split([one.numel() for one in named.values()], dim=1)
        return {
            name: piece.unflatten(1, one.shape)
            for (name, one), piece in zip(named.items(), pieces, strict=True)
        }

    def take_gradients(
        self, losses_of: Callable[..., torch.Tensor], x: torch.Tensor, y: torch.Tensor
    ) -> torch.Tensor:
        """Set the gradients, given a batch by task and seed; return losses by task and run."""
        parameters = self.parameters(self.thetas)
        leaves = [one.requires_grad_() for one in parameters.values()]
        shape = self.thetas.shape[:-1]
        copies = (one.unsqueeze(2).expand(*shape, *one.shape[2:]).flatten(0, 2) for one in (x, y))
        losses = losses_of(parameters, *copies)
        gradients = torch.autograd.grad(losses.sum(), leaves, materialize_grads=True)
        self.thetas.grad = torch.cat([one.flatten(1) for one in gradients], dim=1).view_as(
            self.thetas
        )
        return losses.detach().view(len(self.tasks), -1)

    def project(self, step_size: float, epoch: int) -> None:
        with torch.no_grad():
            steps = couple(
                self,
                [
                    Tether(0.0) if epoch < pooled else tether.scaled(step_size=step_size)
                    for tether, pooled in self._tethers
                ],
                center_weight=self._weight,
                start=self.pulls,
                tell_resolution=not self._resolution_warned,
            )
        self.pulls = [step.pull for step in steps]
        self._resolution_warned |= any(step.status is Status.UNRESOLVED for step in steps)

    def gram(self) -> Array:
        rows = self._differences().transpose(0, 1)
        gram = torch.bmm(rows, rows.transpose(1, 2)).double().cpu().numpy()
        return np.asarray(0.5 * (gram + gram.transpose(0, 2, 1)))

    def move(self, pull: Array, weights: Array) -> None:
        """Move tasks and centre of every run, from the differences that :meth:`gram` took."""
        weights_, pulls = (torch.from_numpy(one.T).to(self.thetas) for one in (weights, pull))
        shift = torch.einsum("nr,nrs->rs", weights_, self._room.flatten(1, 2))
        self.center += shift.view_as(self.center)
        # A share of 0 or 1 is exact in lerp: pooled rows stay equal, free ones untouched.
        self.thetas.lerp_(self.center, pulls.view(*self.thetas.shape[:-1], 1))

    def distances(self) -> Array:
        norms = torch.linalg.vector_norm(self._differences(), dim=-1, dtype=torch.float64)
        return np.asarray(norms.T.cpu().numpy())

    def storage(self) -> Storage:
        center = self.center.flatten(0, 1)
        norms = torch.linalg.vector_norm(center, dim=-1).double().cpu().numpy()
        n_runs, size = center.shape
        return dtype_storage([center.dtype] * n_runs, np.asarray(norms), [size] * n_runs)

    def culprits(self) -> tuple[list[str], str]:
        rows = torch.cat([self.thetas, self.center[None]]).flatten(1, 2)
        bad = (~rows.isfinite().all(dim=-1)).nonzero().tolist()
        names = [*self.tasks, "the centre"]
        return [f"{names[row]} in {self.groups[run]}" for row, run in bad], ""

    def _differences(self) -> torch.Tensor:
        """Tasks minus centre, of shape (n_tasks, n_runs, n_parameters)."""
        with torch.no_grad():
            return torch.sub(self.thetas, self.center, out=self._room).flatten(1, 2)
