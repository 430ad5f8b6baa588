"""Training and test images, stratified by domain and category, with groups kept together."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crosslearning.datasets.images import ImageData, Indices
from crosslearning.images.settings import TrainingSettings

PARTS = ("train", "validation", "test")
_LEAST_GAIN = 1e-9  # above the rounding of the sums that are compared


def split(
    data: ImageData,
    train: float = 0.8,
    *,
    seed: int = 0,
    train_fraction: float = 1.0,
    within: ArrayLike | None = None,
) -> tuple[Indices, Indices]:
    """Choose training and test images; return their sorted indices.

    Images of one group are in the same part, even across domains. As far as groups allow, every
    category of every domain is divided alike.

    Parameters
    ----------
    data : ImageData
        Images of `load_pictures32` or `ImageDomains`.
    train : float, default=0.8
        Share of the training part, between 0 and 1.
    seed : int, default=0
        Random seed; the split does not depend on the order of the images.
    train_fraction : float, default=1.0
        Share of the training images to keep of every category of every domain, at least one image;
        smaller fractions are subsets of larger ones.
    within : array-like of int, optional
        Split only these images, as for a validation part.

    Examples
    --------
    >>> from crosslearning.datasets import load_pictures32
    >>> from crosslearning.images import split
    >>> pictures = load_pictures32()
    >>> train, test = split(pictures)
    >>> len(train), len(test), set(pictures.groups[train]) & set(pictures.groups[test])
    (4462, 1128, set())
    >>> fit, validation = split(pictures, seed=1, within=train)
    """
    if not 0 < train < 1:
        raise ValueError(f"`train` is the share of the training part, in (0, 1); got {train}.")
    if not 0 < train_fraction <= 1:
        raise ValueError(
            "`train_fraction` is the share of the training images to keep and must be above 0 and "
            f"at most 1; got {train_fraction}."
        )
    rows = np.arange(len(data)) if within is None else np.sort(np.asarray(within, np.intp))
    cells, group = _cells(data, rows), np.unique(data.groups[rows], return_inverse=True)[1]
    in_test = _choose_groups(group, cells, 1 - train, seed)[group]
    training, test = rows[~in_test], rows[in_test]
    cells = _cells(data, training)
    return training[_fraction(cells, data.groups[training], train_fraction, seed)], test


def divide(settings: TrainingSettings, data: ImageData, seed: int) -> list[list[Indices]]:
    """Return the indices of each of the `PARTS` by domain; validation is part of training."""
    for name, values in (("domains", data.domains), ("categories", data.categories)):
        if len(values) < 2:
            raise ValueError(
                f"Training needs two or more {name}; there is only {values[0]!r}. Folders are "
                "domain/category/*.jpg."
            )
    training, test = split(data, settings.train, seed=seed, train_fraction=settings.train_fraction)
    train, validation = split(data, 1 - settings.validation, seed=seed, within=training)
    parts = [
        [rows[data.domain_codes[rows] == k] for k in range(len(data.domains))]
        for rows in (train, validation, test)
    ]
    for name, part in zip(PARTS, parts, strict=True):
        for domain, rows in zip(data.domains, part, strict=True):
            if not len(rows):
                raise ValueError(
                    f"Every domain needs images in every part; {domain!r} has none in the {name} "
                    "part. Add images or remove the domain."
                )
    return parts


def _choose_groups(group: Indices, cell: Indices, share: float, seed: int) -> NDArray[np.bool_]:
    """Choose test groups: flip groups in random order until no single flip improves the shares.

    The criterion is the sum over cells, the categories of a domain, of (excess in test)² / images.
    """
    sizes = np.bincount(cell).tolist()
    excess = [-share * size for size in sizes]
    members: list[list[tuple[int, int]]] = [[] for _ in range(group.max(initial=-1) + 1)]
    pairs, counts = np.unique(np.stack([group, cell]), axis=1, return_counts=True)
    for g, c, count in zip(*pairs.tolist(), counts.tolist(), strict=True):
        members[g].append((c, count))
    sign = [1] * len(members)  # whether a flip adds images to the test part or removes them
    order = np.random.default_rng(seed).permutation(len(members)).tolist()
    before: list[int] = []
    while before != sign:
        before = [*sign]
        for g in order:
            change = sum(k * (sign[g] * 2 * excess[c] + k) / sizes[c] for c, k in members[g])
            if change < -_LEAST_GAIN:
                for c, k in members[g]:
                    excess[c] += sign[g] * k
                sign[g] = -sign[g]
    return np.array(sign) < 0


def _fraction(cell: Indices, group: Indices, fraction: float, seed: int) -> NDArray[np.bool_]:
    """Choose the first rows of each cell in random order."""
    order = np.lexsort((group, cell))  # so that the order of the rows does not matter
    order = order[np.lexsort((np.random.default_rng([seed, 1]).random(len(cell)), cell[order]))]
    sizes = np.bincount(cell)
    rank = np.empty(len(cell), dtype=np.intp)
    rank[order] = np.arange(len(cell)) - (np.cumsum(sizes) - sizes)[cell[order]]
    return np.asarray(rank < np.maximum(1, np.rint(fraction * sizes))[cell])


def _cells(data: ImageData, rows: Indices) -> Indices:
    """Return a code for each pair of domain and category."""
    pairs = np.stack([data.domain_codes[rows], data.category_codes[rows]])
    return np.unique(pairs, axis=1, return_inverse=True)[1]
