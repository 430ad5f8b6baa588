"""Seeds computed from their purpose, so that there is no state to save.

The order of a task's rows, its augmentation and its dropout at step t follow from the seed, the
task's label and t alone: a run that resumes there, and a task that trains alone, draw the same.
"""

import hashlib
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import nn


def derive(*words: object) -> int:
    """Return a seed of 63 bits from a seed and words for its purpose."""
    digest = hashlib.blake2b(repr(words).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def seed_torch(device: torch.device, seed: int) -> None:
    """Seed torch's generators of the CPU and of this device only; seeding all is slow."""
    torch.default_generator.manual_seed(seed)
    if device.type != "cpu":
        torch.get_device_module(device).manual_seed(seed)


def seed_globals(seed: int) -> None:
    """Seed the generators that the code of a dataset may use."""
    torch.default_generator.manual_seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002
    random.seed(seed)


@contextmanager
def forked_generators(device: torch.device) -> Iterator[None]:
    """Restore torch's, NumPy's and Python's global generators."""
    numpys, pythons = np.random.get_state(), random.getstate()  # noqa: NPY002
    devices = [] if device.type == "cpu" else [device.index or 0]
    kind = "cuda" if device.type == "cpu" else device.type
    try:
        with torch.random.fork_rng(devices=devices, device_type=kind):
            yield
    finally:
        np.random.set_state(numpys)  # noqa: NPY002
        random.setstate(pythons)


def build(module: Callable[[], nn.Module], seed: int) -> nn.Module:
    """Make a module whose initial parameters follow from the seed alone."""
    with forked_generators(torch.device("cpu")):
        torch.default_generator.manual_seed(seed)
        return module()
