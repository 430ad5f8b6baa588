"""Values as JSON has them."""

from typing import Any

import numpy as np


def plain(value: Any, digits: int = 10) -> Any:
    """Turn into what JSON has: infinity into "inf", NaN into null, unknown things into strings.

    Floats are rounded to so many significant digits, which keeps files small.

    >>> plain({"epsilon": np.array([0.1 + 0.2, np.inf]), 7: None})
    {'epsilon': [0.3, 'inf'], '7': None}
    """
    if isinstance(value, dict):
        return {str(key): plain(part, digits) for key, part in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(part, digits) for part in value]
    if isinstance(value, float):
        rounded = float(f"{value:.{digits}g}")
        return rounded if np.isfinite(value) else None if np.isnan(value) else str(value)
    return value if isinstance(value, str | bool | int | None) else str(value)
