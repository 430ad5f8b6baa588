"""One model per task, tethered to a common centre."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import nn

from crosslearning.nn import state
from crosslearning.nn.certificate import StepCertificate
from crosslearning.nn.copies import copy_modules, divide_parameters, sources_of
from crosslearning.nn.finite import check_finite
from crosslearning.nn.gram import gram_of_differences, measure
from crosslearning.nn.labels import check_labels
from crosslearning.nn.module_buffers import average_buffers
from crosslearning.nn.persistence import load_models, save_models
from crosslearning.nn.resolution import warn_if_unresolved
from crosslearning.nn.step import project_block
from crosslearning.projection.result import Status, warn_unless_converged
from crosslearning.projection.validation import check_center_weight, is_positive

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping

    from numpy.typing import ArrayLike, NDArray

    from crosslearning.nn.blocks import Block
    from crosslearning.nn.buffer import FlatBuffer
    from crosslearning.tether import Tether

__all__ = ["TaskModels"]


class TaskModels(nn.Module):
    r"""Copies of a module, one per task, none farther than ε from a common centre.

    Keep the training loop: let the optimizer have ``models.parameters()``, compute each task's loss
    with ``models[task]``, and call ``models.project()`` after each step of the optimizer. It moves
    tasks and centre as little as possible so that
    :math:`\|\theta_i - \theta_g\| \le \varepsilon`: Algorithm 1 of the paper, with the projection
    solved exactly.

    The parameters are views into one matrix with a row per task and a row for the centre. They may
    be read, written and loaded into as usual.

    Parameters
    ----------
    module : Module or mapping from task to Module
        Copied for every task, so that all start from the same parameters; or one for each task,
        copied as well. Those need to agree on the names and shapes of tethered parameters only.
    tasks : iterable of hashable, optional
        Labels of the tasks. Not needed with a mapping.
    epsilon : float, array of shape (n_tasks,), or dict from prefix to either, optional
        Radius: the largest distance of a task to the centre. 0 pools the tasks, ``math.inf``
        trains them separately. A dict sets one radius per block of parameters, by the beginning
        of their names, as in ``{"features": 0.1, "classifier.6": math.inf}``; parameters that no
        prefix matches belong to their task alone.
    tether : Tether or dict from prefix to Tether, optional
        In place of `epsilon`: a spring or a tension as well.
    center_weight : float, default=1
        Weight of the present centre in the projection, as in the paper. It holds back every step:
        at ε = 0 the tasks move by N / (N + center_weight) of the mean step, by 0.8 of it for four
        tasks. Smaller values hold less; 0 frees the centre, which then is the mean of the tasks
        wherever nothing else determines it.
    center_init : {"mean", "zero"}, default="mean"
        Where the centre starts: at the mean of the tasks, or at 0 as Algorithm 1 of the paper
        has it, which makes the first projection shrink all parameters when ε is small.
    same_start : bool, default=True
        With a mapping of modules: whether all tasks start from the tethered parameters of the
        first. False keeps those of each module, such as modules that have been trained.

    Attributes
    ----------
    center : Module
        The model for tasks never seen. It takes no gradient step, and its parameters are not
        among ``parameters()``. Buffers such as BatchNorm statistics belong to each task; the
        centre has their average as of the last projection. Parameters that are not tethered have
        no centre: here they keep the values with which the first task started.
    tasks : tuple
        Labels of the tasks, in the order of the rows.
    blocks : tuple of Block
        Names, tethers and parameters of the blocks.

    Notes
    -----
    A projection costs two passes over the matrix, about as much as copying it twice, whatever the
    modules are. It does not touch the state of the optimizer, such as momentum.

    Examples
    --------
    >>> _ = torch.manual_seed(0)
    >>> models = TaskModels(nn.Linear(3, 1), tasks=["north", "south"], epsilon=0.01)
    >>> optimizer = torch.optim.SGD(models.parameters(), lr=0.1)
    >>> x = torch.randn(8, 3)
    >>> loss = models["north"](x).square().mean() + (models["south"](x) - 1).square().mean()
    >>> loss.backward()
    >>> optimizer.step()
    >>> certificate = models.project()
    >>> certificate.status.value
    'The optimality conditions hold to the tolerance.'
    >>> models.distances().round(4)
    array([0.01, 0.01])
    """

    center: nn.Module
    per_task: nn.ModuleList

    def __init__(
        self,
        module: nn.Module | Mapping[Any, nn.Module],
        tasks: Iterable[Hashable] | None = None,
        *,
        epsilon: ArrayLike | Mapping[str, ArrayLike] | None = None,
        tether: Tether | Mapping[str, Tether] | None = None,
        center_weight: float = 1.0,
        center_init: Literal["mean", "zero"] = "mean",
        same_start: bool = True,
    ) -> None:
        super().__init__()
        if center_init not in ("mean", "zero"):
            raise ValueError(f"`center_init` must be 'mean' or 'zero'; got {center_init!r}.")
        self._center_weight = check_center_weight(center_weight, allow_zero=True)
        labels = check_labels(tasks, module)
        sources = sources_of(module, labels)
        self._blocks = divide_parameters(sources, labels, epsilon, tether)
        modules, self._flats = copy_modules(sources, self._blocks, labels)
        self._rows: dict[Hashable, int] = {label: row for row, label in enumerate(labels)}
        self._pulls: dict[str, NDArray[np.float64]] = {}
        self._warned = False
        self.per_task = nn.ModuleList(modules[:-1])
        self.center = modules[-1].requires_grad_(False)
        with torch.no_grad():
            for buffer in self._flats:
                _start(buffer, center_init, same_start)

    @property
    def tasks(self) -> tuple[Hashable, ...]:
        """Labels of the tasks, in the order of the rows."""
        return tuple(self._rows)

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Names, tethers and parameters of the blocks."""
        return self._blocks

    @property
    def center_weight(self) -> float:
        """Weight of the present centre in the projection."""
        return self._center_weight

    def __getitem__(self, task: Hashable) -> nn.Module:
        if task not in self._rows:
            known = ", ".join(map(repr, self._rows))
            raise KeyError(
                f"There is no task {task!r}; the tasks are {known}. Use `models.center` for a "
                "task never seen."
            )
        return self.per_task[self._rows[task]]

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._rows)

    def __contains__(self, task: object) -> bool:
        return task in self._rows

    def items(self) -> Iterator[tuple[Hashable, nn.Module]]:
        """Pairs of a task and its module."""
        return zip(self._rows, self.per_task, strict=True)

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, nn.Parameter]]:
        """Parameters of the tasks; those of the centre take no gradient steps and are left out."""
        hidden = f"{prefix}.center." if prefix else "center."
        for name, parameter in super().named_parameters(prefix, recurse, remove_duplicate):
            if not name.startswith(hidden):
                yield name, parameter

    def project(self, step_size: float | None = None) -> StepCertificate:
        r"""Move tasks and centre as little as possible into what the tethers allow, in place.

        Parameters
        ----------
        step_size : float, optional
            Length of the gradient step before, that is the learning rate. It scales springs and
            tensions, and is required where a tether has them; radii are not scaled.

        Returns
        -------
        StepCertificate
            Pulls, distances, residual and status.

        Raises
        ------
        ValueError
            If the parameters of a task are NaN or infinite. Nothing has changed then.

        Warns
        -----
        ResolutionWarning
            Once, if a radius is below what the dtype resolves at the present size of the
            parameters.
        ConvergenceWarning
            If the solver did not reach its tolerance.
        """
        tethers = [_step_tether(block, step_size) for block in self._blocks]
        modules = self._link()
        device = self._flats[0].flat.device.type
        with torch.no_grad(), torch.autocast(device, enabled=False):
            grams = [gram_of_differences(buffer.workspace) for buffer in self._flats]
            for (gram, _), buffer in zip(grams, self._flats, strict=True):
                check_finite(gram, buffer, modules)
            steps = {
                block.name: project_block(
                    buffer.workspace,
                    gram,
                    tether,
                    self._center_weight,
                    self._pulls.get(block.name),
                    norm,
                )
                for block, buffer, tether, (gram, norm) in zip(
                    self._blocks, self._flats, tethers, grams, strict=True
                )
            }
            average_buffers(modules[:-1], self.center)
        self._mark_changed(modules)
        self._pulls = {name: step.pull for name, step in steps.items()}
        certificate = StepCertificate(steps)
        self._warn(certificate, [norm for _, norm in grams])
        return certificate

    def distances(self, block: str | None = None) -> NDArray[np.float64]:
        """Distances of the tasks to the centre, as the parameters are now.

        Parameters
        ----------
        block : str, optional
            Name of a block; by default the distance is over all tethered parameters.

        Returns
        -------
        array of shape (n_tasks,)
        """
        names = [one.name for one in self._blocks]
        if block is not None and block not in names:
            raise ValueError(f"There is no block {block!r}; the blocks are {', '.join(names)}.")
        self._link()
        with torch.no_grad():
            squares = [
                measure(buffer.workspace) ** 2
                for name, buffer in zip(names, self._flats, strict=True)
                if block in (None, name)
            ]
        return np.asarray(np.sqrt(np.sum(squares, axis=0)), dtype=np.float64)

    def export(self, task: Hashable | None = None) -> dict[str, torch.Tensor]:
        """Return an ordinary ``state_dict`` of one task, or of the centre, of its own memory.

        ``models[task].state_dict()`` holds views; written to a file, they drag all tasks along.

        Parameters
        ----------
        task : hashable, optional
            Label of the task; by default the centre.

        Returns
        -------
        dict of str to Tensor
        """
        module = self.center if task is None else self[task]
        return {name: value.detach().clone() for name, value in module.state_dict().items()}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one safetensors file, which is there in full or not at all.

        Parameters
        ----------
        path : path
            The file; one that exists is replaced.
        """
        save_models(self, path)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], module: nn.Module | Mapping[Any, nn.Module]
    ) -> TaskModels:
        """Read what :meth:`save` wrote.

        Parameters
        ----------
        path : path
            The file. Nothing in it is ever executed.
        module : Module or mapping from task to Module
            What the constructor got: the architecture, whose values do not matter.

        Returns
        -------
        TaskModels

        Raises
        ------
        ValueError
            If the file is damaged, foreign, or of another architecture.
        """
        return load_models(cls, path, module)

    def get_extra_state(self) -> torch.Tensor:
        """Labels and pulls, as bytes of JSON in a tensor, for ``state_dict``."""
        return state.encode(self.tasks, self._pulls)

    def set_extra_state(self, encoded: torch.Tensor) -> None:
        """Take the pulls from a ``state_dict`` of the same tasks."""
        self._pulls = state.decode(encoded, self.tasks, [block.name for block in self._blocks])

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """Load parameters, buffers and pulls of the same tasks, as torch does.

        Whatever `assign` is, the parameters are views of one matrix afterwards.
        """
        keys = super().load_state_dict(state_dict, strict=strict, assign=assign)
        self._link()
        return keys

    def extra_repr(self) -> str:
        """Tasks and tethers in one line."""
        tethers = ", ".join(f"{block.name}: {block.tether}" for block in self._blocks)
        return f"tasks={list(self.tasks)}, {tethers}, center_weight={self._center_weight}"

    def _modules_of_rows(self) -> list[nn.Module]:
        return [*self.per_task, self.center]

    def _link(self) -> list[nn.Module]:
        """Make views again of parameters that somebody replaced; return the modules by row."""
        modules = self._modules_of_rows()
        with torch.no_grad():
            for buffer in self._flats:
                for row, module in enumerate(modules):
                    buffer.adopt(row, module)
        return modules

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Any:
        """Convert the matrices first, so that the modules' own conversion finds nothing to do."""
        for buffer in self._flats:
            buffer.convert(fn, self._modules_of_rows())
        super()._apply(fn, recurse)
        self._link()
        self._warned = False
        return self

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for buffer in self._flats:
            buffer.rebuild(self._modules_of_rows())

    def _mark_changed(self, modules: list[nn.Module]) -> None:
        """Tell autograd, so that a backward pass through old values is refused, not wrong."""
        for buffer in self._flats:
            for row, module in enumerate(modules):
                torch.autograd.graph.increment_version(buffer.parameters(row, module))

    def _warn(self, certificate: StepCertificate, norms: list[float]) -> None:
        if not self._warned:
            for block, flat, norm in zip(self._blocks, self._flats, norms, strict=True):
                self._warned |= warn_if_unresolved(block, norm, flat.flat.dtype, stacklevel=3)
        for step in certificate.blocks.values():
            if step.status is not Status.UNRESOLVED:
                warn_unless_converged(step.status, step.kkt_residual, step.n_iter, stacklevel=3)


def _start(buffer: FlatBuffer, center_init: str, same_start: bool) -> None:
    if same_start:
        buffer.tasks.copy_(buffer.flat[0].clone())
    if center_init == "zero":
        buffer.center.zero_()
    elif same_start:
        buffer.center.copy_(buffer.flat[0])
    else:
        buffer.center.copy_(buffer.tasks.mean(dim=0))


def _step_tether(block: Block, step_size: float | None) -> Tether:
    if step_size is not None and not is_positive(step_size):
        raise ValueError(f"`step_size` must be a positive finite number; got {step_size!r}.")
    if block.tether.is_ball:
        return block.tether
    if step_size is None:
        raise ValueError(
            f"`step_size` is required: the tether of block {block.name!r} has a spring or a "
            "tension, which act in proportion to the step. Use project(step_size=lr) with the "
            "learning rate."
        )
    return block.tether.scaled(step_size=step_size)
