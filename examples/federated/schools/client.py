"""A school: its pupils, and an ordinary torch training function."""

import numpy as np
import torch
from torch import nn

from crosslearning.datasets import load_hsb82
from crosslearning.federated import client_app


def make_model():
    """Return a network with the same initial values everywhere."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))


def pupils(settings):
    """Return the rows of the school with this client's number."""
    data = load_hsb82()
    schools = np.asarray(data.tasks)
    rows = schools == np.unique(schools)[int(settings["partition-id"])]
    X, y = np.asarray(data.X, dtype=np.float32), np.asarray(data.y, dtype=np.float32)
    X, y = (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()
    return torch.from_numpy(X[rows]), torch.from_numpy(y[rows, None])


def train(model, settings):
    """Take some steps on this school's rows."""
    x, y = pupils(settings)
    optimizer = torch.optim.SGD(model.parameters(), lr=settings["lr"])
    for _ in range(settings["steps"]):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    return {"loss": loss.item(), "num-examples": len(y)}


def evaluate(model, settings):
    """Evaluate this school's model."""
    x, y = pupils(settings)
    with torch.no_grad():
        return {"mse": nn.functional.mse_loss(model(x), y).item(), "num-examples": len(y)}


app = client_app(make_model, train, evaluate)
