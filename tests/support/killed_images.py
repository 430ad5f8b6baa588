"""A training on image files that is killed again and again, as a program for the tests.

``python -m tests.support.killed_images FOLDER NAME`` trains networks, or heads if NAME is a
backbone: once without interruption, and once in processes that die of SIGKILL around one of the
next times that they put a file in place, until one gets to the end. So every phase is interrupted:
decoding, features, checkpoints, networks or heads, results.
"""

import os
import random
import signal
import sys
from pathlib import Path

import numpy as np
import torch
import torch._dynamo  # which optimizers load when first used: once, not in every process
from PIL import Image

from crosslearning.images import ImageDomains, TrainingSettings, networks, train

BEFORE, WITHIN, AFTER = "before", "within", "after"
SOME = {"image_size": 16, "seeds": (0, 1)}


def draw(root: Path) -> None:
    """Write image files that are mostly red, green or blue."""
    rng = np.random.default_rng(0)
    for domain in ("art", "photo"):
        for channel, category in enumerate(("bed", "cup", "pen")):
            (root / domain / category).mkdir(parents=True)
            for k in range(10):
                pixels = rng.integers(0, 160, (8, 8, 3), dtype=np.uint8)
                pixels[:, :, channel] += 60
                Image.fromarray(pixels).save(root / domain / category / f"{k}.jpg")


def run(root: Path, out: Path, backbone: str) -> None:
    """Decode, train and write results, with a cache of its own."""
    os.environ["XDG_CACHE_HOME"] = str(out / "cache")
    networks._AT_A_TIME = 25
    if backbone:
        settings = TrainingSettings(backbone=backbone, **SOME)
    else:
        settings = TrainingSettings(epochs=2, batch=4, epsilons=(0.0, 0.5), **SOME)
    data = ImageDomains(root)
    data.pixels(16)
    train(data, out, settings)


def die_at(log: Path, number: int, when: str) -> None:
    """Kill the process around its so-many-th renaming of a file; log the file's name."""
    rename, calls = Path.replace, 0

    def replace(self: Path, target: Path) -> Path:
        nonlocal calls
        calls += 1
        if calls == number and when == WITHIN:
            os.truncate(self, self.stat().st_size // 2)
        if calls == number and when == AFTER:
            rename(self, target)
        if calls == number:
            with log.open("a") as names:
                names.write(f"{target}\n")
            os.kill(os.getpid(), signal.SIGKILL)
        return rename(self, target)

    Path.replace = replace  # type: ignore[method-assign]


def died(root: Path, out: Path, backbone: str, *way: object) -> bool:
    """Train in a process; say whether it was killed."""
    child = os.fork()  # before torch has computed anything
    if child == 0:
        if way:
            die_at(out.with_name("deaths"), *way)  # type: ignore[arg-type]
        run(root, out, backbone)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        sys.exit("training failed")
    return os.WIFSIGNALED(status)


def main(folder: Path, backbone: str) -> None:
    torch.set_num_threads(1)
    draw(folder / "images")
    assert not died(folder / "images", folder / "whole", backbone)
    chance, deaths = random.Random(0), 0
    way = (1, BEFORE)
    while died(folder / "images", folder / "killed", backbone, *way):
        deaths += 1  # later and later, as what has to be done in one go has to be done some time
        way = (chance.randint(1, 4 + deaths), chance.choice((BEFORE, WITHIN, AFTER)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
