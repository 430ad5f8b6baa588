"""The paper's Algorithm 2: dual subgradient ascent, for study and comparison."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice

import numpy as np
from numpy.typing import ArrayLike

from crosslearning.coupling._checks import (
    check_center_weight,
    check_gram,
    check_start,
    check_tether,
)
from crosslearning.tether import Array, Tether


def subgradient_iterates(
    gram: ArrayLike,
    epsilon: ArrayLike,
    *,
    center_weight: float = 1.0,
    step: float = 1.0,
    start: ArrayLike | None = None,
) -> Iterator[tuple[Array, Array]]:
    r"""Iterate Algorithm 2 endlessly; the caller decides when to stop.

    With :math:`\lambda_i = \mu_i / (1 + \mu_i)` and :math:`a = w_g + \sum_i \lambda_i`,

    .. math::

        \partial_i = (1 - \lambda_i)^2 \Bigl\|z_i - \tfrac1a \bigl(w_g z_g
        + \textstyle\sum_j \lambda_j z_j\bigr)\Bigr\|^2 - \varepsilon^2, \qquad
        \mu_i \leftarrow \bigl[\mu_i + \alpha_k \partial_i\bigr]_+, \qquad
        \alpha_k = \frac{\alpha}{k + 1} .

    Parameters
    ----------
    gram : array of shape (n_tasks, n_tasks)
        Inner products of the differences from the given centre. The square root of the largest
        diagonal entry is the unit of length.
    epsilon : float or array of shape (n_tasks,)
        Radius, on the scale of the Gram matrix.
    center_weight : float, default=1
        Weight of the given centre, 1 in the paper. Algorithm 2 does not support a free centre.
    step : float, default=1
        :math:`\alpha`, in units of inverse squared length.
    start : array of shape (n_tasks,), optional
        Initial :math:`\lambda_i` (the pulls), below 1. All 0 by default.

    Yields
    ------
    pull, subgradient : array of shape (n_tasks,)
        :math:`\lambda_i`, and :math:`\partial_i` relative to the squared unit of length.
    """
    K = check_gram(gram)
    weight = check_center_weight(center_weight)
    unit = float(K.diagonal().max()) or 1.0
    K = K / unit
    if not step > 0:
        raise ValueError(f"`step` must be positive; got {step!r}. 1 is a cautious choice.")
    radius = np.broadcast_to(check_tether(Tether(epsilon), len(K)).epsilon, len(K))
    bound = np.where(np.isfinite(radius), radius, 0.0) ** 2 / unit
    pull = np.zeros(len(K)) if (checked := check_start(start, len(K))) is None else checked
    mu = pull / np.maximum(1.0 - pull, np.finfo(np.float64).eps)
    mu[np.isinf(radius)] = 0.0
    for k in count():
        pull = mu / (1.0 + mu)
        weights = pull / (weight + pull.sum())
        inner = K @ weights
        square = np.maximum(K.diagonal() - 2.0 * inner + weights @ inner, 0.0)
        subgradient = np.where(np.isfinite(radius), (1.0 - pull) ** 2 * square - bound, -np.inf)
        yield pull, subgradient
        mu = np.maximum(mu + step / (k + 1) * subgradient, 0.0)


def subgradient_pulls(
    gram: Array, tether: Tether, weight: float, start: Array | None, tol: float, max_iter: int
) -> tuple[Array, int, bool]:
    """Run Algorithm 2 until |⟨∂, μ⟩| ≤ δ; return pulls, iterations and success."""
    iterates = subgradient_iterates(gram, tether.epsilon, center_weight=weight, start=start)
    for k, (pull, subgradient) in enumerate(islice(iterates, max_iter + 1)):
        mu = pull / (1.0 - pull)
        gap = abs(float(mu[mu > 0] @ subgradient[mu > 0]))
        # The paper's rule alone holds at μ = 0 even if that is infeasible.
        if gap <= tol and subgradient.max() <= tol:
            return pull, k, True
    return pull, max_iter, False
