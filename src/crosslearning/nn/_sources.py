"""The kinds of data that a task may have."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterator, Mapping, Sized
from typing import Any, Protocol

import torch
from torch.utils.data import DataLoader, IterableDataset, default_collate

from crosslearning.nn._seeds import seed_globals

Batch = tuple[Any, Any]

_SAMPLE = 16  # rows that represent data loaded row by row


class RowSource(Protocol):
    """Rows of a task that can be indexed."""

    def __len__(self) -> int: ...

    def batch(self, indices: torch.Tensor) -> Batch: ...


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
        self._at: tuple[int, int] | None = None
        self._iterator: Iterator[Batch] = iter(())

    def __len__(self) -> int:
        return len(self.loader)

    def number(self, index: int, seed: int) -> Batch:
        """Return one batch of the pass with this seed; going back starts a new pass."""
        at = self._at
        if at is None or at[0] != seed or at[1] > index:
            seed_globals(seed)
            if self.loader.generator is not None:
                self.loader.generator.manual_seed(seed)
            self._iterator, at = iter(self.loader), (seed, 0)
        for _ in range(at[1], index):
            next(self._iterator)
        self._at = seed, index + 1
        x, y = next(self._iterator)
        return x, y


Source = RowSource | Batches


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
        return data  # type: ignore[return-value]
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
