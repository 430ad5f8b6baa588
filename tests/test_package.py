"""The package as a whole."""

import subprocess
import sys
from importlib.metadata import version

import crosslearning


def test_version():
    assert crosslearning.__version__ == version("crosslearning")


def test_import_is_light():
    code = "import sys, crosslearning; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"torch", "sklearn", "pandas", "scipy", "matplotlib"} & set(loaded)
