"""Small tables for the tests."""

import numpy as np
import pandas as pd


def shops(rows=120, tasks=4, seed=0):
    """Sales by shop: a number, a category with a rare level, gaps in both, and useless columns."""
    rng = np.random.default_rng(seed)
    shop = np.arange(rows) % tasks
    price = rng.normal(size=rows)
    kind = np.array(["tea", "milk", "salt"])[rng.integers(3, size=rows)]
    sales = 2 * price + shop + 3.0 * (kind == "tea") + 0.3 * rng.normal(size=rows)
    frame = pd.DataFrame(
        {
            "shop": [f"s{i}" for i in shop],
            "price": price,
            "kind": kind,
            "day": pd.Timestamp("2024-01-01").strftime("%Y-%m-%d"),
            "note": [f"note {i}" for i in range(rows)],
            "one": 1,
            "row": np.arange(rows),
            "sales": sales,
        }
    )
    frame.loc[[3, 50], "price"] = np.nan
    frame.loc[[4, 51, 59], "kind"] = None
    frame.loc[7, "kind"] = "saffron"
    return frame


def classes(names):
    """The shops with sales in that many classes."""
    frame = shops()
    frame["sales"] = pd.qcut(frame["sales"], len(names), labels=names).astype(str)
    return frame
