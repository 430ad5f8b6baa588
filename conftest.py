"""What pytest leaves out where the extras `torch` and `flower` are not installed."""

from importlib.util import find_spec

_NEED_TORCH = [
    "docs/blocks.md",
    "docs/networks.md",
    "src/crosslearning/images/*",
    "src/crosslearning/nn/*",
    "src/crosslearning/paper/alexnet.py",
]

_NEED_FLOWER = ["docs/federated.md", "src/crosslearning/federated/*"]

collect_ignore_glob = [
    *([] if find_spec("torch") else _NEED_TORCH),
    *([] if find_spec("torch") and find_spec("flwr") else _NEED_FLOWER),
]
