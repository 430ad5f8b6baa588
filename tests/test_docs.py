"""The documentation leaves nothing public out."""

import re
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [*DOCS.glob("*.md"), *ROOT.glob("*.md")]
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
    "crosslearning.federated",
]


@pytest.mark.parametrize("name", MODULES)
def test_every_public_name_is_in_the_reference(name):
    if ".nn" in name and not find_spec("torch"):
        pytest.skip("the extra torch is missing")
    if "federated" in name and not find_spec("flwr"):
        pytest.skip("the extra flower is missing")
    reference = "\n".join(page.read_text() for page in DOCS.glob("api/*.md"))
    documented = set(re.findall(r"auto(?:class|function|exception|module):: ([\w.]+)", reference))
    documented = {entry.rsplit(".", 1)[-1] for entry in documented}
    assert set(import_module(name).__all__) - documented == set()


def resolved(name):
    """Import the longest module that a dotted name begins with, and look up the rest in it."""
    parts = name.split(".")
    for n in range(len(parts), 0, -1):
        try:
            found = import_module(".".join(parts[:n]))
        except ImportError as error:
            if error.name and not name.startswith(error.name):
                pytest.skip(f"{error.name} is not installed")
            continue
        for part in parts[n:]:
            found = getattr(found, part)
        return found
    raise AssertionError(f"{name} does not exist")


@pytest.mark.parametrize("page", sorted(DOCS.glob("api/*.md")), ids=lambda page: page.name)
def test_what_the_reference_lists_exists(page):
    module = "crosslearning"
    for kind, name in re.findall(r"\.\. (currentmodule|auto\w+):: ([\w.]+)", page.read_text()):
        if kind == "currentmodule":
            module = name
        else:
            resolved(name if name.startswith("crosslearning") else f"{module}.{name}")


def test_the_readme_is_short():
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 120
    assert max(map(len, lines)) <= 200


def test_the_page_of_commands_is_their_help():
    pytest.importorskip("typer")
    spec = spec_from_file_location("command_pages", DOCS / "command_pages.py")
    pages = module_from_spec(spec)
    spec.loader.exec_module(pages)
    assert pages.PAGE.read_text() == pages.text(), "run `python docs/command_pages.py`"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_figures_of_a_page_exist(page):
    for target in re.findall(r"\]\(([^)#:]+\.\w+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_names_exists(page):
    text = page.read_text()
    for name in sorted(set(re.findall(r"`~?(?:[\w.]+ <)?(crosslearning(?:\.\w+)+)", text))):
        resolved(name)
    for path in re.findall(r"`((?:src|tests|benchmarks|docs|examples)/[\w/.-]+)`", text):
        assert (ROOT / path).exists(), path
