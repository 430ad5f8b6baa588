"""Small data, a network and a short training, for the tests of `crosslearning.nn.fit`."""

from tests.support.networks import TASKS, TaskModels, nn, torch

from crosslearning.nn import fit  # isort: skip

SIZES = dict(zip(TASKS, (13, 8, 5), strict=True))
LOSS = nn.CrossEntropyLoss()


def rows(sizes=SIZES, seed=0):
    generator = torch.Generator().manual_seed(seed)
    data = {}
    for k, (task, size) in enumerate(sizes.items()):
        x = torch.randn(size, 4, generator=generator) + k
        data[task] = x, (x[:, 0] + 0.5 * x[:, 1] > k).long()
    return data


def net(seed=0, dropout=0.5):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Dropout(dropout), nn.Linear(6, 2))


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def trained(epsilon=0.3, data=None, tasks=TASKS, module=net, **options):
    """Models after some epochs, and their history."""
    data = rows() if data is None else data
    models = TaskModels(module(), tasks, epsilon=epsilon)
    given = {"epochs": 3, "batch_size": 4, "engine": "loop", "optimizer": sgd, **options}
    history = fit(models, {task: data[task] for task in tasks}, LOSS, **given)
    return models, history


def loaders(shuffle=True, **options):
    return {
        task: torch.utils.data.DataLoader(
            torch.utils.data.TensorDataset(*pair), batch_size=4, shuffle=shuffle, **options
        )
        for task, pair in rows().items()
    }
