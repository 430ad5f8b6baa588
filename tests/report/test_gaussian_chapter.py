"""The chapter on the paper's Gaussian example."""

import pytest

from crosslearning.paper.gaussian import experiment as gaussian
from crosslearning.report import write
from tests.support.html_page import Page


@pytest.mark.parametrize(
    ("gap", "words"),
    [
        (2.0, "differ by at most 1.98"),
        (0.0, "The true means are equal, so one pooled mean is best"),
        (20.0, "too far off to be shown"),
    ],
)
def test_gaussian(tmp_path, gap, words):
    gaussian.run(gaussian.GaussianConfig(gap=gap, realizations=50), tmp_path)
    page = Page(write(tmp_path))
    assert words in page
    assert f"crosslearning reproduce gaussian --gap {gap}" in page
    assert len(page.charts_of("two cross-learned means")) == 1
