"""House prices in Ames, Iowa, by neighbourhood."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crosslearning.datasets._table import TableData, read_packaged_csv

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["load_ames"]

_FEWEST_SALES = 10
_CONDITIONS = [
    "Very_Poor",
    "Poor",
    "Fair",
    "Below_Average",
    "Average",
    "Above_Average",
    "Good",
    "Very_Good",
    "Excellent",
]
_CATEGORICAL = ["Overall_Cond", "House_Style", "Central_Air"]

_DESCRIPTION = (
    "Ames: 2,919 residential sales in 25 neighbourhoods of Ames, Iowa, 2006-2010, with 36 features "
    "of house, lot and sale; three neighbourhoods with fewer than 10 sales are left out. Origin: "
    "Ames City Assessor, collected by De Cock, Journal of Statistics Education 19(3), 2011; as in "
    "the R package modeldata. Licence: MIT, copyright (c) 2023 modeldata authors."
)


def load_ames(*, numeric_only: bool = False) -> TableData:
    """House prices in Ames, Iowa: 2,919 sales, the tasks are 25 neighbourhoods of 10 to 443 sales.

    The target ``log_sale_price`` is the natural logarithm of ``Sale_Price`` in dollars. Three
    neighbourhoods with fewer than 10 sales, 11 sales in all, are left out.

    No value is missing, but 0 stands for unknown in ``Lot_Frontage`` (in 486 rows).
    ``BsmtFin_SF_1`` is not an area, whatever its name says, but a code from 0 to 7, as in the R
    package; the area is ``Total_Bsmt_SF - BsmtFin_SF_2 - Bsmt_Unf_SF``.

    Parameters
    ----------
    numeric_only : bool, default=False
        Whether to leave out of X the three columns that hold categories: ``Overall_Cond`` (from
        worst to best), ``House_Style`` and ``Central_Air``.

    Returns
    -------
    TableData
        ``X`` holds all columns but ``Neighborhood``, whose names are the labels in ``tasks``, and
        ``Sale_Price``. Rows are numbered from 0.

    Examples
    --------
    >>> data = load_ames()
    >>> data.X.shape, data.y.name, data.tasks.nunique()
    ((2919, 36), 'log_sale_price', 25)
    >>> load_ames(numeric_only=True).X.shape
    (2919, 33)
    """
    frame = _with_categories(_without_small_tasks(read_packaged_csv("ames")))
    left_out = ["Neighborhood", "Sale_Price", *(_CATEGORICAL if numeric_only else [])]
    return TableData(
        name="ames",
        X=frame.drop(columns=left_out),
        y=np.log(frame["Sale_Price"]).rename("log_sale_price"),
        tasks=frame["Neighborhood"].copy(),
        frame=frame,
        description=_DESCRIPTION,
    )


def _without_small_tasks(frame: pd.DataFrame) -> pd.DataFrame:
    sales = frame.groupby("Neighborhood")["Sale_Price"].transform("size")
    return frame[sales >= _FEWEST_SALES].reset_index(drop=True)


def _with_categories(frame: pd.DataFrame) -> pd.DataFrame:
    import pandas as pd

    condition = pd.CategoricalDtype(_CONDITIONS, ordered=True)
    return frame.astype(dict.fromkeys(_CATEGORICAL, "category") | {"Overall_Cond": condition})
