"""What pytest leaves out where the extra `torch` is not installed."""

from importlib.util import find_spec

_NEED_TORCH = [
    "docs/blocks.md",
    "docs/networks.md",
    "src/crosslearning/nn/*",
    "src/crosslearning/experiments/office_home/training.py",
]

collect_ignore_glob = [] if find_spec("torch") else _NEED_TORCH
