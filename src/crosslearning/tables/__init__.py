"""Tables with a column of tasks: read, fit, predict, save."""

from typing import TYPE_CHECKING, Any

from crosslearning.tables._predict_files import predict_files
from crosslearning.tables.model import TableModel
from crosslearning.tables.persistence import check_folder
from crosslearning.tables.prediction import Predicted, predict_table
from crosslearning.tables.reading import read_table, read_verbatim
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


def __getattr__(name: str) -> Any:
    """Import scikit-learn, which takes long, only to fit."""
    if name == "fit_table":
        from crosslearning.tables.fitting import fit_table

        return fit_table
    if name == "fit_files":
        from crosslearning.tables.streaming import fit_files

        return fit_files
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
