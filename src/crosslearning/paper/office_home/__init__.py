"""The paper's experiment with images: one network per domain, at radii from 0 to ∞.

It is `crosslearning.images.train` with the paper's settings; beside its results stand what the
paper reports for Office-Home, and the improvement over its two baselines, which it calls
consensus (ε = 0) and agnostic (ε = ∞).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crosslearning.paper.office_home.config import shipped_config
from crosslearning.paper.office_home.improvement import improvement
from crosslearning.paper.office_home.reported import reported

if TYPE_CHECKING:
    import os

    from crosslearning.datasets import ImageData
    from crosslearning.images import TrainingSettings

__all__ = ["improvement", "reported", "run", "shipped_config"]


def run(
    data: ImageData, folder: str | os.PathLike[str], config: TrainingSettings, **options: Any
) -> dict[str, Any]:
    """Run the experiment and store what comes out in ``folder``.

    Parameters
    ----------
    data, folder, config
        Images, where to, and settings, as in `crosslearning.images.train`.
    **options
        Further arguments of that function, such as ``name`` and ``progress``.

    Returns
    -------
    dict
        The content of ``results.json``, with ``improvement`` and ``reported``.
    """
    from crosslearning.images import train

    def beside_the_paper(results: dict[str, Any]) -> dict[str, Any]:
        return {"improvement": improvement(results), "reported": reported()}

    options = {"keep_models": False, **options}
    return train(data, folder, config, more=beside_the_paper, **options)
