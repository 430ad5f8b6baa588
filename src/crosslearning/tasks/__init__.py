"""What a task label is, and how rows of tasks are divided."""

from crosslearning.tasks.folds import within_task_folds
from crosslearning.tasks.labels import TaskIndex, check_tasks, split_task_column

__all__ = ["TaskIndex", "check_tasks", "split_task_column", "within_task_folds"]
