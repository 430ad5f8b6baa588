"""The chart of a training history."""

import pytest
import torch

from crosslearning.nn import TaskModels, fit


def test_a_history_shows_its_losses():
    torch.manual_seed(0)
    data = {task: (torch.randn(8, 2), torch.randn(8, 1)) for task in "ab"}
    models = TaskModels(torch.nn.Linear(2, 1), data, epsilon=0.1)
    loss = torch.nn.functional.mse_loss
    history = fit(models, data, loss, lambda p: torch.optim.SGD(p, lr=0.01), epochs=3)
    (rows,) = history.plot().spec["datasets"].values()
    assert [row["loss"] for row in rows] == pytest.approx(list(history.epochs["loss"]), rel=1e-6)
