"""The schedule of a minibatch of trees in which a level needs only the level below: leaves stay at their own depth.

`forest` runs all leaves first and writes states in place; this one suits programs that autograd differentiates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from experiments.throughput.peers.forest import depths_of


class Levels(NamedTuple):
    """All trees of a minibatch by distance from the root, the deepest level first.

    The pool of a level holds the states of its leaves, then those of its inner nodes. There is one level more than
    there are `inner` counts: the deepest has leaves alone.

    order: the nodes, all leaves, then all inner nodes, each the deepest first. leaves, inner, edges: their numbers in
    each level, edges to the level below. children: the place of each edge's child in the pool of the level below,
    siblings in their order. parents: the place of its parent among the inner nodes of its level. roots: the places
    of the roots in the last pool. row: the place of each node in `order`.
    """

    order: Any
    leaves: list[int]
    inner: list[int]
    edges: list[int]
    children: Any
    parents: Any
    roots: Any
    row: Any


def levels_of(heads: np.ndarray) -> Levels:
    """Lay out trees from the head of each of their nodes, -1 at a root."""
    inside = np.flatnonzero(heads >= 0)
    is_inner = np.zeros(len(heads), dtype=bool)
    is_inner[heads[inside]] = True
    depth = depths_of(heads)
    deepest = int(depth.max())
    order = np.lexsort((-depth, is_inner))
    row = np.empty(len(order), dtype=np.int64)
    row[order] = np.arange(len(order))
    leaves = _counts(depth[~is_inner], deepest)
    inner = _counts(depth[is_inner], deepest)
    level = deepest - depth
    place = row - np.where(is_inner, leaves.sum() + _starts(inner)[level], _starts(leaves)[level])
    children = inside[np.argsort(row[heads[inside]], kind="stable")]
    in_pool = place + np.where(is_inner, leaves[level], 0)
    return Levels(
        order,
        leaves.tolist(),
        inner[1:].tolist(),
        _counts(depth[heads[inside]], deepest)[1:].tolist(),
        in_pool[children],
        place[heads[children]],
        in_pool[heads < 0],
        row,
    )


def joined(heads: Sequence[np.ndarray]) -> np.ndarray:
    """Join trees: heads count from the first node of all."""
    sizes = np.array([len(one) for one in heads])
    found = np.concatenate(heads)
    return np.where(found < 0, -1, found + np.repeat(np.cumsum(sizes) - sizes, sizes))


def _counts(depth: np.ndarray, deepest: int) -> np.ndarray:
    """Return the number of nodes of each depth, the deepest first."""
    return np.bincount(depth, minlength=deepest + 1)[::-1]


def _starts(counts: np.ndarray) -> np.ndarray:
    return np.cumsum(counts) - counts
