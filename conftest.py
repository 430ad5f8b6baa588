"""What pytest leaves out where the extra `torch` is not installed."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("torch") else ["src/crosslearning/nn/*"]
