"""The flat buffers of :class:`TaskModels` as members of a coupling, on one rank or many."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import torch
import torch.distributed as dist

from crosslearning.coupling import Coupling, Status, Storage
from crosslearning.coupling._inner_products import PIECE, InnerProducts, symmetric
from crosslearning.coupling._members import exact_combination
from crosslearning.nn._ranks import Ranks
from crosslearning.tether import Array, Flags

if TYPE_CHECKING:
    from crosslearning.nn._task_models import TaskModels

_ELEMENTS = 1 << 18  # of a chunk: its temporaries stay in the second-level cache
_NARROWEST = 1 << 12  # narrower chunks cost more in calls than in arithmetic
_NARROWEST_ON_DEVICE = 1 << 14  # where calls take longer
_MANY = 16  # rows from which NumPy, which computes half of a symmetric matrix, is faster than torch
_FRESH = 50  # steps after which norms, which change slowly, are measured again
_ALIKE = 1e-3  # relative difference of Gram matrices of copies that have the same gradients


class _Chunk(NamedTuple):
    """Views of some columns, sliced once since slicing takes as long as computing."""

    stored: torch.Tensor
    rows: torch.Tensor  # to compute with: the columns themselves, or room for wider copies
    tasks: torch.Tensor
    center: torch.Tensor
    room: torch.Tensor  # for differences of tasks and centre

    def load(self) -> None:
        if self.rows is not self.stored:
            self.rows.copy_(self.stored)

    def store(self) -> None:
        if self.rows is not self.stored:
            self.stored.copy_(self.rows)

    def differences(self) -> torch.Tensor:
        self.load()
        return torch.sub(self.tasks, self.center, out=self.room)


class Workspace:
    """Passes over a matrix of shape (n_tasks + 1, n_columns), in float32 or float64."""

    def __init__(self, flat: torch.Tensor, wide: int, chunks: Sequence[torch.Tensor]) -> None:
        self.flat, self.wide, self.n_chunks = flat, wide, len(chunks)
        self.dtype = torch.float64 if flat.dtype is torch.float64 else torch.float32
        # Sums are in float64: on the CPU where the matrix' own device cannot.
        self._sums = torch.device("cpu") if flat.device.type == "mps" else flat.device
        n_tasks = len(flat) - 1
        # Allocated once: fresh temporaries would cost more than the arithmetic.
        room = torch.zeros((len(flat), wide), dtype=self.dtype, device=flat.device)
        self._product = room.new_empty((n_tasks, n_tasks))
        self._on_cpu = flat.device.type == "cpu"
        by_numpy = self._on_cpu and n_tasks >= _MANY
        self._products = InnerProducts(room.numpy()) if by_numpy else None
        self._chunks = []
        for stored in chunks:
            here = room[:, : stored.shape[1]]
            rows = stored if stored.dtype == self.dtype else here
            self._chunks.append(_Chunk(stored, rows, rows[:-1], rows[-1], here[:-1]))

    @classmethod
    def whole(cls, flat: torch.Tensor, n_tasks: int) -> Self:
        """Divide a matrix into equal chunks."""
        narrowest = _NARROWEST if flat.device.type == "cpu" else _NARROWEST_ON_DEVICE
        n_columns, wide = flat.shape[1], max(narrowest, _ELEMENTS // max(n_tasks, 4))
        even = -(-n_columns // max(1, -(-n_columns // wide)))
        wide = -(-even // PIECE) * PIECE if n_columns > PIECE else max(1, n_columns)
        return cls(flat, wide, flat.split(wide, dim=1) if n_columns else ())

    def gram(self) -> Array:
        """Gram matrix ⟨z_i - z_g, z_j - z_g⟩ of the tasks, summed over chunks in float64."""
        return self.total(map(self.product, range(self.n_chunks)))

    def product(self, number: int) -> Any:
        """Gram matrix of one chunk, in memory that the next call uses again."""
        rows = self._chunks[number].differences()
        if self._products is not None:
            return self._products.upper(rows.shape[1])
        product = torch.mm(rows, rows.T, out=self._product)
        return product.numpy() if self._on_cpu else product.to(self._sums)

    @np.errstate(over="ignore", invalid="ignore")  # detected in the result
    def total(self, products: Iterable[Any]) -> Array:
        """Sum of the Gram matrices of chunks, always in the same order, symmetric."""
        zero: Any = np.zeros(self._product.shape)
        total: Any = sum(products, zero if self._on_cpu else torch.from_numpy(zero).to(self._sums))
        gram: Array = total if self._on_cpu else total.cpu().numpy()
        return symmetric(gram)

    def move(self, pull: Array, weights: Array) -> None:
        """Set θ_g = z_g + Σ weights_i (z_i - z_g) and θ_i = z_i + pull_i (θ_g - z_i), in one pass.

        A pull of 0 leaves a task as it is, and 1 makes it a copy of the centre, bit by bit.
        """
        if pull.any() or weights.any():
            others, rest = self._coefficients(weights)
            shares = self._vector(pull)[:, None]
            for chunk in reversed(self._chunks):  # the last ones are still in the cache
                chunk.load()
                chunk.center.addmv_(chunk.tasks.T, others, beta=rest)
                chunk.tasks.lerp_(chunk.center, shares)
                chunk.store()

    def new_center(self, weights: Array, out: torch.Tensor) -> None:
        """Write θ_g to a matrix with a row per chunk, and leave this one as it is."""
        others, rest = self._coefficients(weights)
        for chunk, row in zip(self._chunks, out, strict=True):
            chunk.load()
            part = row[: len(chunk.center)]
            torch.addmv(chunk.center, chunk.tasks.T, others, beta=rest, out=part)

    def pull_to(self, center: torch.Tensor, pull: Array) -> None:
        """Move to a new centre, a matrix with a row per chunk."""
        shares = self._vector(pull)[:, None]
        for chunk, row in zip(self._chunks, center, strict=True):
            chunk.load()
            chunk.center.copy_(row[: len(chunk.center)])
            chunk.tasks.lerp_(chunk.center, shares)
            chunk.store()

    def distances(self, *, exactly: bool = False) -> Array:
        """Distances as stored, to five digits; exactly, in float64, takes three times as long."""
        double = exactly and self._sums == self.flat.device
        rows = (chunk.differences() for chunk in self._chunks)
        return self._norms(rows, torch.float64 if double else self.dtype, len(self.flat) - 1)

    def norm(self) -> float:
        """Norm of the first task, which stands for all."""
        return float(self._norms((chunk.stored[:1] for chunk in self._chunks), self.dtype, 1)[0])

    def _norms(self, chunks: Iterable[torch.Tensor], dtype: torch.dtype, n_rows: int) -> Array:
        """Norms of rows, whose squares are summed in this dtype in a chunk, in float64 over all."""
        total = torch.zeros(n_rows, dtype=torch.float64, device=self._sums)
        for rows in chunks:
            norms = torch.linalg.vector_norm(rows, dim=1, dtype=dtype)
            total = total + norms.to(device=self._sums, dtype=torch.float64).square()
        return total.sqrt().cpu().numpy()

    def _coefficients(self, weights: Array) -> tuple[torch.Tensor, float]:
        """Coefficients of the tasks and of the present centre in the new one."""
        shares = exact_combination(weights, torch.finfo(self.dtype).eps)
        return self._vector(shares[:-1]), float(shares[-1])

    def _vector(self, values: Array) -> torch.Tensor:
        # NumPy converts short vectors faster than torch.
        dtype = np.float64 if self.dtype is torch.float64 else np.float32
        return torch.from_numpy(values.astype(dtype)).to(self.flat.device)


class Columns:
    """The passes of a workspace when tasks are spread over ranks; every operation is collective.

    For the Gram matrix, columns are divided among ranks instead of tasks: each rank receives some
    columns of all tasks, one all-to-all per chunk, and multiplies them. All gather the products and
    sum them in the same order, so that they solve the same problem, bit for bit. Each rank then
    computes its columns of the new centre; all gather them and move their own tasks.
    """

    def __init__(self, local: Workspace, ranks: Ranks) -> None:
        self._local, self._ranks = local, ranks  # rows of the local tasks, all columns
        self._most = max(1, -(-local.n_chunks // ranks.size))  # chunks of one rank
        stops = [min(k * local.wide, local.flat.shape[1]) for k in range(local.n_chunks + 1)]
        cuts = [slice(*pair) for pair in pairwise(stops)]
        self._cuts = cuts + [slice(0, 0)] * (self._most * ranks.size - local.n_chunks)
        first = ranks.rank * self._most
        self._mine = self._cuts[first : first + self._most]
        # Chunk after chunk in memory, so that each is received where it stays.
        n_rows, new = ranks.n_tasks + 1, local.flat.new_empty
        self._received = [new((n_rows, cut.stop - cut.start)) for cut in self._mine]
        self._work = Workspace(new((n_rows, 0)), local.wide, self._received)
        self._packed = new((len(local.flat) - 1) * ranks.size * local.wide)

    @np.errstate(over="ignore", invalid="ignore")  # detected in the result
    def gram(self) -> Array:
        shape = self._most, self._ranks.n_tasks, self._ranks.n_tasks
        products = self._local.flat.new_zeros(shape, dtype=torch.float64)
        for number in range(self._most):
            self._receive(number)
            products[number] = torch.as_tensor(self._work.product(number))
        gathered = self._ranks.gather_tensors(products).flatten(0, 1)[: self._local.n_chunks]
        return self._work.total(gathered.numpy() if gathered.device.type == "cpu" else gathered)

    def move(self, pull: Array, weights: Array) -> None:
        """Compute some columns of the new centre, gather the others, and move the local tasks."""
        if pull.any() or weights.any():
            shape = self._most, self._local.wide
            rows = self._local.flat.new_zeros(shape, dtype=self._work.dtype)
            self._work.new_center(weights, rows)
            center = self._ranks.gather_tensors(rows).flatten(0, 1)[: self._local.n_chunks]
            self._local.pull_to(center, pull[self._ranks.local])

    def _receive(self, number: int) -> None:
        """Exchange the chunks of this number of all ranks."""
        tasks, chunk = self._local.flat[:-1], self._received[number]
        sent = [tasks[:, one].reshape(-1) for one in self._cuts[number :: self._most]]
        sizes = [len(one) for one in sent]
        packed = torch.cat(sent, out=self._packed[: sum(sizes)])
        counts = [chunk.shape[1] * (part.stop - part.start) for part in self._ranks.parts]
        into = chunk[:-1].view(-1)
        dist.all_to_all_single(into, packed, counts, sizes, group=self._ranks.tasks)
        chunk[-1] = self._local.flat[-1, self._mine[number]]


class FlatMembers:
    """Rows of matrices for the local tasks, and a last one for the centre, moved in place."""

    def __init__(self, models: "TaskModels") -> None:
        self._models, self._ranks, blocks = models, models.ranks, models.blocks
        self.tasks = [f"task {label!r}" for label in models.tasks]
        self.groups = [f"block {block.name!r}" if len(blocks) > 1 else "" for block in blocks]
        self._age = 0

    @cached_property
    def local(self) -> list[Workspace]:
        """Passes over the rows of the local tasks, block by block."""
        return [Workspace.whole(flat.flat, len(self.tasks)) for flat in self._models.flats]

    @cached_property
    def _joint(self) -> Sequence[Workspace | Columns]:
        """Passes over the rows of all tasks, block by block."""
        ranks = self._ranks
        return self.local if ranks.size == 1 else [Columns(one, ranks) for one in self.local]

    def gram(self) -> Array:
        self._take()
        grams = np.array([one.gram() for one in self._joint])
        if self._models.sharded or self._ranks.copies == 1:
            return self._total(grams)
        return self._of_first_copy(grams)

    def move(self, pull: Array, weights: Array) -> None:
        for one, block_pull, block_weights in zip(self._joint, pull, weights, strict=True):
            one.move(block_pull, block_weights)
        for flat in self._models.flats:
            flat.give()

    def distances(self, *, exactly: bool = False) -> Array:
        self._take()
        local = np.stack([one.distances(exactly=exactly) for one in self.local])
        if self._models.sharded:
            local = np.sqrt(self._total(local**2))
        return self._ranks.gather(local.T).T

    def storage(self) -> Storage:
        """Precision of the blocks; norms are the first task's, at most `_FRESH` steps old."""
        if self._age % _FRESH == 0:
            norms = np.sqrt(self._total(np.array([one.norm() ** 2 for one in self.local])))
            norms = self._ranks.gather(np.tile(norms, (len(self._models.per_task), 1)))[0]
            widths = self._total(np.array([float(one.flat.shape[1]) for one in self.local]))
            dtypes = [flat.flat.dtype for flat in self._models.flats]
            names = [str(dtype).removeprefix("torch.") for dtype in dtypes]
            eps = np.array([torch.finfo(dtype).eps for dtype in dtypes])
            self._storage = Storage(names, eps, norms, widths.astype(int))
        self._age += 1
        return self._storage

    def culprits(self) -> tuple[list[str], str]:
        mine = [
            flat.owners[row]
            for flat in self._models.flats
            for row, values in enumerate(flat.flat)
            if not values.isfinite().all()
        ]
        names = set().union(*self._ranks.objects(mine))
        return [name for name in (*self.tasks, "the centre") if name in names], ""

    def _take(self) -> None:
        for flat in self._models.flats:
            flat.take()

    def _total(self, values: Array) -> Array:
        """Sum over shards."""
        return self._ranks.sum(values, "data") if self._models.sharded else values

    def _of_first_copy(self, grams: Array) -> Array:
        """Take the numbers of the first of several ranks with the same tasks, if they agree."""
        ranks = self._ranks
        first = ranks.sum(np.zeros_like(grams) if ranks.copy else grams, "data")
        atol = _ALIKE * float(np.abs(first).max())
        if ranks.any(not np.allclose(grams, first, rtol=0.0, atol=atol, equal_nan=True)):
            raise ValueError(
                "The copies of a task's model on several ranks have diverged. Call "
                "`models.average_gradients()` between `backward()` and `optimizer.step()`."
            )
        return first


@dataclass(frozen=True, eq=False)
class StepCertificate:
    """The projection of all blocks; ``certificate["features"]`` is that of one block.

    ``blocks`` is a dict by prefix; a single block is called "all".
    """

    blocks: dict[str, Coupling]

    def __getitem__(self, block: str) -> Coupling:
        return self.blocks[block]

    @property
    def distances(self) -> Array:
        """Distance of each task to the centre over all tethered parameters."""
        return np.sqrt(sum(block.distances**2 for block in self.blocks.values()))

    @property
    def pull(self) -> Array:
        """Largest pull on each task among the blocks."""
        return np.max([block.pull for block in self.blocks.values()], axis=0)

    @property
    def active(self) -> Flags:
        """Tasks whose bound is active in some block."""
        return np.any([block.active for block in self.blocks.values()], axis=0)

    @property
    def kkt_residual(self) -> float:
        """Largest residual among the blocks."""
        return max(block.kkt_residual for block in self.blocks.values())

    @property
    def n_iter(self) -> int:
        """Total number of Newton steps over all blocks."""
        return sum(block.n_iter for block in self.blocks.values())

    @property
    def status(self) -> Status:
        """Converged if all blocks have converged, otherwise the first other status."""
        ends = [block.status for block in self.blocks.values()]
        return next((end for end in ends if end is not Status.CONVERGED), Status.CONVERGED)
