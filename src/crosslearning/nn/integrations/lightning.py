"""A callback for Lightning's Trainer."""

from typing import Any

try:
    from lightning.pytorch import Callback
except ImportError:
    from pytorch_lightning import Callback

from crosslearning.nn.integrations import project_inside, task_models

__all__ = ["Project"]


class Project(Callback):
    """Projects the :class:`~crosslearning.nn.TaskModels` inside a LightningModule after each step.

    Pass it to the trainer: ``Trainer(callbacks=[Project()])``. It works with accumulated gradients,
    automatic optimization and one optimizer.
    """

    _step = 0

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin at the current step, which is not 0 in a run that resumes."""
        task_models(pl_module)
        self._step = trainer.global_step

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any, **__: Any) -> None:
        """Project if the batch completed a step of the optimizer."""
        if trainer.global_step != self._step:
            self._step = trainer.global_step
            project_inside(pl_module, trainer.optimizers[0])
