"""The package as a whole."""

import subprocess
import sys
from importlib.metadata import version

import numpy as np
import pytest
import sklearn.exceptions

import crosslearning
from crosslearning.exceptions import ResolutionWarning


def test_version():
    assert crosslearning.__version__ == version("crosslearning")


def test_import_is_light():
    code = "import sys, crosslearning; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"torch", "sklearn", "pandas", "scipy", "matplotlib"} & set(loaded)


def test_warnings_are_those_of_scikit_learn():
    assert issubclass(crosslearning.ConvergenceWarning, sklearn.exceptions.ConvergenceWarning)
    assert issubclass(ResolutionWarning, crosslearning.ConvergenceWarning)
    points = np.random.default_rng(0).normal(size=(6, 3))
    with pytest.warns(sklearn.exceptions.ConvergenceWarning) as caught:
        crosslearning.project(points, 0.5, max_iter=1)
    assert caught[0].category is crosslearning.ConvergenceWarning


def test_networks_without_torch_say_what_to_install():
    code = "import sys; sys.modules['torch'] = None; import crosslearning.nn"
    failed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert failed.returncode == 1
    assert "ImportError: crosslearning.nn needs torch" in failed.stderr
    assert 'pip install "crosslearning[torch]"' in failed.stderr
