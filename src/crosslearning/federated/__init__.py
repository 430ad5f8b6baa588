"""Data that must not move: tasks that are clients of a Flower server.

:class:`CrossLearning` and :func:`client_app` train networks; :func:`statistics_app` and
:func:`collect_statistics` fit linear models in one round.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from crosslearning.extras import require

require("crosslearning.federated", "flwr")

if TYPE_CHECKING:
    from crosslearning.federated._client import client_app, parameters_of
    from crosslearning.federated._strategy import CrossLearning
    from crosslearning.federated.statistics import collect_statistics, statistics_app

__all__ = ["CrossLearning", "client_app", "collect_statistics", "parameters_of", "statistics_app"]

_MODULES = {"CrossLearning": "_strategy", "client_app": "_client", "parameters_of": "_client"}


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is asked for: linear models need no torch."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _MODULES:
        require(f"crosslearning.federated.{name}", "torch")
    module = import_module(f"{__name__}.{_MODULES.get(name, 'statistics')}")
    return globals().setdefault(name, getattr(module, name))
