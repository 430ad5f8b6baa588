"""Tables with a column of tasks: read, fit, predict, save."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crosslearning.tables.fitting import fit_files, fit_table
    from crosslearning.tables.model import (
        Predicted,
        TableModel,
        check_folder,
        predict_files,
        predict_table,
    )
    from crosslearning.tables.reading import read_table, write_table
    from crosslearning.tables.settings import FitSettings

_PLACES = {
    "FitSettings": "settings",
    "Predicted": "model",
    "TableModel": "model",
    "check_folder": "model",
    "fit_files": "fitting",
    "fit_table": "fitting",
    "predict_files": "model",
    "predict_table": "model",
    "read_table": "reading",
    "write_table": "reading",
}
__all__ = [
    "FitSettings", "Predicted", "TableModel", "check_folder", "fit_files", "fit_table",
    "predict_files", "predict_table", "read_table", "write_table",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import a part when it is used: scikit-learn takes long, and is needed only to fit."""
    if name in _PLACES:
        return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
