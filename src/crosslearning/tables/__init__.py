"""Tables with a column of tasks: read, fit, predict, save."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from crosslearning.tables.model import TableModel, check_folder
from crosslearning.tables.prediction import Predicted, predict_files, predict_table
from crosslearning.tables.reading.tables import read_table, read_verbatim
from crosslearning.tables.writing import is_text, write_table

if TYPE_CHECKING:
    from crosslearning.tables.fitting import fit_table
    from crosslearning.tables.streaming import fit_files

__all__ = [
    "Predicted",
    "TableModel",
    "check_folder",
    "fit_files",
    "fit_table",
    "is_text",
    "predict_files",
    "predict_table",
    "read_table",
    "read_verbatim",
    "write_table",
]

_FITS = {"fit_table": "fitting", "fit_files": "streaming"}


def __getattr__(name: str) -> Any:
    """Import scikit-learn, which takes long, only to fit."""
    if name in _FITS:
        return getattr(import_module(f"{__name__}.{_FITS[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
