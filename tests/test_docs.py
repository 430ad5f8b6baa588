"""The documentation leaves nothing public out."""

import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
MODULES = [
    "crosslearning",
    "crosslearning.datasets",
    "crosslearning.images",
    "crosslearning.paper",
    "crosslearning.paper.gaussian",
    "crosslearning.linear",
    "crosslearning.coupling",
    "crosslearning.report",
    "crosslearning.tables",
    "crosslearning.tasks",
    "crosslearning.nn",
    "crosslearning.nn.architectures",
]


@pytest.mark.parametrize("name", MODULES)
def test_every_public_name_is_in_the_reference(name):
    if ".nn" in name and not find_spec("torch"):
        pytest.skip("the extra torch is missing")
    reference = "\n".join(page.read_text() for page in DOCS.glob("api/*.md"))
    documented = set(re.findall(r"auto(?:class|function|exception|module):: ([\w.]+)", reference))
    documented = {entry.rsplit(".", 1)[-1] for entry in documented}
    assert set(import_module(name).__all__) - documented == set()
