"""What is tried on a table: linear models of several bases, and learners with fits of their own."""

from crosslearning.tables.learners.boosting import Boosting
from crosslearning.tables.learners.forest import Forest
from crosslearning.tables.learners.learner import Learner

LEARNERS: dict[str, type[Learner]] = {"trees": Boosting, "forest": Forest}
