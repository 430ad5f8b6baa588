"""Values as JSON has them."""

from __future__ import annotations

from typing import Any

import numpy as np


def plain(value: Any) -> Any:
    """Turn into what JSON has: infinity into "inf", NaN into null, unknown things into strings.

    Floats are rounded to 10 significant digits; files stay small and differ by what matters.

    Examples
    --------
    >>> plain({"epsilon": np.array([0.1 + 0.2, np.inf]), 7: None})
    {'epsilon': [0.3, 'inf'], '7': None}
    """
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, np.ndarray | list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return _number(value)
    return value if isinstance(value, str | bool | int | None) else str(value)


def _number(value: float) -> float | str | None:
    if np.isfinite(value):
        return float(f"{value:.10g}")
    return None if np.isnan(value) else str(value)
