"""Improvement over consensus and agnostic training, domain by domain: the paper's Figure 4."""

from __future__ import annotations

import math
from typing import Any

__all__ = ["improvement"]


def improvement(results: dict[str, Any]) -> list[dict[str, Any]]:
    """Improvement in per cent over the extremes, at one radius and at the best of each domain.

    The radius common to all domains is chosen by validation; those of each domain are the best on
    the test images, as in the paper.

    Parameters
    ----------
    results : dict
        What `crosslearning.images.train` found.
    """
    accuracies = {float(point["epsilon"]): _accuracies(point) for point in results["path"]}
    between = [epsilon for epsilon in accuracies if 0 < epsilon < math.inf]
    if not between:
        return []
    common = float(results["chosen"]["between"])
    rows = []
    for over, end in (("agnostic", math.inf), ("consensus", 0.0)):
        for domain, base in accuracies.get(end, {}).items():
            # Of equal ones the smallest radius, and rounding decides nothing.
            best = max(between, key=lambda e: round(accuracies[e][domain], 9))
            rows.append(
                {
                    "domain": domain,
                    "over": over,
                    "epsilon": common,
                    "percent": _percent(accuracies[common][domain], base),
                    "best_epsilon": best,
                    "best_percent": _percent(accuracies[best][domain], base),
                }
            )
    return rows


def _accuracies(point: dict[str, Any]) -> dict[str, float]:
    by_domain = {domain["domain"]: domain["test"]["mean"] for domain in point["domains"]}
    return {**by_domain, "all": point["test"]["mean"]}


def _percent(accuracy: float, reference: float) -> float:
    """Improvement of the mean over seeds; NaN over a reference that recognises nothing."""
    return 100 * (accuracy / reference - 1) if reference > 0 else math.nan
