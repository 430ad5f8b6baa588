"""Train related tasks together, each with its own model, none farther than ε from a common centre.

>>> from crosslearning import project
>>> project([[4.0, 0.0], [0.0, 0.0], [-1.0, 0.0]], epsilon=2.0).center
array([1.5, 0. ])
"""

from crosslearning.exceptions import ConvergenceWarning
from crosslearning.projection import Projection, Status, project, prox, smallest_enclosing_ball
from crosslearning.tether import Tether

__version__ = "0.1.0"

__all__ = [
    "ConvergenceWarning",
    "Projection",
    "Status",
    "Tether",
    "project",
    "prox",
    "smallest_enclosing_ball",
]
