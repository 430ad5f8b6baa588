"""From columns of a table to the numbers that an estimator takes."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from crosslearning.tables.columns import as_categories, as_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["columns_in", "encoded", "encoder", "feature_names", "level_name"]

_RARE = 10  # rows; levels with fewer are grouped,
_RARE_SHARE = 0.02  # or with less than this share of the rows if that is less
_MOST_LEVELS = 30  # of a column, the group of rare ones included
_MISSING = "(missing)"
_OTHER = "(other)"


def encoder(numbers: Sequence[str], categories: Sequence[str], n_rows: int) -> ColumnTransformer:
    """Return a transformer for these columns of a table with `n_rows` rows, not fitted.

    Missing numbers become the median, with a column that flags them. Categories become one
    column per level, one in all if there are two; levels with fewer than 10 rows (or 2 % of a
    small table) and those beyond the 30 most frequent share one, and so do levels never seen.
    Missing is a level of its own. The estimators standardise by themselves.
    """
    levels = OneHotEncoder(
        drop="if_binary",
        min_frequency=max(1, min(_RARE, int(_RARE_SHARE * n_rows))),
        max_categories=_MOST_LEVELS,
        handle_unknown="infrequent_if_exist",
        sparse_output=False,
        feature_name_combiner=level_name,
    )
    filled = SimpleImputer(strategy="constant", fill_value=_MISSING)
    return ColumnTransformer(
        [
            ("number", SimpleImputer(strategy="median", add_indicator=True), list(numbers)),
            ("category", make_pipeline(filled, levels), list(categories)),
        ],
        verbose_feature_names_out=False,
    )


def level_name(column: str, level: Any) -> str:
    """Name of the feature for a level of a column."""
    return f"{column}={_OTHER if level == 'infrequent_sklearn' else level}"


def columns_in(encoder: ColumnTransformer) -> dict[str, list[str]]:
    """Names of the columns by what they hold: "number" and "category"."""
    return {name: list(columns) for name, _, columns in encoder.transformers}


def prepared(encoder: ColumnTransformer, frame: pd.DataFrame) -> pd.DataFrame:
    """Return the columns that the encoder takes, as numbers and strings."""
    columns = columns_in(encoder)
    arrays: dict[str, NDArray[Any]] = {name: as_numbers(frame[name]) for name in columns["number"]}
    arrays |= {name: as_categories(frame[name]) for name in columns["category"]}
    return pd.DataFrame(arrays, copy=False)


def encoded(encoder: ColumnTransformer, frame: pd.DataFrame, *, fit: bool) -> NDArray[np.float64]:
    """Encode the rows of a table, all of them finite numbers."""
    columns = prepared(encoder, frame)
    with warnings.catch_warnings():
        # Levels never seen are no surprise: see `encoder`.
        warnings.filterwarnings("ignore", "Found unknown categories")
        array = encoder.fit_transform(columns) if fit else encoder.transform(columns)
    # Row by row, as the folds will take them.
    return np.ascontiguousarray(array, dtype=np.float64)


def feature_names(encoder: ColumnTransformer) -> list[str]:
    """Names of the encoded features, such as ``ses``, ``ses missing`` and ``sex=female``."""
    flag = "missingindicator_"
    names = map(str, encoder.get_feature_names_out())
    return [f"{n.removeprefix(flag)} missing" if n.startswith(flag) else n for n in names]
