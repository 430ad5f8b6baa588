"""Moments of the probabilities of classes whose scores are Gaussian, by quasi-Monte Carlo."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from crosslearning.tether import Array, Indices

_WIDE = 0.25  # sum of the variances of scores from which errors with few nodes exceed 0.001
_FEW, _MANY = 64, 512  # nodes
_AT_ONCE = 2**16  # numbers in temporary arrays, which stay in the cache
_ROUNDING, _TINY = 1e-13, 1e-200  # added to covariances, so that they are positive definite


class Nodes(NamedTuple):
    """Points and masses that stand for a standard normal distribution."""

    points: Array
    masses: Array


@cache
def normal_nodes(dimension: int, n_nodes: int) -> Nodes:
    """Quasi-random nodes in antithetic pairs, with the covariance I.

    A Kronecker sequence with powers of the generalised golden ratio, the root of
    x^(dimension + 1) = x + 1. Every other point is twice as far out, with less mass, for the sake
    of improbable classes (importance sampling from a mixture).
    """
    ratio = np.roots([1.0, *np.zeros(dimension - 1), -1.0, -1.0]).real.max()
    steps, number = ratio ** -np.arange(1.0, dimension + 1.0), np.arange(n_nodes // 2)
    half = (1.0 + number % 2)[:, None] * ndtri((0.5 + np.outer(number, steps)) % 1.0)
    points = np.vstack([half, -half])
    masses = 1.0 / (1.0 + 2.0**-dimension * np.exp(0.375 * np.sum(points**2, axis=1)))
    masses /= masses.sum()
    root = np.linalg.cholesky(points.T @ (masses[:, None] * points))
    return Nodes(np.asarray(np.linalg.solve(root, points.T).T), masses)


def softmax_means(basis: Array, scores: Array, covariance: Array) -> Array:
    """Mean probabilities (rows, classes), given scores (rows, n_scores) and their covariances.

    The basis maps scores to classes.
    """
    means = np.empty((len(scores), len(basis)))
    for rows, nodes in _by_width(covariance):
        mean = np.zeros((len(basis), len(rows)))
        for masses, p in _drawn(basis, scores[rows], covariance[rows], nodes):
            mean += np.tensordot(masses, p, 1)
        means[rows] = mean.T
    return means


def softmax_moments(basis: Array, scores: Array, covariance: Array) -> tuple[Array, Array]:
    """Mean probabilities, and the means of their products (rows, classes, classes)."""
    n_rows, k = len(scores), len(basis)
    means, products = np.empty((n_rows, k)), np.empty((n_rows, k, k))
    for rows, nodes in _by_width(covariance):
        mean, product = np.zeros((k, len(rows))), np.zeros((k, k, len(rows)))
        for masses, p in _drawn(basis, scores[rows], covariance[rows], nodes):
            weighted = masses[:, None, None] * p
            mean += weighted.sum(axis=0)
            product += np.einsum("njr,nkr->jkr", weighted, p)
        means[rows], products[rows] = mean.T, np.moveaxis(product, -1, 0)
    return means, products


def _by_width(covariance: Array) -> Iterator[tuple[Indices, Nodes]]:
    """Rows with narrow and with wide distributions of scores, and nodes for them."""
    dimension = covariance.shape[-1]
    wide = np.einsum("rqq->r", covariance) > _WIDE
    for which, n_nodes in ((~wide, _FEW), (wide, _MANY)):
        if which.any():
            yield np.flatnonzero(which), normal_nodes(dimension, n_nodes)


def _drawn(
    basis: Array, scores: Array, covariance: Array, nodes: Nodes
) -> Iterator[tuple[Array, Array]]:
    """Masses, and probabilities (nodes, classes, rows), of some nodes at a time.

    The first coordinates of a node are contrasts between the likeliest classes: these matter most,
    and nothing depends on how classes are numbered.
    """
    middle = scores @ basis.T
    turn = basis.T @ basis[np.argsort(-middle, axis=-1)]
    turned = turn @ covariance @ turn.swapaxes(1, 2)
    least = np.einsum("rqq->r", turned) * _ROUNDING + _TINY
    factor = np.linalg.cholesky(turned + least[:, None, None] * np.eye(basis.shape[1]))
    root = np.ascontiguousarray((basis @ turn.swapaxes(1, 2) @ factor).transpose(2, 1, 0))
    middle = np.ascontiguousarray(middle.T)
    size = max(_AT_ONCE // middle.size, 1)
    for start in range(0, len(nodes.masses), size):
        some = slice(start, start + size)
        p = np.tensordot(nodes.points[some], root, 1) + middle
        p -= p.max(axis=1, keepdims=True)
        np.exp(p, out=p)
        p /= p.sum(axis=1, keepdims=True)
        yield nodes.masses[some], p
