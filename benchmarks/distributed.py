"""What does a projection cost when the tasks are on several ranks? Bytes on the wire, and time.

Run it with ``python benchmarks/distributed.py`` (some minutes); it writes results/distributed.md.
``--quick`` takes smaller models and writes nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
import torch
import torch.distributed as dist
from networks_tables import table
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

from crosslearning.nn import TaskModels, _ranks

if TYPE_CHECKING:
    from collections.abc import Callable

RESULTS = Path(__file__).parent / "results"
SIZE = 4_911_745  # the paper's network
TASKS = (4, 8, 16)
RANKS = (1, 2, 4)
EPSILON = 0.01
NETWORKS = {"10 Gbit/s": (10, 50e-6), "100 Gbit/s": (100, 10e-6), "400 Gbit/s": (400, 5e-6)}


class Vector(nn.Module):
    """As many parameters as wanted, and nothing to compute."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.values = nn.Parameter(torch.zeros(size))


class Received:
    """Counts the bytes that this rank gets from others in the operations of a projection."""

    def __init__(self) -> None:
        self.bytes = 0
        exchange, gather = dist.all_to_all_single, _ranks._all_gather

        def all_to_all(output: torch.Tensor, given: torch.Tensor, *args: Any, **more: Any) -> Any:
            own = args[0][dist.get_rank()]
            self.bytes += (output.numel() - own) * output.element_size()
            return exchange(output, given, *args, **more)

        def all_gather(output: torch.Tensor, given: torch.Tensor, **more: Any) -> Any:
            self.bytes += (output.numel() - given.numel()) * output.element_size()
            return gather(output, given, **more)

        dist.all_to_all_single, _ranks._all_gather = all_to_all, all_gather


def seconds(function: Callable[[], object], prepare: Callable[[], object], turns: int) -> float:
    """Median time of a call that all ranks start together; the first does not count."""
    taken = []
    for _ in range(turns + 1):
        prepare()
        dist.barrier()
        start = perf_counter()
        function()
        dist.barrier()
        taken.append(perf_counter() - start)
    return float(np.median(taken[1:]))


def measure(size: int, turns: int) -> list[dict[str, float]]:
    """On every rank: times of a projection and of an all-reduce, and bytes received."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    n_ranks = dist.get_world_size()
    mesh = init_device_mesh("cpu", (n_ranks,), mesh_dim_names=("task",)) if n_ranks > 1 else None
    received, gradient = Received(), torch.zeros(size)
    reduce = seconds(lambda: dist.all_reduce(gradient), lambda: None, turns)
    rows = []
    for n_tasks in TASKS:
        models = TaskModels(Vector(size), range(n_tasks), epsilon=EPSILON, mesh=mesh)
        noise = torch.randn(size) * (2 * EPSILON / size**0.5)

        def scatter(models: TaskModels = models, noise: torch.Tensor = noise) -> None:
            with torch.no_grad():
                for number, task in enumerate(models.local_tasks):
                    models[task].values.add_(noise.roll(1000 * number + 17 * int(str(task))))

        project = seconds(models.project, scatter, turns)
        received.bytes = 0
        scatter()
        models.project()
        rows.append({"ranks": n_ranks, "tasks": n_tasks, "project": project, "reduce": reduce})
        rows[-1]["received"] = received.bytes / (4 * size)
        del models
    dist.destroy_process_group()
    return rows


def launch(n_ranks: int, size: int, turns: int) -> list[dict[str, float]]:
    """Measure on so many ranks of this machine."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={n_ranks}"]
        command += ["--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0", __file__]
        command += ["--worker", folder, str(size), str(turns)]
        settings = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
        subprocess.run(command, check=True, env={**os.environ, **settings})
        found = [json.loads(path.read_text()) for path in Path(folder).glob("*.json")]
    return [  # of the rank that takes longest, or receives most
        {name: max(row[name] for row in rows) for name in rows[0]}
        for rows in zip(*found, strict=True)
    ]


def share(n_tasks: int, n_ranks: int) -> float:
    """Received per rank and projection, in models: columns of others' tasks, and of the centre."""
    return (1 - 1 / n_ranks) * (n_tasks / n_ranks + 1)


def measured(found: list[dict[str, float]]) -> str:
    alone = {row["tasks"]: row["project"] for row in found if row["ranks"] == 1}
    rows = []
    for row in found:
        n_tasks, n_ranks = int(row["tasks"]), int(row["ranks"])
        one = n_ranks == 1
        cells = [f"{n_tasks}", f"{n_ranks}", f"{1e3 * row['project']:.0f} ms"]
        cells += ["" if one else f"{row['project'] / alone[n_tasks]:.1f}"]
        cells += ["" if one else f"{row['project'] / row['reduce']:.1f}"]
        cells += [f"{row['received']:.2f}", f"{share(n_tasks, n_ranks):.2f}"]
        rows.append([*cells, f"{2 * (1 - 1 / n_ranks):.2f}"])
    head = ["tasks", "ranks", "projection", "× one process", "× all-reduce", "received"]
    return table([*head, "model", "all-reduce receives"], rows)


def modelled() -> str:
    """Milliseconds on a cluster: bytes over bandwidth, and a latency for each message."""
    rows = []
    for n_tasks, n_ranks in ((8, 8), (64, 8), (64, 64)):
        for name, (gigabits, latency) in NETWORKS.items():
            per_model = 4 * SIZE * 8 / (gigabits * 1e9)
            project = share(n_tasks, n_ranks) * per_model + 3 * (n_ranks - 1) * latency
            reduce = 2 * (1 - 1 / n_ranks) * per_model + 2 * (n_ranks - 1) * latency
            cells = [f"{n_tasks}", f"{n_ranks}", name, f"{1e3 * project:.1f} ms"]
            rows.append([*cells, f"{1e3 * reduce:.1f} ms"])
    return table(["tasks", "ranks", "network", "projection", "all-reduce of a gradient"], rows)


def page(found: list[dict[str, float]]) -> str:
    return f"""# Tasks on several ranks, measured

`python benchmarks/distributed.py` writes this page.

{platform.machine()}, {os.cpu_count()} cores; Python {platform.python_version()},
torch {torch.__version__}, gloo over the loopback interface, one thread per rank. The load of the
last minute was {os.getloadavg()[0]:.1f}. Four ranks share two cores, and the loopback interface
takes processor time from them: times here say little of a cluster, the bytes are the same there.

## Here

{measured(found)}

Models of S = {SIZE:,} parameters in float32, the size of the paper's network. Times are medians,
of the rank that takes longest. *Received* is per rank and projection, in units of S, counted at the
operations of torch.distributed; the model is (1 - 1/R) (N/R + 1) for N tasks on R ranks, and the
rest is padding to whole chunks of columns, and the products of the chunks. *All-reduce* is that of
one model's gradient, 2 (1 - 1/R) S, which data-parallel training pays in every step. With one task
per rank a projection receives as much; with n tasks per rank, (n + 1) / 2 times as much. Gathering
all tasks on every rank would receive (1 - 1/R) N.

## On a cluster, by the model

{modelled()}

Bytes received over the bandwidth of a rank, and a latency per message (50, 10 and 5 µs): R - 1
messages each for the all-to-all, the products and the centre, 2 (R - 1) for the all-reduce; an
all-to-all for every chunk of a rank is one where there are as many ranks as chunks. The
arithmetic is that of one process divided by R.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller models; writes nothing")
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        folder, size, turns = arguments.worker
        found = measure(int(size), int(turns))
        Path(folder, f"{os.environ['RANK']}.json").write_text(json.dumps(found))
        return
    size, turns = (100_000, 3) if arguments.quick else (SIZE, 7)
    text = page([row for n_ranks in RANKS for row in launch(n_ranks, size, turns)])
    if not arguments.quick:
        (RESULTS / "distributed.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
