"""Build the wheel; install it alone and with each extra into an empty environment, and use it.

An environment contains what pip installs for the extra, and nothing else. What an extra includes
is not installed twice: the environment of `crosslearning[onnx]` sees that of `crosslearning[torch]`
since `onnx` requires `torch`, and all see that of the bare package.
"""

import os
import subprocess
import sys
import tempfile
import time
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
BARE = ""

TABLE = """
from crosslearning import CrossRidge
from crosslearning.datasets import load_hsb82
pupils = load_hsb82()
model = CrossRidge(epsilon=1.0).fit(pupils.X, pupils.y, tasks=pupils.tasks)
assert model.score(pupils.X, pupils.y, tasks=pupils.tasks) > 0.1
"""
COMMANDS = """
import subprocess, sys
from pathlib import Path
def run(*words):
    subprocess.run([Path(sys.executable).with_name("crosslearning"), *words], check=True)
run("data", "export", "hsb82", "pupils", "--quiet")
about = "--task", "school", "--target", "math", "--base", "linear"
run("fit", "pupils/hsb82.csv", *about, "--out", "schools", "--quiet")
run("predict", "schools", "pupils/hsb82.csv", "--out", "predictions.csv", "--quiet")
assert Path("schools/report.html").exists() and Path("predictions.csv").exists()
"""
DASK = """
import dask.dataframe
from distributed import Client
from crosslearning.datasets import load_hsb82
from crosslearning.tables.dask import fit_table
frame = dask.dataframe.from_pandas(load_hsb82().frame, npartitions=2)
with Client(processes=False, n_workers=1, dashboard_address=None):
    fit_table(frame, task="school", target="math")
"""
FLOWER = """
from crosslearning import Statistics
from crosslearning.federated import collect_statistics, statistics_app
statistics_app(lambda settings: Statistics.of([[1.0]], [1.0], [settings["task"]]))
"""
CLIENTS = """
from crosslearning.federated import CrossLearning, client_app, parameters_of
CrossLearning(epsilon=0.1)
client_app(lambda: torch.nn.Linear(3, 1), lambda model, settings: {"num-examples": 1})
"""
NETWORKS = """
import numpy as np, torch
from pathlib import Path
from PIL import Image
from crosslearning.images import ImageDomains, TrainingSettings, export, predict, train
from crosslearning.nn import TaskModels, fit
x = torch.randn(8, 3)
data = {task: (x, x.sum(1, keepdim=True)) for task in "ab"}
models = TaskModels(torch.nn.Linear(3, 1), data, epsilon=0.1)
sgd = lambda parameters: torch.optim.SGD(parameters, lr=0.1)
fit(models, data, torch.nn.MSELoss(), sgd, 1, batch_size=4, checkpoint="state")
rng = np.random.default_rng(0)
for domain in ("photo", "sketch"):
    for shade, category in enumerate(("cup", "key")):
        folder = Path("images", domain, category)
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(10):
            pixels = rng.integers(0, 128, (32, 32, 3), dtype=np.uint8) + np.uint8(100 * shade)
            Image.fromarray(pixels).save(folder / f"{number}.png")
images = ImageDomains("images")
quick = {"image_size": 32, "epsilons": (0.0, 1.0)}
train(images, "networks", TrainingSettings(epochs=1, batch=4, **quick))
assert len(predict("networks", "images").table) == 40
export("networks", "network.safetensors")
"""
BACKBONE = """
train(images, "heads", TrainingSettings(backbone="efficientnet_lite0", **quick))
assert len(predict("heads", "images").table) == 40
"""
ONNX = """
export("networks", "network.onnx")
"""
USES = {
    BARE: TABLE,
    "app": COMMANDS,
    "dask": DASK,
    "flower": FLOWER,
    "torch": NETWORKS,
    "backbone": NETWORKS + BACKBONE,
    "onnx": NETWORKS + ONNX,
    "all": NETWORKS + BACKBONE + ONNX + COMMANDS + DASK + FLOWER + CLIENTS,
}


def included(extra: str, extras: dict[str, list[str]]) -> list[str]:
    """Return the extras that this one requires, and the bare package."""
    own = [one.partition("[")[2] for one in extras[extra] if one.startswith("crosslearning[")]
    return [name for names in own for name in names.rstrip("]").split(",")] + [BARE]


def site(environment: Path) -> Path:
    (found,) = environment.glob("lib/python*/site-packages")
    return found


def install(environment: Path, seen: list[Path], wheel: Path, extra: str) -> None:
    """Create an environment that sees some others, install with pip, and check the versions."""
    venv.create(environment)
    (site(environment) / "seen.pth").write_text("".join(f"{site(one)}\n" for one in seen))
    constraints = ROOT / "constraints.txt"
    pip = [sys.executable, "-m", "pip", "--python", environment / "bin/python", "--quiet"]
    add = [*pip, "install", "--no-compile", "--constraint", constraints]
    subprocess.run([*add, "--no-deps", "--ignore-installed", wheel], check=True)
    subprocess.run([*add, f"{wheel}[{extra}]" if extra else wheel], check=True)
    subprocess.run([*pip, "check"], check=True)


def main() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    assert set(USES) == {BARE, *extras}, "every extra is used here"
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir"]
        subprocess.run([*build, place, ROOT], check=True)
        (wheel,) = place.glob("*.whl")
        environments: dict[str, Path] = {}
        for extra, code in USES.items():
            began, environment = time.perf_counter(), place / (extra or "bare")
            seen = included(extra, extras) if extra else []
            known = [environments[name] for name in seen if name in environments]
            install(environment, known, wheel, extra)
            environments[extra] = environment
            installed = time.perf_counter()
            used = place / f"use-{extra}"
            used.mkdir()
            settings = {**os.environ, "XDG_CACHE_HOME": str(used / "cache"), "OMP_NUM_THREADS": "1"}
            python = environment / "bin/python"
            subprocess.run([python, "-I", "-c", code], cwd=used, env=settings, check=True)
            spent = installed - began, time.perf_counter() - installed
            print(f"{wheel.name}[{extra}]: installed in {spent[0]:.0f} s, used in {spent[1]:.0f} s")


if __name__ == "__main__":
    main()
