"""Fitted tables that tests only read, each fitted once."""

import pytest

from crosslearning.tables import engines, fit_table
from tests.support.tables import classes, shops


@pytest.fixture(scope="session")
def regression():
    return fit_table(shops(), task="shop", target="sales", base="linear", command="a command")


@pytest.fixture(scope="session")
def binary():
    given = {"task": "shop", "target": "sales", "base": "linear", "folds": 2, "features": ["price"]}
    return fit_table(classes(["few", "many"]), **given)


@pytest.fixture
def little_room(monkeypatch):
    """Keep few rows of files in memory, so that models come from sums and passes."""
    monkeypatch.setattr(engines, "ROOM", 100)
