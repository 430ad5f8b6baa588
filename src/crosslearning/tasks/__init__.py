"""Task labels, and folds that divide every task."""

from crosslearning.tasks.folds import within_task_folds
from crosslearning.tasks.labels import TaskIndex, check_tasks, split_task_column

__all__ = ["TaskIndex", "check_tasks", "split_task_column", "within_task_folds"]
