"""The exact projection of N vectors and their centre, and the proximal step of any tether."""

from crosslearning.projection.api import project, prox
from crosslearning.projection.certificate import Certificate, certificate
from crosslearning.projection.enclosing_ball import smallest_enclosing_ball
from crosslearning.projection.free_center import nearest_center
from crosslearning.projection.gram import GramProjection, prox_gram
from crosslearning.projection.result import Projection, Status
from crosslearning.projection.subgradient import subgradient_iterates

__all__ = [
    "Certificate",
    "GramProjection",
    "Projection",
    "Status",
    "certificate",
    "nearest_center",
    "project",
    "prox",
    "prox_gram",
    "smallest_enclosing_ball",
    "subgradient_iterates",
]
