"""Pages of other projects that ours link to: inventories for intersphinx, without a network."""

from __future__ import annotations

import zlib
from pathlib import Path

SKLEARN = "https://scikit-learn.org/stable/"
PROJECTS = {
    "matplotlib": "https://matplotlib.org/stable/",
    "numpy": "https://numpy.org/doc/stable/",
    "pandas": "https://pandas.pydata.org/docs/",
    "scipy": "https://docs.scipy.org/doc/scipy/",
    "sklearn": SKLEARN,
}
NAMES = {
    "matplotlib.pyplot.subplots": ("function", "api/_as_gen/$.html"),
    "numpy.linalg.lstsq": ("function", "reference/generated/$.html"),
    "numpy.random.default_rng": ("function", "reference/random/generator.html"),
    "pandas.DataFrame": ("class", "reference/api/$.html"),
    "scipy.linalg.solve_discrete_are": ("function", "reference/generated/$.html"),
    "scipy.linalg.solve_discrete_lyapunov": ("function", "reference/generated/$.html"),
    "sklearn.compose.make_column_transformer": ("function", "modules/generated/$.html"),
    "sklearn.ensemble.HistGradientBoostingClassifier": ("class", "modules/generated/$.html"),
    "sklearn.ensemble.HistGradientBoostingRegressor": ("class", "modules/generated/$.html"),
    "sklearn.linear_model.Ridge": ("class", "modules/generated/$.html"),
    "sklearn.linear_model.RidgeCV": ("class", "modules/generated/$.html"),
    "sklearn.metrics.d2_pinball_score": ("function", "modules/generated/$.html"),
    "sklearn.pipeline.make_pipeline": ("function", "modules/generated/$.html"),
}


def write(folder: Path) -> dict[str, tuple[str, str]]:
    """Write an inventory for each project, and return the mapping of intersphinx."""
    folder.mkdir(parents=True, exist_ok=True)
    mapping = {}
    for project, url in PROJECTS.items():
        lines = [
            f"{name} py:{kind} 1 {page.replace('$', name)} -\n"
            for name, (kind, page) in NAMES.items()
            if name.startswith(f"{project}.")
        ]
        head = f"# Sphinx inventory version 2\n# Project: {project}\n# Version: stable\n"
        head += "# The remainder of this file is compressed using zlib.\n"
        path = folder / f"{project}.inv"
        path.write_bytes(head.encode() + zlib.compress("".join(lines).encode()))
        mapping[project] = (url, str(path))
    return mapping
