"""High School & Beyond: mathematics scores of pupils, by school."""

from __future__ import annotations

from crosslearning.datasets._table import TableData, read_packaged_csv

__all__ = ["load_hsb82"]

_PUPIL_FEATURES = ["minority", "female", "ses"]
_SCHOOL_FEATURES = ["meanses", "catholic"]

_DESCRIPTION = (
    "High School & Beyond, 1982: mathematics scores of 7,185 pupils of 160 schools in the United "
    "States, with the pupils' minority status, sex and socioeconomic status. Origin: survey of "
    "the National Center for Education Statistics, US Department of Education; the subsample of "
    "the R packages mlmRev and nlme. Licence: a work of the US government."
)


def load_hsb82(*, school_features: bool = False) -> TableData:
    """High School & Beyond, 1982: 7,185 pupils, the tasks are 160 schools of 14 to 67 pupils.

    The target ``math`` is a score in mathematics. No value is missing.

    Parameters
    ----------
    school_features : bool, default=False
        Whether X also holds the two features of a school, which are constant within a task:
        ``meanses``, the mean of ``ses``, and ``catholic``, 1 for a Catholic school.

    Returns
    -------
    TableData
        ``X`` holds the features of a pupil: ``minority`` and ``female``, 0 or 1, and ``ses``,
        socioeconomic status. The labels in ``tasks`` are the integers that number the schools.

    Examples
    --------
    >>> data = load_hsb82()
    >>> data.X.shape, data.y.name, data.tasks.nunique()
    ((7185, 3), 'math', 160)
    >>> list(load_hsb82(school_features=True).X)
    ['minority', 'female', 'ses', 'meanses', 'catholic']
    """
    frame = read_packaged_csv("hsb82")
    features = _PUPIL_FEATURES + (_SCHOOL_FEATURES if school_features else [])
    return TableData(
        name="hsb82",
        X=frame[features].copy(),
        y=frame["math"].copy(),
        tasks=frame["school"].copy(),
        frame=frame,
        description=_DESCRIPTION,
    )
