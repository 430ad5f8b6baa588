"""Work on images that dies of SIGKILL at a given point, as a program for the tests.

``python -m tests.support.killed_once decoding IMAGES CACHE``: after four images.
``python -m tests.support.killed_once networks FOLDER``: after the first epoch of the third run.
``python -m tests.support.killed_once heads FOLDER WHEN``: after so many features, or at a run.
"""

import os
import signal
import sys


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def decoding(images: str, cache: str) -> None:
    from crosslearning.images import ImageDomains, domains

    domains._AT_A_TIME = 2
    data = ImageDomains(images, cache_dir=cache)
    data.pixels(8, progress=lambda done, _: die() if done >= 4 else None)


def networks(folder: str) -> None:
    from tests.support.image_training import SMALL, Squares, train

    def progress(now):
        if (now["run"], now["epoch"]) == (3, 1):
            die()

    train(SMALL, Squares(), folder, name="squares", progress=progress, command="typed")


def heads(folder: str, when: str) -> None:
    from crosslearning.images import networks, train
    from tests.support.image_heads import SETTINGS
    from tests.support.image_training import Squares

    networks._AT_A_TIME = 25

    def progress(now):
        if when in (str(now.get("embedded")), f"run {now.get('run')}"):
            die()

    train(Squares(), folder, SETTINGS, name="squares", progress=progress)


if __name__ == "__main__":
    {"decoding": decoding, "networks": networks, "heads": heads}[sys.argv[1]](*sys.argv[2:])
