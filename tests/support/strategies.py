"""Generated projection problems with the hard cases in them."""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from crosslearning import Projection, Tether, prox


@dataclass(frozen=True)
class Case:
    thetas: np.ndarray
    tether: Tether
    center: np.ndarray | None
    center_weight: float | None

    @property
    def weight(self) -> float:
        """Weight of the centre, 0 if it is free."""
        if self.center is None:
            return 0.0
        return 1.0 if self.center_weight is None else self.center_weight

    @property
    def base(self) -> np.ndarray:
        return self.thetas.mean(axis=0) if self.center is None else self.center

    @property
    def scale(self) -> float:
        distances = np.linalg.norm(self.thetas - self.base, axis=1)
        return max(float(distances.max()), float(np.abs(self.thetas).max()), 1e-300)

    def solve(self, **changes: object) -> Projection:
        arguments = {
            "thetas": self.thetas,
            "tether": self.tether,
            "center": self.center,
            "center_weight": self.center_weight,
        }
        return prox(**(arguments | changes))


def _vectors(rng: np.random.Generator, kind: str, n: int, s: int) -> np.ndarray:
    z = rng.normal(size=(n, s))
    match kind:
        case "duplicates":
            return z[rng.integers(0, max(1, n // 3), size=n)]
        case "collinear":
            return np.outer(rng.normal(size=n), z[0])
        case "grid":
            return np.round(z)
        case "clustered":
            z[: n // 2] *= 1e-8
            return z
        case "outlier":
            z[0] *= 1e4
            return z
    return z


@st.composite
def vectors(draw: st.DrawFn, max_tasks: int = 200) -> np.ndarray:
    """Tasks with duplicates, on a line, on a grid, in clusters, with an outlier, far away."""
    n = draw(st.integers(1, min(12, max_tasks)) | st.integers(1, max_tasks))
    s = draw(st.integers(1, 12) | st.integers(1, 300))
    kind = draw(
        st.sampled_from(["normal", "duplicates", "collinear", "grid", "clustered", "outlier"])
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return _vectors(rng, kind, n, s) * 10.0 ** draw(st.integers(-10, 10))


@st.composite
def radii(draw: st.DrawFn, distances: np.ndarray) -> float | np.ndarray:
    """Radii at the ends, on the boundary of a task, in between, or one per task."""
    largest = float(distances.max())
    single = draw(
        st.sampled_from([0.0, np.inf, largest, float(distances.min()), float(np.median(distances))])
        | st.floats(1e-9, 2.0).map(lambda share: share * largest)
    )
    if draw(st.booleans()):
        return single
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    choices = [0.0, largest, np.inf, single]
    return np.where(
        rng.random(len(distances)) < 0.2,
        rng.choice(choices, size=len(distances)),
        rng.random(len(distances)) * largest,
    )


@st.composite
def cases(
    draw: st.DrawFn, max_tasks: int = 200, *, ball: bool = True, single: bool = False
) -> Case:
    """Problems with a given or a free centre.

    `ball=False` adds spring and tension, `single=True` single precision.
    """
    thetas = draw(vectors(max_tasks))
    if single and draw(st.booleans()):
        thetas = thetas.astype(np.float32)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    center = weight = None
    if draw(st.booleans()):
        center = thetas.mean(axis=0) + rng.normal(size=thetas.shape[1]) * np.abs(thetas).max()
        weight = draw(st.none() | st.floats(1e-3, 1e3) | st.just(1e-6))
    base = thetas.mean(axis=0) if center is None else center
    distances = np.linalg.norm(thetas - base, axis=1)
    # Identical tasks differ from their mean by rounding errors, which no radius resolves.
    distances[distances <= 1e-14 * np.linalg.norm(base)] = 0.0
    epsilon = draw(radii(distances))
    if ball:
        return Case(thetas, Tether(epsilon), center, weight)
    stiffness = draw(st.just(0.0) | st.floats(1e-3, 1e3))
    tension = draw(st.just(0.0) | st.floats(1e-3, 2.0)) * float(np.median(distances))
    return Case(thetas, Tether(epsilon, stiffness, tension), center, weight)
