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


def test_networks_without_torch_say_what_to_install():
    code = "import sys; sys.modules['torch'] = None; import crosslearning.nn"
    failed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert failed.returncode == 1
    assert "ImportError: crosslearning.nn needs torch" in failed.stderr
    assert 'pip install "crosslearning[torch]"' in failed.stderr
