"""Tables with a target and a task label per row: pupils by school, houses by neighbourhood."""

from dataclasses import dataclass, field
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

_HSB82 = (
    "High School & Beyond, 1982: mathematics scores of 7,185 pupils of 160 schools in the United "
    "States, with the pupils' minority status, sex and socioeconomic status. Origin: survey of "
    "the National Center for Education Statistics, US Department of Education; the subsample of "
    "the R packages mlmRev and nlme. Licence: a work of the US government."
)
_AMES = (
    "Ames: 2,919 residential sales in 25 neighbourhoods of Ames, Iowa, 2006-2010, with 36 features "
    "of house, lot and sale; three neighbourhoods with fewer than 10 sales are left out. Origin: "
    "Ames City Assessor, collected by De Cock, Journal of Statistics Education 19(3), 2011; as in "
    "the R package modeldata. Licence: MIT, copyright (c) 2023 modeldata authors."
)
_CONDITIONS = [
    "Very_Poor", "Poor", "Fair", "Below_Average", "Average", "Above_Average", "Good", "Very_Good",
    "Excellent",
]  # fmt: skip
_CATEGORICAL = ["Overall_Cond", "House_Style", "Central_Air"]


@dataclass(frozen=True, eq=False)
class TableData:
    """A data set for ``fit(X, y, tasks=tasks)``.

    Parameters
    ----------
    name, description : str
        Short name; content, origin and licence of the data.
    X, y, tasks : DataFrame of shape (n_rows, n_features), two Series
        Features, target, and the task label of each row.
    frame : DataFrame
        The same rows with all columns, before any transformation of the target.
    """

    name: str
    X: "pd.DataFrame" = field(repr=False)
    y: "pd.Series[Any]" = field(repr=False)
    tasks: "pd.Series[Any]" = field(repr=False)
    frame: "pd.DataFrame" = field(repr=False)
    description: str = field(repr=False)


def load_hsb82(*, school_features: bool = False) -> TableData:
    """Load High School & Beyond, 1982: 7,185 pupils; the tasks are 160 schools of 14 to 67 pupils.

    The target ``math`` is a mathematics score. ``X`` has the features of a pupil: ``minority`` and
    ``female``, 0 or 1, and ``ses``, socioeconomic status; with `school_features` also those of the
    school: ``meanses``, the mean of ``ses``, and ``catholic``, 0 or 1. No value is missing.

    >>> data = load_hsb82()
    >>> data.X.shape, data.y.name, data.tasks.nunique()
    ((7185, 3), 'math', 160)
    >>> list(load_hsb82(school_features=True).X)
    ['minority', 'female', 'ses', 'meanses', 'catholic']
    """
    frame = _read("hsb82")
    features = ["minority", "female", "ses"]
    if school_features:
        features += ["meanses", "catholic"]
    y, tasks = frame["math"].copy(), frame["school"].copy()
    return TableData("hsb82", frame[features].copy(), y, tasks, frame, _HSB82)


def load_ames(*, numeric_only: bool = False) -> TableData:
    """Load house prices in Ames, Iowa: 2,919 sales; the tasks are 25 neighbourhoods.

    The target ``log_sale_price`` is the natural logarithm of ``Sale_Price`` in dollars. Three
    neighbourhoods with fewer than 10 sales, 11 in all, are left out; the others have 10 to 443.

    No value is missing, but 0 means unknown in ``Lot_Frontage`` (486 rows). Despite its name,
    ``BsmtFin_SF_1`` is not an area but a code from 0 to 7, as in the R package; the area is
    ``Total_Bsmt_SF - BsmtFin_SF_2 - Bsmt_Unf_SF``. `numeric_only` omits the categorical columns
    ``Overall_Cond`` (from worst to best), ``House_Style`` and ``Central_Air``.

    >>> data = load_ames()
    >>> data.X.shape, data.y.name, data.tasks.nunique()
    ((2919, 36), 'log_sale_price', 25)
    >>> load_ames(numeric_only=True).X.shape
    (2919, 33)
    """
    import pandas as pd

    frame = _read("ames")
    sales = frame.groupby("Neighborhood")["Sale_Price"].transform("size")
    condition = pd.CategoricalDtype(_CONDITIONS, ordered=True)
    types = dict.fromkeys(_CATEGORICAL, "category") | {"Overall_Cond": condition}
    frame = frame[sales >= 10].reset_index(drop=True).astype(types)
    left_out = ["Neighborhood", "Sale_Price", *(_CATEGORICAL if numeric_only else ())]
    X, tasks = frame.drop(columns=left_out), frame["Neighborhood"].copy()
    y = np.log(frame["Sale_Price"]).rename("log_sale_price")
    return TableData("ames", X, y, tasks, frame, _AMES)


def _read(name: str) -> "pd.DataFrame":
    """Read ``data/<name>.csv.gz`` from the package."""
    import pandas as pd  # slow to import

    with (files("crosslearning.datasets") / "data" / f"{name}.csv.gz").open("rb") as stream:
        return pd.read_csv(stream, compression="gzip")
