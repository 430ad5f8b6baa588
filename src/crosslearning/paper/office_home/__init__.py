"""The paper's experiment with images: one network per domain, at radii from 0 to ∞.

``run`` trains and stores, ``draw`` draws what is stored.
"""

from crosslearning.paper.office_home.config import ImagesConfig, shipped_config
from crosslearning.paper.office_home.figures import draw
from crosslearning.paper.office_home.progress import Progress
from crosslearning.paper.office_home.reported import reported
from crosslearning.paper.office_home.run import run

__all__ = ["ImagesConfig", "Progress", "draw", "reported", "run", "shipped_config"]
