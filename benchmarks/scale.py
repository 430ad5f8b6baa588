"""How time and memory grow with rows and tasks: tables in files, fitted from sums.

Run ``python -m benchmarks.scale FOLDER`` with room for 5 GB; it writes results/scale.md and .png.
Times are processor time of a process of its own, memory is its largest resident set.
``--step sums`` prints the table of results/scale_sums.md in some minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parent / "results"
GIB = 2**20  # kilobytes
CASES = {  # name: rows, columns, tasks, and what is wanted of seconds and GiB
    "20 million rows, 10,000 tasks": (20_000_000, 20, 10_000, 90, 2.0),
    "2 million rows, 10,000 tasks": (2_000_000, 20, 10_000, 20, 1.5),
    "20 million rows, 1 million tasks": (20_000_000, 5, 1_000_000, 60, 4.0),
}
ROWS = [10**5, 10**6, 2 * 10**6, 2 * 10**7]
TASKS = [10**2, 10**4, 10**5, 10**6]  # of 20 rows
SUMS = [  # rows, columns, tasks, folds
    (2_000_000, 20, 100, 5),
    (2_000_000, 20, 1_000, 5),
    (2_000_000, 20, 10_000, 1),
    (2_000_000, 20, 10_000, 5),
    (2_000_000, 20, 100_000, 5),
    (2_000_000, 5, 1_000_000, 5),
]
CHUNK = 400_000  # rows


def made(folder: Path, rows: int, columns: int, tasks: int, part: int = 500_000) -> Path:
    """Write a table in files of half a million rows, its tasks in random order."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / f"{rows}-{columns}-{tasks}"
    if path.exists():
        return path
    rng = np.random.default_rng(0)
    thetas = rng.normal(size=columns + 1) + 0.5 * rng.normal(size=(tasks, columns + 1))
    temporary = folder / f".{path.name}"
    temporary.mkdir(parents=True, exist_ok=True)
    for start in range(0, rows, part):
        n = min(part, rows - start)
        X, task = rng.normal(size=(n, columns)), rng.integers(tasks, size=n)
        y = np.einsum("rj,rj->r", X, thetas[task, :-1]) + thetas[task, -1] + rng.normal(size=n)
        table = pa.table({"task": task, "y": y, **{f"x{j}": X[:, j] for j in range(columns)}})
        pq.write_table(table, temporary / f"part-{start // part:03d}.parquet")
    temporary.rename(path)
    return path


def measured(what: str, path: Path) -> dict[str, float]:
    """Run one step in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.scale", "--step", what, str(path)]
    environment = os.environ | {"OMP_WAIT_POLICY": "PASSIVE", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def step(what: str, path: Path) -> None:
    """Do one step and print what it took."""
    marks = {}
    if what == "read":
        import pyarrow.parquet as pq

        started = time.process_time()
        for file in sorted(path.iterdir()):
            for _ in pq.ParquetFile(file).iter_batches(400_000):
                pass
        marks["read"] = time.process_time() - started
    else:
        from crosslearning import report
        from crosslearning.tables import fit_files

        def say(text: str, _share: float) -> None:
            marks.setdefault(text.split()[0], time.process_time())

        model = fit_files(path, task="task", target="y", progress=say)
        out = path.parent / f"fit-{path.name}"
        model.save(out)
        marks["page"] = report.write(out).stat().st_size / 1e6
        marks["sums"] = marks["Trying"] - marks["Adding"]
        marks["look"] = marks["Adding"] - marks["Looking"]
    used = resource.getrusage(resource.RUSAGE_SELF)
    marks["seconds"] = used.ru_utime + used.ru_stime
    marks["GiB"] = used.ru_maxrss / GIB
    print(json.dumps(marks))


def sums(folder: Path, rows: int, columns: int, tasks: int, folds: int) -> str:
    """Measure, best of 3, reading the rows of a table and `partial_fit`; return a line."""
    import pyarrow.parquet as pq

    from crosslearning.convex.sums.statistics import Statistics

    path, rng = made(folder, rows, columns, tasks), np.random.default_rng(0)
    fold, seconds = rng.integers(folds, size=CHUNK), []
    for _ in range(3):
        statistics, reading, adding = Statistics.empty(np.arange(tasks), columns, folds), 0.0, 0.0
        for file in sorted(path.iterdir()):
            started = time.process_time()
            batches = list(pq.ParquetFile(file).iter_batches(CHUNK))
            reading += time.process_time() - started
            for batch in batches:
                task, y, *features = (column.to_numpy() for column in batch.columns)
                X = np.column_stack(features)
                started = time.process_time()
                statistics.partial_fit(
                    X, y, task, labels=statistics.labels, folds=fold[: len(task)]
                )
                adding += time.process_time() - started
        seconds.append((reading, adding))
    read, add = np.min(seconds, axis=0)
    shape = f"| {rows:,} | {columns} | {tasks:,} | {folds} |"
    return f"{shape} {read:.2f} | {add:.2f} | {add / read:.1f} |"


def workers(folder: Path) -> dict[int, float]:
    """Largest difference of parameters between files in chunks and Dask, by number of workers."""
    import distributed

    from crosslearning.tables import fit_files

    path = made(folder, 100_000, 3, 300, part=20_000)
    given = {"task": "task", "target": "y"}
    expected, found = fit_files(path, **given).state["fitted"], {}
    for n in (1, 2, 4):
        options = {"n_workers": n, "threads_per_worker": 1, "host": "127.0.0.1"}
        with (
            distributed.LocalCluster(**options, dashboard_address="127.0.0.1:0") as local,
            distributed.Client(local),
        ):
            fitted = fit_files(path, **given, scheduler="current").state["fitted"]
        names = ("coef_", "intercept_", "covariance_", "task_covariances_")
        found[n] = max(float(np.abs(fitted[k] - expected[k]).max()) for k in names)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--step", choices=["read", "fit", "sums", "workers"])
    given = parser.parse_args()
    if given.step == "workers":
        print(json.dumps(workers(given.folder)))
        return
    if given.step == "sums":
        for shape in SUMS:
            print(sums(given.folder, *shape), flush=True)
        return
    if given.step:
        step(given.step, given.folder)
        return
    found = {name: _case(given.folder, *case[:3]) for name, case in CASES.items()}
    known = {CASES[name][:3]: row for name, row in found.items()}
    sizes = [(rows, 20, 10**4) for rows in ROWS] + [(20 * tasks, 5, tasks) for tasks in TASKS]
    growth = {size: known.get(size) or _case(given.folder, *size) for size in sizes}
    page = _page(found, growth)
    differences = ", ".join(f"{d:.0e} with {n}" for n, d in workers(given.folder).items())
    page += f"\nLargest difference of parameters between Dask and one process: {differences}.\n"
    (RESULTS / "scale.md").write_text(page)
    _plot(growth)


def _case(folder: Path, rows: int, columns: int, tasks: int) -> dict[str, float]:
    path = made(folder, rows, columns, tasks)
    return measured("fit", path) | {"read": measured("read", path)["read"]}


def _page(found: dict[str, dict[str, float]], growth: dict[tuple[int, int, int], dict]) -> str:
    about = (
        "`python -m benchmarks.scale FOLDER`; seconds of processor time on 2 cores that others use "
        "too, largest resident set. Tasks are in random order."
    )
    head = (
        "| table | read alone | look | sums | both / read | whole fit | wanted | GiB | wanted "
        "| page, MB |"
    )
    lines = ["# Large tables", "", about, "", head, "|---" * 10 + "|"]
    for name, row in found.items():
        *_, seconds, memory = CASES[name]
        passes = row["look"] + row["sums"]
        lines.append(
            f"| {name} | {row['read']:.1f} | {row['look']:.1f} | {row['sums']:.1f} | "
            f"{passes / row['read']:.1f} | {row['seconds']:.0f} | ≤ {seconds} | {row['GiB']:.2f} | "
            f"≤ {memory:g} | {row['page']:.2f} |"
        )
    head = "| rows | columns | tasks | seconds | GiB |"
    lines += ["", "![growth](scale.png)", "", head, "|---" * 5 + "|"]
    lines += [
        f"| {rows:,} | {columns} | {tasks:,} | {row['seconds']:.0f} | {row['GiB']:.2f} |"
        for (rows, columns, tasks), row in growth.items()
    ]
    first = next(iter(found.values()))
    rate = (first["look"] + first["sums"]) / 20
    estimate = (
        f"**10⁹ rows × 20 columns × 10,000 tasks**: {rate:.1f} s of processor time per million "
        f"rows for both passes make {1000 * rate / 3600:.1f} hours of one core, so "
        f"{1000 * rate / 64 / 60:.1f} minutes on 64 cores. That assumes partitions of a million "
        "rows or more, files that are read as fast as here, and sums of 0.2 GB for each partition "
        "that are merged in a tree of 8: three or four steps of some seconds each. Trials and the "
        "fit itself do not depend on the rows."
    )
    return "\n".join([*lines, "", estimate]) + "\n"


def _plot(growth: dict[tuple[int, int, int], dict]) -> None:
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(8, 3), sharey=True)
    for axis, columns, place, name in ((axes[0], 20, 0, "rows"), (axes[1], 5, 2, "tasks")):
        points = [
            (size[place], row["seconds"]) for size, row in growth.items() if size[1] == columns
        ]
        axis.loglog(*zip(*points, strict=True), "o-")
        axis.set_xlabel(name)
    axes[0].set_ylabel("seconds of processor time")
    figure.tight_layout()
    figure.savefig(RESULTS / "scale.png", dpi=120)


if __name__ == "__main__":
    main()
