"""The tether: the radial law that couples each task to the centre."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Reals = NDArray[np.floating[Any]]
Flags = NDArray[np.bool_]
Indices = NDArray[np.intp]

_TINY = np.finfo(np.float64).tiny
_REMEDIES = {
    "epsilon": "Use 0 to pool all tasks, `math.inf` to train them independently.",
    "stiffness": "Use 0 for no spring, `epsilon=0` to pool all tasks.",
    "tension": "Use 0 for no tension, `epsilon=0` to pool all tasks.",
}


class Law(NamedTuple):
    """Values of the methods of the same names at given distances."""

    pull: Array
    slope: Array
    envelope: Array


@dataclass(frozen=True, eq=False, init=False)
class Tether:
    r"""The radial law that ties a task at distance :math:`d` to the centre.

    .. math::

        h(d) = \tau d + \tfrac12 \kappa d^2 \quad (d \le \varepsilon), \qquad
        h(d) = \infty \quad (d > \varepsilon)

    A hard bound (the paper's cross-learning), a spring (mean-regularised multi-task learning) and
    a constant tension (which makes tasks coincide with the centre), alone or together.

    The methods describe the proximal step of :math:`h`, which moves a task from distance :math:`d`
    to ``final_distance(d)``. They take any array of distances; if a parameter has one value per
    task, the last axis must run over the tasks.

    Parameters
    ----------
    epsilon : float or array of shape (n_tasks,), default=inf
        Radius, the largest distance allowed. 0 pools the tasks, ``inf`` sets no bound.
    stiffness : float or array of shape (n_tasks,), default=0
        :math:`\kappa`, the strength of the spring; finite.
    tension : float or array of shape (n_tasks,), default=0
        :math:`\tau`, a pull of constant strength; finite.

    Examples
    --------
    >>> ball = Tether(epsilon=2)
    >>> ball.final_distance([0.0, 1.0, 4.0])
    array([0., 1., 2.])
    >>> ball.pull([0.0, 1.0, 4.0])
    array([0. , 0. , 0.5])
    >>> Tether(stiffness=1).final_distance([0.0, 1.0, 4.0])
    array([0. , 0.5, 2. ])
    """

    epsilon: float | Array
    stiffness: float | Array
    tension: float | Array

    def __init__(
        self, epsilon: ArrayLike = math.inf, stiffness: ArrayLike = 0.0, tension: ArrayLike = 0.0
    ) -> None:
        for name, value in ("epsilon", epsilon), ("stiffness", stiffness), ("tension", tension):
            object.__setattr__(self, name, _checked(name, value))
        lengths = {len(value) for value in self._values() if isinstance(value, np.ndarray)}
        if len(lengths) > 1:
            raise ValueError(
                "Parameters of a tether with one value per task must agree on the number of "
                f"tasks; got lengths {sorted(lengths)}."
            )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tether):
            return NotImplemented
        return all(map(np.array_equal, self._values(), other._values()))

    def __hash__(self) -> int:
        return hash(tuple(np.asarray(value).tobytes() for value in self._values()))

    def _values(self) -> list[float | Array]:
        return [self.epsilon, self.stiffness, self.tension]

    @property
    def n_tasks(self) -> int | None:
        """Number of tasks if a parameter has one value per task, otherwise None."""
        return next((len(v) for v in self._values() if isinstance(v, np.ndarray)), None)

    @cached_property
    def is_ball(self) -> bool:
        """Whether there is neither spring nor tension."""
        return not (np.any(self.stiffness) or np.any(self.tension))

    def scaled(self, *, step_size: float = 1.0, length: float = 1.0) -> Tether:
        r"""Return the tether for another step size or unit of length.

        The step size, :math:`\eta` in the proximal step of :math:`\eta h`, multiplies spring and
        tension; the new unit of length divides radius and tension.
        """
        if step_size == 1.0 and length == 1.0:
            return self
        with np.errstate(over="ignore"):  # then the radius is rightly infinite
            epsilon = self.epsilon / length
        scaled = object.__new__(Tether)  # the values have been checked
        stiffness, tension = self.stiffness * step_size, self.tension * step_size / length
        values = {"epsilon": epsilon, "stiffness": stiffness, "tension": tension}
        scaled.__dict__.update(values, is_ball=self.is_ball, _together=self._together)
        return scaled

    def final_distance(self, distance: ArrayLike) -> Array:
        """Distance to the centre after the proximal step, between 0 and ``epsilon``."""
        d = np.asarray(distance, dtype=np.float64)
        return np.clip((d - self.tension) / (1.0 + self.stiffness), 0.0, self.epsilon)

    def pull(self, distance: ArrayLike) -> Array:
        """Fraction of its distance to the centre by which a task moves: 1 - final / initial.

        At distance 0 this is the limit: 1 if the radius is 0 or there is tension, otherwise
        ``stiffness / (1 + stiffness)``.
        """
        return self.law(distance).pull

    def envelope(self, distance: ArrayLike) -> Array:
        r"""Moreau envelope :math:`\min_{d'} \tfrac12 (d - d')^2 + h(d')`, the step's cost."""
        return self.law(distance).envelope

    def slope(self, distance: ArrayLike) -> Array:
        """Second derivative of the envelope; the first is ``pull(d) * d``. At kinks, from below."""
        return self.law(distance).slope

    def law(self, distance: ArrayLike) -> Law:
        """Pull, slope and envelope at once, for solvers that need all three."""
        with np.errstate(over="ignore", invalid="ignore"):  # then the cost is rightly infinite
            return self._law(np.asarray(distance, dtype=np.float64))

    def _law(self, distance: Array) -> Law:
        """Evaluate :meth:`law` at distances whose squares are finite."""
        if self.is_ball:
            return self._law_of_ball(distance)
        k, t = self.stiffness, self.tension
        d = distance + np.zeros_like(self.epsilon + k + t)
        stuck = np.equal(self.epsilon, 0.0) | ((d <= t) & np.greater(t, 0.0))
        taut = self.is_taut(d)
        safe = np.where(stuck | (d == 0), 1.0, d)
        e = np.where(taut, self.epsilon, 0.0)
        # d - epsilon before the division: 1 - epsilon / d would cancel near the bound.
        pull = np.where(taut, (d - e) / safe, (k + t / safe) / (1.0 + k))
        slope = np.where(taut, 1.0, k / (1.0 + k))
        bound = 0.5 * (d - e) ** 2 + t * e + 0.5 * k * e**2
        slack = (k * d**2 + t * (2.0 * d - t)) / (2.0 * (1.0 + k))
        envelope = np.where(stuck, 0.5 * d**2, np.where(taut, bound, slack))
        pull[stuck] = slope[stuck] = 1.0
        return Law(pull, slope, envelope)

    def _law_of_ball(self, distance: Array) -> Law:
        """Evaluate the law of a bound alone, which is faster."""
        # d - epsilon before the division: 1 - epsilon / d would cancel near the bound.
        excess = np.maximum(distance - self.epsilon, 0.0)
        pull = excess / np.maximum(distance, _TINY)
        slope = np.sign(excess)
        if self._together is not None:
            pull, slope = (np.where(self._together, 1.0, one) for one in (pull, slope))
        return Law(pull, slope, 0.5 * excess * excess)

    @cached_property
    def _together(self) -> Flags | None:
        """Where the radius is 0, or None if it is 0 nowhere."""
        together = np.asarray(np.equal(self.epsilon, 0.0))
        return together if together.any() else None

    def is_taut(self, distance: ArrayLike) -> Flags:
        """Whether the bound is active, so that the task ends at distance ``epsilon``."""
        d = np.asarray(distance, dtype=np.float64)
        return d > self.epsilon * (1.0 + self.stiffness) + self.tension


def _checked(name: str, value: ArrayLike) -> float | Array:
    """Return a float or a read-only array of one value per task, all at least 0."""
    raw = np.asarray(value)
    if raw.dtype.kind not in "iuf" or raw.ndim > 1 or raw.size == 0:
        raise ValueError(
            f"`{name}` must be a number or one number per task; got {value!r}. {_REMEDIES[name]}"
        )
    numbers = raw.astype(np.float64) + 0.0  # no negative zero: equal tethers have equal hashes
    largest = math.inf if name == "epsilon" else np.finfo(np.float64).max
    wrong = np.flatnonzero(~((numbers >= 0) & (numbers <= largest)))  # ~ also catches NaN
    if wrong.size:
        rule = "a distance" if name == "epsilon" else "a finite strength"
        where = f" for task {wrong[0]}" if numbers.ndim else ""
        raise ValueError(
            f"`{name}` is {rule} and must be at least 0; got {numbers.flat[wrong[0]]}{where}. "
            f"{_REMEDIES[name]}"
        )
    if numbers.ndim == 0:
        return float(numbers)
    numbers.flags.writeable = False
    return numbers
