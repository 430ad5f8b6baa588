"""What a comparison says about sharing, as a value."""

from enum import Enum


class Effect(Enum):
    """What a comparison says about sharing; the best rival decides."""

    NOTHING = "nothing to compare"  # no task has a score of every method
    HELPS = "sharing helps"  # significantly better than the best rival
    DIFFER = "tasks differ"  # significantly better than one pooled model, not than separate ones
    POOL = "one model for all does as well"  # a tie, or significantly better than separate ones
    SAME = "sharing makes no difference"  # exactly as good as another method, or as all
    HURTS = "sharing does not help"  # significantly worse, or a tie with better separate models
    UNDECIDED = "cannot tell whether sharing helps"
