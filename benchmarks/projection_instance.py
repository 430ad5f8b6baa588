"""The problems that benchmarks/projection.py measures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from crosslearning.coupling import project
from crosslearning.coupling._project import ArrayMembers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from crosslearning.coupling import Projection

    Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Instance:
    """Tasks `z`, a centre near their mean, and a radius."""

    z: Array
    center: Array
    epsilon: float

    @classmethod
    def random(cls, n_tasks: int, n_parameters: int, radius: float) -> Instance:
        """Tasks in random directions, at 0.2 to 1.8 from a point at distance 3 from the origin."""
        rng = np.random.default_rng(0)
        normal = rng.standard_normal((n_tasks + 2, n_parameters))
        normal /= n_parameters**0.5
        z = normal[:n_tasks]
        z *= np.linspace(0.2, 1.8, n_tasks)[:, None]
        z += 3.0 * normal[-2]
        center = z.mean(axis=0) + 0.1 * normal[-1]
        distances = [np.linalg.norm(row - center) for row in z]
        return cls(z, center, radius * float(np.median(distances)))

    def project(self) -> Projection:
        """Solve exactly."""
        return project(self.z, self.epsilon, center=self.center)

    def gram(self) -> Array:
        """Gram matrix of the differences to the centre."""
        return ArrayMembers(self.z, self.center).gram()[0]

    def apply(self, pull: Array) -> Projection:
        """Do all that a projection does but solve: check, form the Gram matrix, move, certify."""
        return project(
            self.z,
            self.epsilon,
            center=self.center,
            method="subgradient",
            start=pull,
            tol=1e300,  # Algorithm 2 then accepts the pulls it is given
        )
