"""What pytest leaves out where extras, or packages with callbacks, are not installed."""

from importlib.util import find_spec

_NEED_TORCH = [
    "docs/blocks.md",
    "docs/loops.md",
    "docs/networks.md",
    "src/crosslearning/images/*",
    "src/crosslearning/nn/*",
    "src/crosslearning/paper/alexnet.py",
]

_NEED_FLOWER = ["docs/federated.md", "src/crosslearning/federated/*"]

_PEERS = ("cooper", "cvxpy", "gpboost", "sklego", "statsmodels")  # of "Coming from …"

_INTEGRATIONS = "src/crosslearning/nn/integrations"

_BUILT = ["docs/_build/*", "docs/gallery/*"]  # by `make docs`; examples run as they are imported

collect_ignore_glob = [
    *_BUILT,
    *([] if find_spec("torch") else _NEED_TORCH),
    *([] if find_spec("torch") and find_spec("flwr") else _NEED_FLOWER),
    *([] if find_spec("torch") and all(map(find_spec, _PEERS)) else ["docs/coming_from.md"]),
    *([] if find_spec("pytorch_lightning") else [f"{_INTEGRATIONS}/lightning.py"]),
    *([] if find_spec("transformers") else [f"{_INTEGRATIONS}/transformers.py"]),
]
