"""The data of the tasks, and which rows of each task a step takes, computed without state."""

import hashlib
import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, Literal, NamedTuple

import torch
from torch.utils.data import DataLoader, IterableDataset, default_collate

from crosslearning.nn._ranks import Ranks
from crosslearning.nn._seeds import derive, seed_globals

Augment = Callable[[Any, torch.Generator], Any]
Batch = tuple[Any, Any]

_SAMPLE = 16  # rows that represent data loaded row by row
_ROWS_AHEAD = 1024  # of each task that are fetched at once


def check_counts(*, least: int = 1, **values: object) -> None:
    """Refuse numbers of rows, steps or the like that are not whole, or too small."""
    for name, value in values.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise ValueError(f"`{name}` must be a whole number of at least {least}; got {value!r}.")


class Pair:
    """Two tensors of equal length."""

    def __init__(self, x: Any, y: Any) -> None:
        self.x, self.y = torch.as_tensor(x), torch.as_tensor(y)

    def __len__(self) -> int:
        return len(self.x)

    def batch(self, indices: torch.Tensor) -> Batch:
        return self.x.index_select(0, indices), self.y.index_select(0, indices)


class Collated:
    """A map-style dataset, whose items are pairs."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def batch(self, indices: torch.Tensor) -> Batch:
        x, y = default_collate([self.dataset[index] for index in indices.tolist()])
        return x, y


class Batches:
    """A DataLoader, iterated repeatedly, with its own order and batch size."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader
        self._at = (-1, 0)  # seed of the pass, and number of the next batch
        self._iterator: Iterator[Batch] = iter(())

    def __len__(self) -> int:
        return len(self.loader)

    def number(self, index: int, seed: int) -> Batch:
        """Return one batch of the pass with this seed; going back starts a new pass."""
        current, following = self._at
        if current != seed or following > index:
            seed_globals(seed)
            if self.loader.generator is not None:
                self.loader.generator.manual_seed(seed)
            self._iterator, following = iter(self.loader), 0
        self._at = seed, index + 1
        x, y = next(islice(self._iterator, index - following, None))
        return x, y


Source = Any  # one of these, or an object of the user with a length and `batch(indices)`


def as_sources(data: Any, name: str = "data") -> dict[Hashable, Source]:
    """Wrap the data of every task as indexable rows or as a stream of batches."""
    if not isinstance(data, Mapping):
        raise ValueError(
            f"`{name}` must be a mapping from task to data; got {type(data).__name__}. "
            'Use {"north": (x, y), ...}.'
        )
    sources = {}
    for task, part in data.items():
        source = _recognised(part)
        if source is None:
            raise ValueError(
                "The data of a task must be a pair (x, y), an object with a length and "
                "`batch(indices)`, a map-style dataset or a DataLoader; "
                f"got {type(part).__name__} for task {task!r} in `{name}`."
            )
        if isinstance(source, Pair) and len(source.x) != len(source.y):
            raise ValueError(
                f"Inputs and targets must have the same number of rows; task {task!r} has "
                f"{len(source.x)} and {len(source.y)} in `{name}`."
            )
        if len(source) == 0:
            raise ValueError(
                f"Every task needs at least one row; task {task!r} has none in `{name}`. "
                "Omit the task: the centre is the model for tasks without data."
            )
        sources[task] = source
    return sources


def _recognised(data: Any) -> Source | None:
    if isinstance(data, (tuple, list)):
        return Pair(*data) if len(data) == 2 else None
    if not isinstance(data, Sized) or isinstance(data, IterableDataset):
        return None
    if isinstance(data, DataLoader):
        return None if isinstance(data.dataset, IterableDataset) else Batches(data)
    if hasattr(data, "batch"):
        return data
    return Collated(data) if hasattr(data, "__getitem__") else None


def digest(source: Source) -> str | None:
    """Return a fingerprint of tensors, or of a sample of other rows; None for a loader."""
    if isinstance(source, Batches):
        return None
    some = torch.arange(len(source))
    if not isinstance(source, Pair):
        some = some[:: max(1, len(source) // _SAMPLE)][:_SAMPLE]
    sha = hashlib.sha256()
    for part in source.batch(some):
        sha.update(torch.as_tensor(part).detach().cpu().contiguous().numpy().tobytes())
    return sha.hexdigest()[:16]


@dataclass(frozen=True)
class Schedule:
    """How many rows of each task a step takes."""

    sizes: tuple[int, ...]  # rows of the tasks, or batches where they come from loaders
    per_step: int | None  # of each task; None if every step takes the same share of every task
    steps: int  # of an epoch

    def piece(self, row: int, step: int) -> tuple[int, int]:
        """Where in the endless permutations of a task's rows those of a step start and stop."""
        if self.per_step is not None:
            return step * self.per_step, (step + 1) * self.per_step
        size = self.sizes[row]
        return size * step // self.steps, size * (step + 1) // self.steps


def schedule(
    sources: Sequence[Source],
    batch_size: int | None,
    sampling: Literal["cycle", "proportional"],
    ranks: Ranks | None = None,
) -> Schedule:
    """Plan the epochs of all tasks, given the sources of the local ones; see :func:`fit`."""
    if sampling not in ("cycle", "proportional"):
        raise ValueError(f"`sampling` must be 'cycle' or 'proportional'; got {sampling!r}.")
    if batch_size is not None:
        check_counts(batch_size=batch_size)
    ranks = ranks or Ranks(None, len(sources))
    local = [(len(source), isinstance(source, Batches)) for source in sources]
    kinds = [kind for part in ranks.objects(local)[: ranks.size] for kind in part]
    sizes, loaders = zip(*kinds, strict=True)
    if len(set(loaders)) > 1:
        raise ValueError("Either all tasks or none must have a DataLoader; got some of each.")
    cycle = sampling == "cycle"
    if loaders[0]:
        return Schedule(sizes, 1 if cycle else None, max(sizes))
    if batch_size is None:
        return Schedule(sizes, None, 1)
    if cycle:
        return Schedule(sizes, batch_size, math.ceil(max(sizes) / batch_size))
    return Schedule(sizes, None, math.ceil(sum(sizes) / (batch_size * len(sizes))))


class TaskBatch(NamedTuple):
    """What one task sees in one step: its position, inputs, targets, and a seed for dropout."""

    row: int
    x: Any
    y: Any
    seed: int
    weight: float = 1.0  # of its loss, where a batch is divided over ranks


class Feed:
    def __init__(
        self,
        sources: Mapping[Hashable, Source],
        plan: Schedule,
        seed: int,
        augment: Augment | None,
        device: torch.device,
        ranks: Ranks | None = None,
    ) -> None:
        self.plan, self.seed, self.augment, self.device = plan, seed, augment, device
        ranks = ranks or Ranks(None, len(sources))
        self._first, self._copy, self._copies = ranks.local.start, ranks.copy, ranks.copies
        self._sources = tuple(sources.items())
        self._orders: dict[Hashable, tuple[int, torch.Tensor]] = {}
        self._ahead: tuple[int, Batch] | None = None  # stacked rows of a block of steps

    def __len__(self) -> int:
        return len(self._sources)

    @cached_property
    def stackable(self) -> bool:
        """Whether the batches of all tasks are known to have the same shape, as rows of tensors."""
        pairs = [source for _, source in self._sources if isinstance(source, Pair)]
        shapes = {(pair.x.shape[1:], pair.y.shape[1:]) for pair in pairs}
        if self._copies > 1 or len(pairs) < len(self._sources) or len(shapes) > 1:
            return False
        return self.plan.per_step is not None or len(set(self.plan.sizes)) == 1

    def step(self, step: int) -> Iterator[TaskBatch]:
        """Batches of the tasks that take part in a step, loaded one by one."""
        for row, (task, source) in enumerate(self._sources):
            start, stop = self.plan.piece(self._first + row, step)
            if stop > start:
                x, y = self._load(task, source, start, stop, step)
                if self.augment is not None:
                    drawn = derive(self.seed, "augment", task, step)
                    x = self.augment(x, torch.Generator().manual_seed(drawn))
                x, y, weight = self._part(x, y)
                x, y = x.to(self.device), y.to(self.device)
                yield TaskBatch(row, x, y, self.dropout_seed(row, step), weight)

    def stacked(self, step: int) -> Batch:
        """Stack inputs and targets of a step, of shape (n_tasks, n_rows, ...)."""
        size = self.plan.per_step
        if size is None or self.augment is not None or not self.stackable:
            return self._stacked(step)
        steps = max(1, _ROWS_AHEAD // size)  # at once: calls cost more than copying
        block, number = divmod(step, steps)
        if self._ahead is None or self._ahead[0] != block:
            start, stop = block * steps * size, (block + 1) * steps * size
            pieces = [one.batch(self._rows(task, one, start, stop)) for task, one in self._sources]
            x, y = map(torch.stack, zip(*pieces, strict=True))
            shape = steps, size
            x, y = x.unflatten(1, shape).to(self.device), y.unflatten(1, shape).to(self.device)
            self._ahead = block, (x, y)
        x, y = self._ahead[1]
        return x[:, number], y[:, number]

    def _stacked(self, step: int) -> Batch:
        batches = list(self.step(step))
        shapes = {(tuple(batch.x.shape), tuple(batch.y.shape)) for batch in batches}
        if len(batches) < len(self) or len(shapes) > 1:
            raise ValueError(
                "engine='vmap' needs a batch of each task, all of the same shape; got "
                f"{len(batches)} of {len(self)}, with shapes of x and y "
                f"{', '.join(map(str, sorted(shapes)))}. Use a fixed `batch_size` with "
                "sampling='cycle', or engine='loop'."
            )
        return torch.stack([b.x for b in batches]), torch.stack([b.y for b in batches])

    def dropout_seed(self, row: int, step: int) -> int:
        """Seed of what is random in the model of a task in a step."""
        purpose = f"dropout {self._copy}" if self._copy else "dropout"
        return derive(self.seed, purpose, self._sources[row][0], step)

    def _part(self, x: Any, y: Any) -> tuple[Any, Any, float]:
        """Rows of a batch for this rank among those that share a task, and the weight of its loss.

        The mean of the weighted losses is that of all rows. If rows are too few, all take all.
        """
        if self._copies == 1 or len(x) < self._copies:
            return x, y, 1.0
        mine = [batch.tensor_split(self._copies)[self._copy] for batch in (x, y)]
        return *mine, len(mine[0]) * self._copies / len(x)

    def _load(self, task: Hashable, source: Source, start: int, stop: int, step: int) -> Batch:
        if isinstance(source, Batches):
            number, index = divmod(start, len(source))
            return source.number(index, derive(self.seed, "order", task, number))
        if isinstance(source, Collated):
            seed_globals(derive(self.seed, "dataset", task, step))
        return source.batch(self._rows(task, source, start, stop))

    def _rows(self, task: Hashable, source: Source, start: int, stop: int) -> torch.Tensor:
        pieces = []
        while start < stop:
            number, first = divmod(start, len(source))
            last = min(len(source), first + stop - start)
            pieces.append(self._order(task, number, len(source))[first:last])
            start += last - first
        return pieces[0] if len(pieces) == 1 else torch.cat(pieces)

    def _order(self, task: Hashable, number: int, size: int) -> torch.Tensor:
        """Permutation of the rows in a pass, kept until the next."""
        kept = self._orders.get(task)
        if kept is None or kept[0] != number:
            generator = torch.Generator().manual_seed(derive(self.seed, "order", task, number))
            kept = self._orders[task] = number, torch.randperm(size, generator=generator)
        return kept[1]
