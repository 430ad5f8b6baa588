"""Tables with a column of tasks: read, fit, predict, save."""

from typing import TYPE_CHECKING

from crosslearning.extras import lazy

if TYPE_CHECKING:
    from crosslearning.frames.reading import read_table, write_table
    from crosslearning.tables.fitting import fit_files, fit_table
    from crosslearning.tables.model import (
        Predicted,
        TableModel,
        check_folder,
        predict_files,
        predict_table,
    )
    from crosslearning.tables.settings import FitSettings

__all__ = [
    "FitSettings", "Predicted", "TableModel", "check_folder", "fit_files", "fit_table",
    "predict_files", "predict_table", "read_table", "write_table",
]  # fmt: skip

__getattr__, __dir__ = lazy(  # scikit-learn takes long to import, and is needed only to fit
    globals(),
    {
        "fitting": "fit_files fit_table",
        "model": "Predicted TableModel check_folder predict_files predict_table",
        ".frames.reading": "read_table write_table",
        "settings": "FitSettings",
    },
)
