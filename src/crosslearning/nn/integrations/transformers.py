"""A callback for the Trainer of Hugging Face's transformers."""

from typing import Any

from transformers import TrainerCallback

from crosslearning.nn.integrations import project_inside, task_models

__all__ = ["Project"]


class Project(TrainerCallback):
    """Projects the :class:`~crosslearning.nn.TaskModels` inside the trained model after each step.

    Pass it to the trainer: ``Trainer(model, callbacks=[Project()], ...)``.
    """

    def on_train_begin(self, *_: Any, model: Any, **__: Any) -> None:
        """Refuse a model without TaskModels."""
        task_models(model)

    def on_optimizer_step(self, *_: Any, model: Any, optimizer: Any, **__: Any) -> None:
        """Project after the step, before gradients are set to zero."""
        project_inside(model, optimizer)
