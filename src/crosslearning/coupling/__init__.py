"""The exact projection of N vectors and their centre, and the proximal step of any tether."""

from typing import TYPE_CHECKING

from crosslearning.extras import lazy

if TYPE_CHECKING:
    from crosslearning.coupling._certificate import Certificate, certificate
    from crosslearning.coupling._enclosing_ball import smallest_enclosing_ball
    from crosslearning.coupling._gram import (
        GramProjection,
        couple,
        prox_gram,
        subgradient_iterates,
    )
    from crosslearning.coupling._members import Coupling, Members, Projection, Status, Storage
    from crosslearning.coupling._newton import nearest_center
    from crosslearning.coupling._project import project, prox

__all__ = [
    "Certificate", "Coupling", "GramProjection", "Members", "Projection", "Status", "Storage",
    "certificate", "couple", "nearest_center", "project", "prox", "prox_gram",
    "smallest_enclosing_ball", "subgradient_iterates",
]  # fmt: skip

__getattr__, __dir__ = lazy(
    globals(),
    {
        "_certificate": "Certificate certificate",
        "_enclosing_ball": "smallest_enclosing_ball",
        "_gram": "GramProjection couple prox_gram subgradient_iterates",
        "_members": "Coupling Members Projection Status Storage",
        "_newton": "nearest_center",
        "_project": "project prox",
    },
)
