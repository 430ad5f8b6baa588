"""One model per task, tethered to a common centre."""

import copy
import json
import os
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import nn
from torch.distributed.device_mesh import DeviceMesh

from crosslearning.coupling import Status
from crosslearning.coupling._checks import check_center_weight
from crosslearning.coupling._gram import Request, couple_checked
from crosslearning.nn._blocks import ALL
from crosslearning.nn._files import decode_label, encode_label, encode_tether, read_file, write_file
from crosslearning.nn._members import FlatMembers, StepCertificate
from crosslearning.nn._modules import (
    LinkedModules,
    average_buffers,
    copy_modules,
    divide_parameters,
    frozen_parameters,
    set_start,
)
from crosslearning.nn._ranks import Ranks, whole
from crosslearning.tether import Array, Tether

_KIND = "TaskModels"  # of a file


class TaskModels(LinkedModules):
    r"""Copies of a module, one per task, all within ε of a common centre.

    Keep your training loop: pass ``models.parameters()`` to the optimizer, compute each task's loss
    with ``models[task]``, and call ``models.project()`` after each step. It moves tasks and centre
    as little as possible so that :math:`\|\theta_i - \theta_g\| \le \varepsilon`: Algorithm 1 of
    the paper, with the projection solved exactly. The parameters are views into one matrix with
    a row per task and one for the centre; read, write and load them as usual.

    Parameters
    ----------
    module : Module or mapping from task to Module
        Copied for every task, so that all start from the same parameters; or one for each task,
        copied as well, which need to agree only in the names and shapes of tethered parameters.
    tasks : iterable of hashable, optional
        Labels of the tasks. Not needed with a mapping.
    epsilon : float, array of shape (n_tasks,), or dict from prefix to either, optional
        Largest distance of a task to the centre: 0 pools the tasks, ``math.inf`` trains them
        separately. A dict sets one radius per block of parameters, by the beginning of their
        names, as in ``{"features": 0.1, "classifier.6": math.inf}``; parameters that no prefix
        matches belong to their task alone, or to the block ``"*"`` if there is one.
    tether : Tether or dict from prefix to Tether, optional
        In place of `epsilon`, for a spring or a tension as well.
    center_weight : float, default=1
        Weight of the current centre in the projection, as in the paper. It shortens every step: at
        ε = 0 the tasks move by N / (N + center_weight) of the mean step. With 0 the centre is free,
        and the mean of the tasks if nothing else determines it.
    center_init : {"mean", "zero"}, default="mean"
        Whether the centre starts at the mean of the tasks, or at zero as in the paper.
    same_start : bool, default=True
        Whether all tasks start from the tethered parameters of the first module. Use False for a
        mapping of modules that have already been trained.
    mesh : DeviceMesh, optional
        Ranks of torch.distributed over which to spread the tasks: the dimension "task" divides the
        tasks, and the ranks along "data" share each of them. All ranks must call the constructor,
        :meth:`project`, :meth:`distances`, :meth:`save` and :func:`fit`.
    shard : callable, optional
        Called with each model and ``mesh=mesh["data"]`` to shard it over the dimension "data", like
        ``torch.distributed.fsdp.fully_shard``. Without it, each of these ranks has a copy.

    Attributes
    ----------
    center : Module
        The model for new tasks. It takes no gradient steps, and its parameters are not among
        ``parameters()``. Every projection sets its buffers, such as BatchNorm statistics, to the
        average of the tasks'; its untethered parameters are the initial ones of the first task.
    blocks : tuple of Block
        Names, tethers and parameters of the blocks.

    Notes
    -----
    A projection costs about as much as copying the matrix twice, and does not change the state of
    the optimizer, such as momentum.

    Parameters of the module with ``requires_grad=False`` are one tensor for all tasks and the
    centre, and so are its buffers, except those of BatchNorm and the like: a large frozen base with
    small adapters takes the memory of the base, and of an adapter for each task. They are in no
    block, are saved once, and must stay frozen. Models of a mapping share what they had in common.
    Parameters that are frozen later take no gradient steps, but the projection still moves them.

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

    _resolution_warned: bool

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
        mesh: DeviceMesh | None = None,
        shard: Callable[..., Any] | None = None,
    ) -> None:
        weight = check_center_weight(center_weight, allow_zero=True)
        if center_init not in ("mean", "zero"):
            raise ValueError(f"`center_init` must be 'mean' or 'zero'; got {center_init!r}.")
        if center_init == "zero" and weight == 0:
            raise ValueError(
                "A free centre has no initial value; got center_init='zero' with center_weight=0. "
                "Use center_init='mean'."
            )
        labels = _check_labels(tasks, module)
        ranks = Ranks(mesh, len(labels))
        sources = _sources(module, labels, ranks)
        frozen = frozen_parameters(sources)
        blocks = divide_parameters(sources, frozen, labels, epsilon, tether)
        owners = [*(f"task {label!r}" for label in labels[ranks.local]), "the centre"]
        modules, flats = copy_modules(sources, frozen, blocks, owners, ranks, shard)
        set_start(flats, center_init, same_start, ranks)
        super().__init__(modules, flats, ranks.local.start, frozen)
        self.blocks, self.center_weight = blocks, weight
        self.ranks, self.sharded = ranks, shard is not None
        self._positions: dict[Hashable, int] = {label: row for row, label in enumerate(labels)}
        self._pulls: dict[str, Array] = {}
        self._forget()

    @property
    def tasks(self) -> tuple[Hashable, ...]:
        """Labels of the tasks."""
        return tuple(self._positions)

    @property
    def local_tasks(self) -> tuple[Hashable, ...]:
        """Labels of the tasks whose models this process holds: all, without a mesh."""
        return self.tasks[self.ranks.local]

    def __getitem__(self, task: Hashable) -> nn.Module:
        if task not in self._positions:
            names = ", ".join(map(repr, self._positions))
            raise KeyError(
                f"There is no task {task!r}; the tasks are {names}. Use `models.center` for a "
                "new task."
            )
        row = self._positions[task] - self.ranks.local.start
        if not 0 <= row < len(self.per_task):
            raise KeyError(
                f"Task {task!r} is on another rank of the dimension 'task'; this one holds "
                f"{', '.join(map(repr, self.local_tasks))}. Loop over `models.local_tasks`."
            )
        return self.per_task[row]

    def forward(self, *_: Any, **__: Any) -> Any:
        """Refuse: which model is meant is not known."""
        raise TypeError(
            "TaskModels holds one model per task: call `models[task](x)`, or `models.center(x)` "
            "for a new task."
        )

    def __len__(self) -> int:
        return len(self._positions)

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._positions)

    def __contains__(self, task: object) -> bool:
        return task in self._positions

    def items(self) -> Iterator[tuple[Hashable, nn.Module]]:
        """Pairs of a task and its module, of the local tasks."""
        return zip(self.local_tasks, self.per_task, strict=True)

    def project(self, step_size: float | None = None) -> StepCertificate:
        """Take the proximal step of the tethers, in place; for bounds, the projection.

        Parameters
        ----------
        step_size : float, optional
            Learning rate of the preceding gradient step, which scales springs and tensions.

        Raises
        ------
        ValueError
            If the parameters of a task are NaN or infinite; nothing is changed.

        Warns
        -----
        ResolutionWarning, ConvergenceWarning
            Once, if a radius is below the resolution of the dtype; if the solver did not converge.
        """
        self.link()
        certificate = self.project_linked(step_size)
        self.mark_changed()
        return certificate

    def project_linked(
        self, step_size: float | None, pooled: Collection[str] = ()
    ) -> StepCertificate:
        """Project without checking the views or notifying autograd; pool blocks of these names."""
        requests = [
            Request(
                Tether(0.0) if block.name in pooled else block.scaled(step_size),
                self.center_weight,
                self._pulls.get(block.name),
            )
            for block in self.blocks
        ]
        # Products are computed in the dtype of the parameters, where autocast would round them.
        with torch.no_grad(), torch.autocast(self.flats[0].flat.device.type, enabled=False):
            steps = couple_checked(self._members, requests, not self._resolution_warned)
            average_buffers(list(self.per_task), self.center, self.ranks)
        named = {block.name: step for block, step in zip(self.blocks, steps, strict=True)}
        self._pulls = {name: step.pull for name, step in named.items()}
        self._resolution_warned |= any(step.status is Status.UNRESOLVED for step in steps)
        return StepCertificate(named)

    def average_gradients(self) -> None:
        """Average gradients over ranks of the dimension "data", before ``optimizer.step()``."""
        if self.ranks.copies > 1 and not self.sharded:  # FSDP has done it
            self.ranks.average([p.grad for p in self.parameters() if p.grad is not None])

    def distances(self, block: str | None = None) -> Array:
        """Return the distances of the tasks to the centre, over one block or all."""
        names = [one.name for one in self.blocks]
        if block is not None and block not in names:
            raise ValueError(f"There is no block {block!r}; the blocks are {', '.join(names)}.")
        self.link()
        with torch.no_grad():
            distances = self._members.distances(exactly=True)
        if block is not None:
            return distances[names.index(block)]
        return np.linalg.norm(distances, axis=0)

    def export(self, task: Hashable | None = None) -> dict[str, torch.Tensor]:
        """Return a copy of the ``state_dict`` of a task, or of the centre.

        ``models[task].state_dict()`` holds views; saving them would save all tasks.
        """
        module = self.center if task is None else self[task]
        return {name: whole(value.detach()).clone() for name, value in module.state_dict().items()}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything atomically to one safetensors file; of several ranks, the first does."""
        for task in self.tasks:
            if decode_label(encode_label(task)) != task:
                raise ValueError(
                    "Only task labels that are strings, numbers or tuples of these can be saved; "
                    f"got {task!r}. Use its name as the label."
                )
        state = {name: whole(value) for name, value in self.state_dict().items()}
        tensors = self.ranks.gather_first(state)
        content = {
            "tasks": encode_label(self.tasks),
            "tethers": {block.name: encode_tether(block.tether) for block in self.blocks},
            "center_weight": self.center_weight,
        }
        if self.ranks.is_first:
            write_file(path, _KIND, tensors, content)
        self.ranks.barrier()

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        module: nn.Module | Mapping[Any, nn.Module],
        *,
        mesh: DeviceMesh | None = None,
    ) -> Self:
        """Read what :meth:`save` wrote, without unpickling.

        Only the architecture of `module` matters; `mesh` may differ from that of the saved models.
        """
        tensors, content = read_file(path, _KIND)
        tasks = [decode_label(label) for label in content["tasks"]]
        tethers = {
            name: Tether(**{knob: np.asarray(value, np.float64) for knob, value in knobs.items()})
            for name, knobs in content["tethers"].items()
        }
        tether: Any = tethers[ALL] if list(tethers) == [ALL] else tethers
        weight = content["center_weight"]
        models = cls(module, tasks, tether=tether, center_weight=weight, mesh=mesh)
        state = models.state_dict()
        if mesh is not None:  # other ranks hold the rest
            tensors = {name: tensors[name] for name in state if name in tensors}
        try:
            for name, value in tensors.items():
                if name in state and value.dtype != (here := state[name].dtype):
                    raise ValueError(f"{name!r} is {value.dtype} in the file and {here} here.")
            models.load_state_dict(tensors)
        except (RuntimeError, ValueError) as error:
            raise ValueError(
                f"{os.fspath(path)} does not match the module: {error} Use the architecture and "
                "dtype that were saved."
            ) from error
        return models

    def get_extra_state(self) -> torch.Tensor:
        """Labels and pulls, as bytes of JSON in a tensor, for ``state_dict``."""
        content = {
            "tasks": encode_label(self.tasks),
            "pulls": {block: pull.tolist() for block, pull in self._pulls.items()},
        }
        return torch.tensor(list(json.dumps(content).encode()), dtype=torch.uint8)

    def set_extra_state(self, encoded: torch.Tensor) -> None:
        """Take the pulls from a ``state_dict`` of the same tasks."""
        content = json.loads(bytes(encoded.tolist()))
        stored, expected = content["tasks"], encode_label(self.tasks)
        if stored != expected:
            raise ValueError(
                f"The state belongs to the tasks {stored}; these models have {expected}. "
                "Build TaskModels with the same tasks in the same order."
            )
        self._forget()
        self._pulls = {name: np.asarray(pull, float) for name, pull in content["pulls"].items()}

    def extra_repr(self) -> str:
        """Tasks and tethers in one line."""
        tethers = ", ".join(f"{block.name}: {block.tether}" for block in self.blocks)
        return f"tasks={list(self.tasks)}, {tethers}, center_weight={self.center_weight}"

    def _forget(self) -> None:
        super()._forget()
        self._members, self._resolution_warned = FlatMembers(self), False

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_members": None}


def _check_labels(tasks: Iterable[Hashable] | None, module: Any) -> tuple[Hashable, ...]:
    """Return distinct labels: those given, or the keys of a mapping of modules."""
    keys = tuple(module) if isinstance(module, Mapping) else None
    labels = keys if tasks is None else tasks
    if labels is None:
        raise ValueError(
            "`tasks` must name the tasks; got None. Use tasks=['a', 'b'] with one module for all, "
            "or pass a mapping from task to module."
        )
    if isinstance(labels, (str, bytes)):
        raise ValueError(f"`tasks` must hold one label per task; got the single label {labels!r}.")
    labels = tuple(label.item() if isinstance(label, np.generic) else label for label in labels)
    distinct = set(labels)
    if not labels or len(distinct) < len(labels):
        raise ValueError(
            f"`tasks` must hold at least one label and no duplicates; got {list(labels)!r}."
        )
    if keys is not None and (odd := sorted(map(repr, distinct ^ set(keys)))):
        raise ValueError(
            f"`tasks` must be the keys of the mapping of modules; {', '.join(odd)} is in only "
            "one of them. Omit `tasks` to use the keys."
        )
    return labels


def _sources(module: Any, labels: tuple[Hashable, ...], ranks: Ranks) -> list[nn.Module]:
    """Return the module to copy for each task; a single one is that of the first rank."""
    if ranks.mesh is not None and isinstance(module, nn.Module):
        module = copy.deepcopy(module).to(ranks.device)
        ranks.broadcast([*module.parameters(), *module.buffers()], "task", "data")
    modules = module if isinstance(module, Mapping) else dict.fromkeys(labels, module)
    for one in modules.values():
        if not isinstance(one, nn.Module):
            raise ValueError(
                "`module` must be a torch.nn.Module, or a mapping from task to one; got "
                f"{type(one).__name__}."
            )
    return [modules[label] for label in labels]
