"""What is tried on a table: linear models of several bases, and learners with fits of their own."""

from crosslearning.tables.learners.learner import Learner
from crosslearning.tables.learners.trees import Boosting, Forest

LEARNERS: dict[str, type[Learner]] = {"trees": Boosting, "forest": Forest}
