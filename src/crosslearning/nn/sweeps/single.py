"""One run of a sweep after the other."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from crosslearning.nn.evaluation import score_sources
from crosslearning.nn.seeds import build, derive
from crosslearning.nn.task_models import TaskModels
from crosslearning.nn.training import fit

if TYPE_CHECKING:
    from pathlib import Path

    from crosslearning.nn.history import History
    from crosslearning.nn.sweeps.plan import Plan
    from crosslearning.nn.sweeps.settings import Setting

__all__ = ["train_single"]


def train_single(
    plan: Plan, setting: Setting, seed: int, engine: Any, checkpoint: Path | None
) -> list[dict[str, Any]]:
    """Train one setting with one seed, and return its rows of the table, task by task."""
    models = TaskModels(
        build(plan.module, seed),
        plan.data,
        tether=setting.tether,
        center_weight=plan.center_weight,
    )
    run = setting.run(seed)
    history = _fit(plan, models, run, seed, engine, checkpoint)
    if setting.fine_tuned:
        models = TaskModels(dict(models.items()), epsilon=math.inf, same_start=False)
        second = None if checkpoint is None else checkpoint.with_suffix(".fine.safetensors")
        history = _fit(plan, models, run, derive(seed, "fine-tuned"), engine, second)
    last = history.records[-1]
    scores = score_sources(models, plan.test_sources(), plan.judge, plan.rows_at_once)
    distances = models.distances()
    measured = [{}] * len(models) if plan.measure is None else plan.measure(run, models, history)
    return [
        {
            "loss": float(last.losses[row]),
            "score": scores[task],
            "distance": float(distances[row]),
            "pull": float(last.pulls[row]),
            **more,
        }
        for row, (task, more) in enumerate(zip(models.tasks, measured, strict=True))
    ]


def _fit(
    plan: Plan,
    models: TaskModels,
    run: dict[str, Any],
    seed: int,
    engine: Any,
    checkpoint: Path | None,
) -> History:
    told = plan.on_epoch
    return fit(
        models,
        plan.data,
        plan.loss,
        plan.optimizer,
        plan.epochs,
        batch_size=plan.batch_size,
        sampling=plan.sampling,
        project_every=plan.project_every,
        scheduler=plan.scheduler,
        augment=plan.augment,
        callbacks=() if told is None else [lambda record: told(run, record)],
        engine=engine,
        seed=seed,
        checkpoint=checkpoint,
        checkpoint_every=None if checkpoint is None else plan.checkpoint_every,
    )
