"""From columns of a table to the numbers that an estimator takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from crosslearning.tables.columns import as_categories, as_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["TableEncoder"]

_RARE = 10  # rows; levels with fewer are grouped,
_RARE_SHARE = 0.02  # or with less than this share of the rows if that is less
_MOST_LEVELS = 30  # of a column, the group of rare ones included
_MISSING = "(missing)"
_OTHER = "(other)"


@dataclass(frozen=True)
class TableEncoder:
    """Columns to numbers; the estimators standardise by themselves.

    Missing numbers become the median, with a column that flags them. Categories become one
    column per level, one in all if there are two; levels with fewer than 10 rows (or 2 % of a
    small table) and those beyond the 30 most frequent share one, and so do levels never seen.
    Missing is a level of its own.

    Attributes
    ----------
    numbers : dict
        Median by name of a column of numbers.
    flagged : list of str
        Those of them that had missing values.
    levels : dict
        Levels by name of a column of categories: None stands for all that are not listed.
    """

    numbers: dict[str, float]
    flagged: list[str]
    levels: dict[str, list[str | None]]

    @classmethod
    def of(
        cls, frame: pd.DataFrame, numbers: Sequence[str], categories: Sequence[str]
    ) -> TableEncoder:
        """Learn medians and levels from the rows of a table."""
        values = {name: as_numbers(frame[name]) for name in numbers}
        return cls(
            {name: float(np.nanmedian(column)) for name, column in values.items()},
            [name for name, column in values.items() if np.isnan(column).any()],
            {name: _levels(_filled(frame[name])) for name in categories},
        )

    @property
    def columns(self) -> list[str]:
        """Names of the columns to encode."""
        return [*self.numbers, *self.levels]

    @property
    def feature_names(self) -> list[str]:
        """Names of the encoded features, such as ``ses``, ``ses missing`` and ``sex=female``."""
        return [
            *self.numbers,
            *(f"{name} missing" for name in self.flagged),
            *(
                f"{name}={_OTHER if level is None else level}"
                for name, levels in self.levels.items()
                for level in _shown(levels)
            ),
        ]

    def encode(self, frame: pd.DataFrame) -> NDArray[np.float64]:
        """Encode the rows of a table, all of them finite numbers."""
        values = [as_numbers(frame[name]) for name in self.numbers]
        gaps = {name: np.isnan(column) for name, column in zip(self.numbers, values, strict=True)}
        medians = self.numbers.values()
        parts = [*map(np.where, gaps.values(), medians, values)]
        parts += [gaps[name] for name in self.flagged]
        for name, levels in self.levels.items():
            listed = [level for level in levels if level is not None]
            codes = pd.Index(listed, dtype=object).get_indexer(_filled(frame[name]))
            other = len(listed) if None in levels else -1
            codes = np.where(codes < 0, other, codes)
            parts += [codes == levels.index(level) for level in _shown(levels)]
        # Row by row, as the folds will take them.
        return np.array(parts, dtype=np.float64).T.copy()


def _filled(column: pd.Series[Any]) -> pd.Index[Any]:
    values = as_categories(column)
    return pd.Index(np.where(pd.isna(values), _MISSING, values), dtype=object)


def _levels(values: pd.Index[Any]) -> list[str | None]:
    """Levels to tell apart, in order; None, last, for the rare ones if there are any."""
    counts = values.value_counts().sort_index()
    frequent = counts[counts >= max(1, min(_RARE, int(_RARE_SHARE * len(values))))]
    room = _MOST_LEVELS - (len(frequent) < len(counts) or len(counts) > _MOST_LEVELS)
    kept = sorted(frequent.sort_values(kind="stable").index[-room:])
    return [*kept, None] if len(kept) < len(counts) else list(kept)


def _shown(levels: list[str | None]) -> list[str | None]:
    """Levels with a feature each: of two the second tells all."""
    return levels[1:] if len(levels) == 2 else levels
