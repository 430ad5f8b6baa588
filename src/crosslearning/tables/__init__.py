"""Tables with a column of tasks: read, fit, predict, save."""

from crosslearning.tables.fitting import fit_table
from crosslearning.tables.model import TableModel
from crosslearning.tables.persistence import check_folder
from crosslearning.tables.prediction import Predicted, predict_table
from crosslearning.tables.reading import read_table, read_verbatim
from crosslearning.tables.writing import is_text, write_table

__all__ = [
    "Predicted",
    "TableModel",
    "check_folder",
    "fit_table",
    "is_text",
    "predict_table",
    "read_table",
    "read_verbatim",
    "write_table",
]
