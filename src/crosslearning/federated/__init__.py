"""Data that must not move: tasks that are clients of a Flower server.

:class:`CrossLearning` and :func:`client_app` train networks; :func:`statistics_app` and
:func:`collect_statistics` fit linear models in one round.
"""

from typing import TYPE_CHECKING, Any

from crosslearning.extras import lazy, require

require("crosslearning.federated", "flwr")

if TYPE_CHECKING:
    from crosslearning.federated._client import client_app, parameters_of
    from crosslearning.federated._strategy import CrossLearning
    from crosslearning.federated.statistics import collect_statistics, statistics_app

__all__ = ["CrossLearning", "client_app", "collect_statistics", "parameters_of", "statistics_app"]

_NETWORKS = {"_client": "client_app parameters_of", "_strategy": "CrossLearning"}
_import, __dir__ = lazy(globals(), {**_NETWORKS, "statistics": "collect_statistics statistics_app"})


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is asked for: linear models need no torch."""
    if any(name in names.split() for names in _NETWORKS.values()):
        require(f"crosslearning.federated.{name}", "torch")
    return _import(name)
