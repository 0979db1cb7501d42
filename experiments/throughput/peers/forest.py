"""The schedule of a minibatch of trees, as an expert writes it in numpy: leaves first, then level by level."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from experiments.throughput.peers.samples import Sentence

Level = tuple[slice, slice]
"""The rows of a level's nodes, and those of the edges to their children."""


class Forest(NamedTuple):
    """All trees of a minibatch; rows are those of the nodes in the order leaves, deepest level, ..., roots.

    words: of each row. leaves: how many rows are leaves. levels: the inner nodes, children before parents.
    children: the row of the child of each edge. parents: the row of its parent, counted within the parent's level.
    roots: the rows of the sentences' roots.
    """

    words: Any
    leaves: int
    levels: list[Level]
    children: Any
    parents: Any
    roots: Any


def forest_of(sentences: Sequence[Sentence]) -> Forest:
    """Join trees and order their nodes; the level of an inner node is its distance from the root."""
    sizes = np.array([len(sentence.words) for sentence in sentences])
    heads = np.concatenate([sentence.heads for sentence in sentences])
    roots = np.flatnonzero(heads < 0)
    heads = heads + np.repeat(np.cumsum(sizes) - sizes, sizes)
    heads[roots] = -1
    inner = np.zeros(len(heads) + 1, dtype=bool)
    inner[heads] = True  # the root's -1 falls on the place behind the last
    inner = inner[:-1]
    depth = _depths(heads)
    key = np.where(inner, depth.max(initial=0) + 1 - depth, 0)  # 0 for leaves, then the deepest level first
    order = np.argsort(key, kind="stable")
    row = np.empty(len(order), dtype=np.int64)
    row[order] = np.arange(len(order))
    starts = np.flatnonzero(np.diff(key[order], prepend=0))
    starts = np.append(starts, len(order))
    below = order[heads[order] >= 0]
    above = row[heads[below]]
    by_parent = np.argsort(above, kind="stable")
    children, above = row[below[by_parent]], above[by_parent]
    edges = np.searchsorted(above, starts)
    parents = above - np.repeat(starts[:-1], np.diff(edges))
    bounds = zip(starts.tolist(), starts[1:].tolist(), edges.tolist(), edges[1:].tolist())
    words = np.concatenate([sentence.words for sentence in sentences])[order]
    levels = [(slice(a, b), slice(c, d)) for a, b, c, d in bounds]
    return Forest(words, int(starts[0]), levels, children, parents, row[roots])


def _depths(heads: np.ndarray) -> np.ndarray:
    """Return the distance of each node from its root, climbing all trees at once."""
    depth = np.zeros(len(heads), dtype=np.int64)
    climbing = np.flatnonzero(heads >= 0)
    above = heads[climbing]
    while len(climbing):
        depth[climbing] += 1
        above = heads[above]
        going = above >= 0
        climbing, above = climbing[going], above[going]
    return depth
