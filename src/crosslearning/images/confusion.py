"""What is taken for what: the commonest confusions, and those among the worst categories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["common_pairs", "worst_categories"]


def common_pairs(
    counts: NDArray[np.int64],
    domains: Sequence[str],
    categories: Sequence[str],
    most: int = 10,
) -> list[dict[str, Any]]:
    """Commonest confusions of each domain, with the number of images of the true category.

    Parameters
    ----------
    counts : array of int of shape (n_domains, n_categories, n_categories)
        Images by domain, truth and prediction.
    domains, categories : sequence of str
        Their names.
    most : int, default=10
        At most so many for a domain.
    """
    rows = []
    for domain, table in zip(domains, counts, strict=True):
        wrong = table - np.diag(np.diag(table))
        for k in np.argsort(-wrong, axis=None, kind="stable")[:most]:
            truth, predicted = np.unravel_index(k, wrong.shape)
            if wrong[truth, predicted]:
                rows.append(
                    {
                        "domain": domain,
                        "truth": categories[truth],
                        "predicted": categories[predicted],
                        "count": int(wrong[truth, predicted]),
                        "of": int(table[truth].sum()),
                    }
                )
    return rows


def worst_categories(
    counts: NDArray[np.int64], categories: Sequence[str], most: int = 12
) -> dict[str, Any]:
    """Confusions among the categories that are recognised least, all domains together."""
    table = counts.sum(0)
    images = table.sum(1)
    known = np.flatnonzero(images)
    worst = known[np.argsort((np.diag(table) / np.maximum(images, 1))[known], kind="stable")][:most]
    return {
        "categories": [categories[k] for k in worst],
        "counts": table[np.ix_(worst, worst)].tolist(),
        "totals": images[worst].tolist(),
    }
