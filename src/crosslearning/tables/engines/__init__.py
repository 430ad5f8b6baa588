"""Who goes over the rows of a table: this process, in one piece or in chunks, or a Dask cluster.

Engines differ in nothing else. What can be tried on a table depends on whether all of its rows fit
into the `room` that an engine has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from crosslearning.convex.sums.passes import Pass, PassSums
from crosslearning.tables.engines.plan import Collected, Plan
from crosslearning.tables.engines.survey import Survey
from crosslearning.tables.settings import FitSettings


class Engine(Protocol):
    """Goes over all rows of a table as often as it is asked to.

    Attributes
    ----------
    columns : list of str
        Names of the columns.
    source, function : str
        Name of the table, and function that fits it, for lines of Python that repeat a fit.
    room : float
        Number of rows that may be kept in memory.
    text_labels : bool
        Whether labels of tasks were read as text, so that those of digits are numbers.
    notes : sequence of str
        What is remarkable about the source.
    """

    columns: list[str]
    source: str
    function: str
    room: float
    text_labels: bool
    notes: Sequence[str]

    def survey(self, settings: FitSettings, columns: list[str]) -> Survey:
        """Look at all rows of some columns."""

    def collect(self, plan: Plan) -> Collected:
        """Sum the rows of each task and fold as far as the plan needs it, and keep some."""

    def pass_over(self, plan: Plan, at: Pass) -> PassSums:
        """Sum all rows at the parameters of a pass."""
