"""Small networks and data for the tests of `crosslearning.nn`."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra `torch` is not installed")
torch.set_num_threads(1)

from torch import nn  # noqa: E402

from crosslearning.nn import TaskModels, architectures  # noqa: E402

TASKS = ("art", "clipart", "product")


def network(seed: int = 0) -> nn.Module:
    """Two named parts, with BatchNorm between."""
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.ReLU()), nn.Linear(5, 2)
    )


def scatter(models: TaskModels, scale: float = 1.0, seed: int = 1) -> None:
    """Move each task by its own random amount, as a gradient step would."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in models.parameters():
            if parameter.requires_grad:
                step = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
                parameter.add_((scale * step).to(parameter.dtype))


def vector(module: nn.Module, prefix: str = "") -> np.ndarray:
    """Parameters of a module whose names begin so, as one vector."""
    parts = [
        p.detach().double().flatten() for n, p in module.named_parameters() if n.startswith(prefix)
    ]
    return torch.cat(parts).numpy()


def vectors(models: TaskModels, prefix: str = "") -> tuple[np.ndarray, np.ndarray]:
    """Tasks as rows, and the centre."""
    tasks = [vector(models[task], prefix) for task in models]
    return np.stack(tasks), vector(models.center, prefix)


def snapshot(models: TaskModels) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in models.state_dict().items()}


def assert_equal_states(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> None:
    assert left.keys() == right.keys()
    assert [name for name in left if not torch.equal(left[name], right[name])] == []


def half_frozen(num_classes: int) -> nn.Module:
    """A network with weights of its own, of which only the classifier is trained."""
    module = architectures.small_cnn(num_classes)
    generator = torch.Generator().manual_seed(7)
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.1, generator=generator)
    module.features.requires_grad_(False)
    return module


def two_numbers(num_classes: int) -> nn.Module:  # noqa: ARG001
    """A network that ignores how many categories there are."""
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2))
