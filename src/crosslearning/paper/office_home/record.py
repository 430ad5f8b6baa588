"""What one run leaves behind: which images were taken for what, and where the models ended."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from crosslearning.files import replacing

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["PARTS", "Record", "plain", "record_name"]

PARTS = ("train", "validation", "test")


@dataclass(frozen=True, eq=False)
class Record:
    """One finished run.

    Attributes
    ----------
    epsilon, seed : float, int
        Which run it is.
    images : array of int of shape (n_domains, 3)
        Images to train on, to validate on and to test on.
    validation, test : array of int of shape (n_domains, n_categories, n_categories)
        Number of images of a category (second axis) that were taken for another (third).
    distances, pulls : array of shape (n_domains,)
        Distances to the centre at the end, and how strongly the last projection pulled.
    loss : list of float
        Training loss of each epoch.
    seconds : float
        Time of the epochs; starting, saving and evaluating the networks are not in it.
    unresolved : bool
        Whether the radius is below what the numbers of the network resolve.
    """

    epsilon: float
    seed: int
    images: NDArray[np.int64]
    validation: NDArray[np.int64]
    test: NDArray[np.int64]
    distances: NDArray[np.float64]
    pulls: NDArray[np.float64]
    loss: list[float]
    seconds: float
    unresolved: bool

    def write(self, path: Path) -> None:
        """Store the run; of the counts, those that are not 0."""
        content = plain(vars(self)) | {
            "validation": _sparse(self.validation),
            "test": _sparse(self.test),
        }
        with replacing(path) as temporary:
            temporary.write_text(json.dumps(content) + "\n")

    @classmethod
    def read(cls, path: Path, n_categories: int) -> Record:
        """Read what :meth:`write` wrote."""
        try:
            content = json.loads(path.read_text())
            images = np.array(content["images"], dtype=np.int64)
            shape = (len(images), n_categories, n_categories)
            content |= {part: _dense(content[part], shape) for part in ("validation", "test")}
            content |= {name: np.array(content[name], float) for name in ("distances", "pulls")}
            content |= {"images": images, "epsilon": float(content["epsilon"])}
            return cls(**content)
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise ValueError(
                f"{path} is not a finished run of this experiment ({error}). "
                "Delete it to train that run again."
            ) from error


def record_name(epsilon: float, seed: int) -> str:
    """Name of the files of a run, without extension.

    Examples
    --------
    >>> record_name(1e-6, 2)
    'epsilon-1e-06-seed-2'
    """
    return f"epsilon-{float(epsilon)!r}-seed-{seed}"


def plain(value: Any) -> Any:
    """Turn arrays and numbers into what JSON has: "inf" for ∞, null for what is missing."""
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, float):
        return None if np.isnan(value) else "inf" if np.isinf(value) else float(f"{value:.6g}")
    return value


def _sparse(counts: NDArray[np.int64]) -> list[list[int]]:
    where = np.nonzero(counts)
    return np.column_stack([*where, counts[where]]).tolist()  # type: ignore[no-any-return]


def _dense(rows: list[list[int]], shape: tuple[int, int, int]) -> NDArray[np.int64]:
    counts = np.zeros(shape, dtype=np.int64)
    *where, values = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    counts[tuple(where)] = values
    return counts
