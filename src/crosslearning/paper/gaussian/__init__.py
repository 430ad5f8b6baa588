r"""Cross-learning of Gaussian means: the example in which everything is known in closed form.

Two groups of :math:`M` samples have means :math:`\varepsilon_0` apart (``gap``), and sample means
of standard deviation :math:`\sigma_M = \sigma / \sqrt M` (``sigma_m``). The two estimates may
differ by at most :math:`\varepsilon` (``max_gap``): a ball of *radius* ``max_gap / 2`` around a
free centre. 0 is consensus, ``inf`` is agnostic. Corrections to the paper are noted in place.
"""

from crosslearning.paper.gaussian.means import (
    MonteCarlo,
    TwoMeans,
    beneficial_from,
    best_max_gap,
    cross_means,
    james_stein,
    monte_carlo,
    mse,
    mse_derivative,
    two_means,
)

__all__ = [
    "MonteCarlo", "TwoMeans", "beneficial_from", "best_max_gap", "cross_means", "james_stein",
    "monte_carlo", "mse", "mse_derivative", "two_means",
]  # fmt: skip
