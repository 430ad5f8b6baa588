"""
Means of related groups
=======================

Means of related groups: sharing a little beats sharing nothing and sharing all.

Twelve groups of 4 samples in 3 dimensions; the true means are close to each other, but not equal.
Each is estimated by its own sample mean, by the overall mean, and by a sample mean that is held
within a radius of a common centre.

Run it with ``python examples/gaussian_means.py``.
"""

# sphinx_gallery_thumbnail_path = '_static/figures/gaussian.svg'

import math

import numpy as np

from crosslearning.paper.gaussian import best_max_gap, cross_means, james_stein, mse

GROUPS, SAMPLES, DIMENSION, REPETITIONS = 12, 4, 3, 100
SIGMA_M = 1 / math.sqrt(SAMPLES)  # standard deviation of a sample mean


def main() -> None:
    """Print the exact errors of two groups and the simulated errors of twelve."""
    print("Two groups with means 1 apart, in closed form:")
    best = best_max_gap(gap=1, sigma_m=SIGMA_M)
    for name, max_gap in [("one mean for both", 0), ("best bound", best), ("separate", math.inf)]:
        error = float(mse(max_gap, gap=1, sigma_m=SIGMA_M))
        print(f"  {name:20} {error:.3f}   (estimates at most {max_gap:.2f} apart)")

    print(f"\n{GROUPS} groups in {DIMENSION} dimensions, mean of {REPETITIONS} simulations:")
    rng = np.random.default_rng(0)
    errors = dict.fromkeys((0.0, 0.25, 0.5, 0.75, 1.0, math.inf), 0.0)
    stein = 0.0
    for _ in range(REPETITIONS):
        truth = rng.uniform(-0.4, 0.4, size=(GROUPS, DIMENSION))
        samples = truth[:, None] + rng.normal(size=(GROUPS, SAMPLES, DIMENSION))
        for epsilon in errors:
            estimate = cross_means(list(samples), epsilon).thetas
            errors[epsilon] += np.mean((estimate - truth) ** 2) / REPETITIONS
        shrunk = james_stein(samples.mean(axis=1), SIGMA_M, target="mean")
        stein += np.mean((shrunk - truth) ** 2) / REPETITIONS
    for epsilon, error in errors.items():
        print(f"  epsilon {epsilon:<12} {error:.3f}")
    print(f"  James-Stein          {stein:.3f}   (needs to know the noise)")
    print(f"Best radius: {min(errors, key=errors.get)}")


if __name__ == "__main__":
    main()
