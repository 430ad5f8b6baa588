"""The package as a whole."""

import re
import runpy
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
import sklearn.exceptions

import crosslearning
from crosslearning.exceptions import ResolutionWarning
from crosslearning.tables import fit_table
from tests.support.tables import shops

ROOT = Path(__file__).parents[1]
APP = ["altair", "jinja2", "pyarrow", "rich", "typer", "vl_convert"]
EXTRAS = [*APP, "flwr", "torch", "PIL", "safetensors"]

BLOCK = """
import sys
class Blocked:
    def find_spec(name, path=None, target=None):
        if name.split(".")[0] in {}:
            raise ModuleNotFoundError("blocked", name=name)
sys.meta_path.insert(0, Blocked)
"""


def python(code, block=()):
    """Run code in a process of its own, in which some modules cannot be imported."""
    command = [sys.executable, "-c", BLOCK.format(list(block)) + code]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_version():
    assert crosslearning.__version__ == version("crosslearning")


def test_import_is_light():
    loaded = python("import sys, crosslearning; print(*sys.modules)").stdout.split()
    assert not {"flwr", "torch", "sklearn", "pandas", "scipy", "numpy"} & set(loaded)
    assert set(crosslearning.__all__) <= set(dir(crosslearning))
    with pytest.raises(AttributeError, match="has no attribute 'projct'"):
        _ = crosslearning.projct


def test_warnings_are_those_of_scikit_learn():
    assert issubclass(crosslearning.ConvergenceWarning, sklearn.exceptions.ConvergenceWarning)
    assert issubclass(ResolutionWarning, crosslearning.ConvergenceWarning)
    points = np.random.default_rng(0).normal(size=(6, 3))
    with pytest.warns(sklearn.exceptions.ConvergenceWarning) as caught:
        crosslearning.project(points, 0.5, max_iter=1)
    assert caught[0].category is crosslearning.ConvergenceWarning


def test_networks_without_torch_say_what_to_install():
    failed = python("import crosslearning.nn", block=["torch"])
    assert failed.returncode == 1
    assert "ImportError: crosslearning.nn needs torch" in failed.stderr
    assert 'pip install "crosslearning[torch]"' in failed.stderr


def test_federated_learning_without_flower_says_what_to_install():
    failed = python("import crosslearning.federated", block=["flwr"])
    assert failed.returncode == 1
    assert "ImportError: crosslearning.federated needs flwr" in failed.stderr
    assert 'pip install "crosslearning[flower]"' in failed.stderr


def test_federated_networks_without_torch_say_what_to_install():
    code = """
from crosslearning import federated
for name in ("statistics_app", "CrossLearning", "client_app"):
    try:
        getattr(federated, name)
    except ImportError as error:
        print(error)
"""
    lines = python(code, block=["torch"]).stdout.splitlines()
    assert [line.partition(" needs torch")[0] for line in lines] == [
        "crosslearning.federated.CrossLearning",
        "crosslearning.federated.client_app",
    ]


def test_lazy_packages_list_their_names():
    code = (
        "import crosslearning.linear as l; print('CrossRidge' in vars(l), 'CrossRidge' in dir(l))"
    )
    assert python(code).stdout.split() == ["False", "True"]


def test_what_is_left_out_without_extras_exists():
    parts = runpy.run_path(str(ROOT / "conftest.py"))
    for pattern in (*parts["_NEED_TORCH"], *parts["_NEED_FLOWER"]):
        assert any(ROOT.glob(pattern)), pattern


def test_all_extras_are_in_all():
    about = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = about["project"]["optional-dependencies"]
    (everything,) = extras.pop("all")
    assert everything == f"crosslearning[{','.join(sorted(extras))}]"


def test_the_library_works_without_extras(tmp_path):
    code = f"""
from crosslearning import CrossLogisticRegression, CrossRidgeCV, project
from crosslearning.tables import TableModel, fit_table, read_table
from tests.support.tables import shops
project([[1.0], [2.0]], 0.1)
frame = shops()
CrossRidgeCV(cv=2, n_epsilons=2).fit(frame[["one"]], frame["sales"], tasks=frame["shop"])
CrossLogisticRegression().fit(frame[["one"]], frame["sales"] > 0, tasks=frame["shop"])
fit_table(
    frame, task="shop", target="sales", folds=2, base="linear", family="gaussian"
).save({str(tmp_path)!r})
print(len(TableModel.load({str(tmp_path)!r}).predict(frame)))
from crosslearning.report import write
write({str(tmp_path)!r})
"""
    done = python(code, block=EXTRAS)
    assert done.stdout == "120\n"
    assert done.stderr.endswith(
        "ImportError: The report needs altair, an optional dependency. Install it with "
        '`pip install "crosslearning[app]"`.\n'
    )


@pytest.mark.parametrize("block", [["typer"], ["rich"], EXTRAS])
def test_the_command_without_extras_is_one_line(block):
    code = "import sys; from crosslearning.cli import main; sys.exit(main(['data', 'list']))"
    done = python(code, block=block)
    assert (done.returncode, done.stdout) == (2, "")
    name = "typer" if "typer" in block else "rich"
    assert re.fullmatch(
        rf"Error: \w+ command.* needs {name}, an optional dependency. Install it with "
        r'`pip install "crosslearning\[app\]"`.\n',
        done.stderr,
    )


def test_predictions_need_neither_torch_nor_scikit_learn(tmp_path):
    fit_table(shops(), task="shop", target="sales", folds=2, base="splines").save(tmp_path)
    shops().head(3).to_csv(tmp_path / "new.csv", index=False)  # with targets, to be scored
    code = (
        "import sys; from crosslearning.cli import main;"
        f"main(['predict', {str(tmp_path)!r}, {str(tmp_path / 'new.csv')!r}]);"
        "print([m for m in ('scipy.stats', 'sklearn', 'skops', 'torch') if m in sys.modules])"
    )
    lines = python(code).stdout.splitlines()
    assert len(lines) == 5
    assert lines[-1] == "[]"
