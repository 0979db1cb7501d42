"""The schedules of a minibatch of trees, as an expert writes them in numpy: leaves first, then level by level."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from experiments.throughput.peers.samples import Phrases, Sentence

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


class Binary(NamedTuple):
    """All binary trees of a minibatch, rows as in `Forest`.

    words: of each leaf. levels: their rows. left, right: the rows of the parts of each inner node.
    rows: the row of each phrase, and labels: the class of each row.
    """

    words: Any
    leaves: int
    levels: list[slice]
    left: Any
    right: Any
    rows: Any
    labels: Any


def forest_of(sentences: Sequence[Sentence]) -> Forest:
    """Join trees and order their nodes."""
    sizes = np.array([len(sentence.words) for sentence in sentences])
    heads = np.concatenate([sentence.heads for sentence in sentences])
    roots = np.flatnonzero(heads < 0)
    heads = heads + np.repeat(np.cumsum(sizes) - sizes, sizes)
    heads[roots] = -1
    order, row, starts = _ordered(heads)
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


def binary_of(samples: Sequence[Phrases]) -> Binary:
    """Join binary trees and order their phrases."""
    sizes = np.array([len(sample.left) for sample in samples])
    offsets = np.cumsum(sizes) - sizes
    left = np.concatenate([sample.left for sample in samples])
    right = np.concatenate([sample.right for sample in samples])
    inner = np.flatnonzero(left >= 0)
    shift = np.repeat(offsets, sizes)[inner]
    left_of, right_of = left[inner] + shift, right[inner] + shift
    heads = np.full(len(left), -1)
    heads[left_of] = heads[right_of] = inner
    order, row, starts = _ordered(heads)
    leaves = int(starts[0])
    place = np.empty(len(left), dtype=np.int64)
    place[inner] = np.arange(len(inner))
    at = place[order[leaves:]]
    # The leaves of a sentence end in the order of its words, and rows keep the order of phrases among leaves.
    words = np.concatenate([sample.words for sample in samples])
    levels = [slice(a, b) for a, b in zip(starts.tolist(), starts[1:].tolist())]
    labels = np.concatenate([sample.labels for sample in samples])[order]
    return Binary(words, leaves, levels, row[left_of[at]], row[right_of[at]], row, labels)


def _ordered(heads: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the nodes in the order of their rows, the row of each node, and where each level starts and the last ends.

    The level of an inner node is its distance from the root.
    """
    inner = np.zeros(len(heads) + 1, dtype=bool)
    inner[heads] = True  # the root's -1 falls on the place behind the last
    depth = depths_of(heads)
    key = np.where(inner[:-1], depth.max(initial=0) + 1 - depth, 0)  # 0: a leaf, then the deepest level first
    order = np.argsort(key, kind="stable")
    row = np.empty(len(order), dtype=np.int64)
    row[order] = np.arange(len(order))
    starts = np.flatnonzero(np.diff(key[order], prepend=0))
    return order, row, np.append(starts, len(order))


def depths_of(heads: np.ndarray) -> np.ndarray:
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
