"""Settings of the documentation: ``sphinx-build -W --keep-going -b html docs docs/_build/html``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import crosslearning

sys.path.insert(0, str(Path(__file__).parent))

import generate

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "crosslearning"
author = "The crosslearning developers"
version = release = crosslearning.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
]
exclude_patterns = ["_build", "_generated"]
nitpicky = True
smartquotes = False  # options begin with two dashes
# Pages of other projects are not looked up.
nitpick_ignore_regex = [("py:.*", r"(flwr|lightning|sklearn|transformers)\..*")]

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


def setup(app: Sphinx) -> None:
    """Generate what the pages show before anything looks for it."""
    app.connect("config-inited", lambda *_: generate.generate())
