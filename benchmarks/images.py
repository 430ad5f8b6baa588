"""Where does a step of the paper's network go: decoding, training or the projection?

Run it with ``python benchmarks/images.py`` (some minutes), or try it with ``--quick``.
"""

from __future__ import annotations

import argparse
import os
import platform
from pathlib import Path
from tempfile import TemporaryDirectory

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
import torch
from networks_tables import medians, milliseconds, table
from PIL import Image

from crosslearning.datasets import load_pictures32
from crosslearning.datasets.decoding import decode
from crosslearning.images import ImageDomains
from crosslearning.images.batches import ImageBatches
from crosslearning.nn import TaskModels
from crosslearning.paper import alexnet256

RESULTS = Path(__file__).parent / "results"
SIZE = 224
PER_DOMAIN = 25
PHOTO = 1000  # height and width of a photograph; the pictures have 64
QUALITY = 90


def export(root: Path, magnified: int) -> ImageDomains:
    """Write some pictures of each domain as JPEG, and read them as a folder."""
    pictures = load_pictures32()
    for d, domain in enumerate(pictures.domains):
        for k in np.flatnonzero(pictures.domain_codes == d)[:PER_DOMAIN]:
            path = root / domain / pictures.categories[pictures.category_codes[k]] / f"{k}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            image = Image.fromarray(pictures.pixels()[k]).resize((magnified, magnified))
            image.save(path, quality=QUALITY)
    return ImageDomains(root, cache_dir=root.parent / "cache")


def decoding(root: Path, data: ImageDomains, runs: int) -> float:
    """Median seconds to decode one image for each domain."""
    turn = iter(range(10**9))
    paths = [[root / n for n in data.names if n.startswith(f"{d}/")] for d in data.domains]

    def one_for_each() -> None:
        k = next(turn)
        for names in paths:
            decode(names[k % len(names)], SIZE)

    return medians(runs, one_for_each)[0]


def step_parts(data: ImageDomains, runs: int) -> dict[str, float]:
    """Median seconds of reading decoded images, of the gradient step, and of the projection."""
    models = TaskModels(alexnet256(len(data.categories)), data.domains, epsilon=1e-3)
    optimizer = torch.optim.SGD(models.parameters(), lr=1e-3, fused=True)
    loss = torch.nn.CrossEntropyLoss()
    pixels = data.pixels(SIZE)
    sources = {
        domain: ImageBatches(
            pixels,
            np.flatnonzero(data.domain_codes == d),
            data.category_codes,
            [0.5] * 3,
            [0.5] * 3,
        )
        for d, domain in enumerate(data.domains)
    }
    turn = iter(range(10**9))
    batches = {}

    def read() -> None:
        k = torch.tensor([next(turn) % PER_DOMAIN])
        batches.update({domain: source.batch(k) for domain, source in sources.items()})

    def train() -> None:
        optimizer.zero_grad()
        for domain, (x, y) in batches.items():
            loss(models[domain](x), y).backward()
        optimizer.step()

    return dict(
        zip(("read", "train", "project"), medians(runs, read, train, models.project), strict=True)
    )


def page(runs: int) -> str:
    with TemporaryDirectory() as folder:
        small, large = Path(folder, "pictures"), Path(folder, "photos")
        data = export(small, 64)
        uncached = {
            "pictures of 64 × 64": decoding(small, data, runs),
            f"the same, {PHOTO} × {PHOTO}": decoding(large, export(large, PHOTO), runs),
        }
        parts = step_parts(data, runs)
    sources = {
        **{f"decoded in every step: {k}": v for k, v in uncached.items()},
        "decoded once, read from the cache": parts["read"],
    }
    rows = []
    for name, seconds in sources.items():
        times = [seconds, parts["train"], parts["project"]]
        total = sum(times)
        cells = [f"{milliseconds(t)} ({100 * t / total:.1f} %)" for t in times]
        rows.append([name, *cells, milliseconds(total)])
    head = [
        "images",
        "decoding or reading, ms",
        "gradients and step, ms",
        "projection, ms",
        "sum, ms",
    ]
    load = os.getloadavg()[1]
    return f"""# A step of the paper's experiment, measured

`python benchmarks/images.py` writes this page.

{platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__} on one thread, float32;
Python {platform.python_version()}. The load of the last 5 minutes was {load:.1f}; 1 is this
program alone, and more than that disturbs caches and memory.

AlexNet-256 at {SIZE} px, four domains, one image for each and step, SGD, ε = 0.001. The images are
some of `pictures32`, written as JPEG. Medians of {runs} calls that take turns, in processor time.

{table(head, rows)}

`ImageDomains` decodes every image once into a cache, so that epochs pay for reading only.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a try; writes nothing")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    torch.manual_seed(0)
    text = page(3 if quick else 41)
    if not quick:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "images.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
