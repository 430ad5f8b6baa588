"""Settings of the documentation: ``sphinx-build -W --keep-going -b html docs docs/_build/html``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import crosslearning

sys.path.insert(0, str(Path(__file__).parent))

import generate
import inventories

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "crosslearning"
author = "The crosslearning developers"
version = release = crosslearning.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "_generated"]
nitpicky = True
smartquotes = False  # options begin with two dashes
nitpick_ignore_regex = [("py:.*", r"(flwr|lightning|sklearn|transformers)\..*")]
intersphinx_mapping = inventories.write(Path(__file__).parent / "_generated" / "inventories")

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/(?!adapters)\w+\.py",  # minutes of training are shown, not run
    "ignore_pattern": r"federated/",
    "within_subsection_order": "FileNameSortKey",
    "backreferences_dir": "gallery/backreferences",
    "doc_module": ("crosslearning",),
    "capture_repr": ("_repr_html_",),
    "abort_on_example_error": True,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
    "download_all_examples": False,
}

html_theme = "furo"
html_title = "crosslearning"
html_static_path = ["_static"]
html_extra_path = ["_generated/extra"]
html_css_files = ["pictures.css"]
html_copy_source = False
html_show_copyright = False
pygments_style = "friendly"

myst_enable_extensions = ["attrs_block", "attrs_inline", "colon_fence", "dollarmath"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_mock_imports = ["lightning", "transformers"]
autodoc_typehints = "none"  # the docstrings tell types, and shapes
numpydoc_show_class_members = False
toc_object_entries_show_parents = "hide"


def link_examples(
    app: Sphinx, what: str, name: str, _: object, __: object, lines: list[str]
) -> None:
    """Show the examples that use a class or a function below its description."""
    folder = Path(app.srcdir) / "gallery" / "backreferences"
    for short in (f"crosslearning.{name.rsplit('.', 1)[-1]}", name):
        examples = folder / f"{short}.examples"
        if what in ("class", "function") and examples.exists() and examples.stat().st_size:
            lines += ["", ".. rubric:: In the gallery", "", f".. minigallery:: {short}", ""]
            return


def find_measurements(_: Sphinx, __: str, source: list[str]) -> None:
    """Let links to measurements, which are those of a repository browser, lead to our pages."""
    source[0] = source[0].replace("](../benchmarks/results/", "](benchmarks/")


def setup(app: Sphinx) -> None:
    """Generate what the pages show before anything looks for it."""
    app.connect("config-inited", lambda *_: generate.generate())
    app.connect("source-read", find_measurements)
    app.connect("autodoc-process-docstring", link_examples, priority=900)  # after numpydoc
