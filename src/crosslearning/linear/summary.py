"""Summaries of fitted Bayesian models, as tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from crosslearning.tether import Array

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False, kw_only=True)
class Summary:
    """What a fitted Bayesian model says about all tasks together.

    Attributes
    ----------
    frame : DataFrame
        One row per coefficient of the centre, in the units of the features as given, the intercept
        last, where all features are 0 (of several classes, these rows for each): ``estimate``,
        ``std_error``, ``lower`` and ``upper``; and the standard deviation between tasks,
        ``task_sd``, ``task_sd_lower`` and ``task_sd_upper``, empty where none was estimated, or
        where the rows do not determine it. Groups within groups have these three for each level,
        with its name in place of ``task``.
    model, structure : str
        Class of the estimator, and structure of the covariance between tasks.
    n_rows, n_tasks : int
        Numbers of rows and of tasks.
    n_groups : dict of int
        Number of units of each level by its name, outermost first, tasks last.
    noise_sd : float
        Standard deviation of the noise (square root of the dispersion); NaN if the family has none.
    log_evidence : float
        Log evidence, to compare models of the same targets; NaN for families with a
        quasi-likelihood ("poisson", "tweedie", "quantile"), which is not comparable.
    shapes : dict of array
        What else the family has learned, by name: ``overdispersion`` or ``thresholds``.
    coverage : float
        Probability of the intervals.
    """

    frame: pd.DataFrame
    model: str
    structure: str
    n_rows: int
    n_tasks: int
    n_groups: dict[str, int]
    noise_sd: float
    log_evidence: float
    shapes: dict[str, Array]
    coverage: float

    def __repr__(self) -> str:
        table = self.frame.to_string(float_format="{:.4g}".format, na_rep="")
        return "\n".join([*self._head(), "", table])

    def _repr_html_(self) -> str:
        table = self.frame.to_html(float_format="{:.4g}".format, na_rep="")
        return f"<p>{'<br>'.join(self._head())}</p>{table}"

    def _head(self) -> tuple[str, str]:
        """Return a line on the data and one on the model."""
        units = [f"{self.n_tasks:,} tasks"]
        if len(self.n_groups) > 1:
            units = [f"{name} {number:,}" for name, number in self.n_groups.items()]
        data = [self.model, f"{self.n_rows:,} rows", *units, f"covariance {self.structure!r}"]
        model = [f"{100 * self.coverage:g} % intervals"]
        for name, values in reversed(self.shapes.items()):
            model.insert(0, " ".join([name, *(f"{value:.4g}" for value in np.ravel(values))]))
        if np.isfinite(self.noise_sd):
            model.insert(0, f"noise sd {self.noise_sd:.4g}")
        if np.isfinite(self.log_evidence):
            model.insert(0, f"log evidence {self.log_evidence:,.2f}")
        return ", ".join(data), ", ".join(model)
