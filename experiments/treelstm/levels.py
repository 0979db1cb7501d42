"""The schedule that an expert writes by hand: which rows of which level feed which rows of the next.

Nodes are grouped by their distance from the root, so the children of one level are exactly the level below.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from experiments.data.trees import Sentence


@dataclass
class Level:
    """One level: its inner nodes stand before its leaves, ordered by their number of children."""

    inner: int
    leaves: int
    blocks: list[tuple[int, int]]  # (number of children, inner nodes that have this many)

    @property
    def children(self) -> int:
        """The number of nodes in the level below."""
        return sum(arity * count for arity, count in self.blocks)


@dataclass
class Plan:
    """Levels, the deepest first, and all indices in one array, in the order in which the levels use them.

    For each level: the words of inner nodes, the words of leaves, then, for the children in the order
    (number of siblings, position among them, parent), their rows below and the rows of their parents here.
    At the end, the root of each sentence as a row of the last level.
    """

    levels: list[Level]
    indices: np.ndarray


@dataclass
class _Forest:
    """All trees of a minibatch as flat arrays over their nodes."""

    words: np.ndarray
    heads: np.ndarray  # the parent's position, -1 at a root
    depth: np.ndarray  # distance from the root
    arity: np.ndarray
    rank: np.ndarray  # position among the siblings


def plan(sentences: Sequence[Sentence]) -> Plan:
    """Lay a minibatch out level by level."""
    forest = _forest(sentences)
    is_leaf = forest.arity == 0
    order = np.lexsort((forest.arity, is_leaf, -forest.depth))
    starts = np.searchsorted(-forest.depth[order], -np.arange(forest.depth.max(), -2, -1))
    row = np.empty(len(order), dtype=np.int64)  # of each node in its level
    row[order] = np.arange(len(order)) - np.repeat(starts[:-1], np.diff(starts))
    levels, indices = [], []
    below = order[:0]
    for start, stop in zip(starts[:-1], starts[1:]):
        nodes = order[start:stop]
        inner = nodes[~is_leaf[nodes]]
        arities, counts = np.unique(forest.arity[inner], return_counts=True)
        levels.append(Level(len(inner), len(nodes) - len(inner), list(zip(arities.tolist(), counts.tolist()))))
        heads = forest.heads[below]
        gathered = np.lexsort((row[heads], forest.rank[below], forest.arity[heads]))
        indices += [forest.words[nodes], gathered, row[heads][gathered]]
        below = nodes
    roots = np.flatnonzero(forest.heads < 0)  # in the order of the sentences
    return Plan(levels, np.concatenate([*indices, row[roots]]))


def _forest(sentences: Sequence[Sentence]) -> _Forest:
    """Join the trees of a minibatch."""
    sizes = np.array([len(sentence) for sentence in sentences])
    offsets = np.repeat(np.cumsum(sizes) - sizes, sizes)
    heads = np.concatenate([sentence.parents for sentence in sentences]).astype(np.int64) - 1
    heads = np.where(heads < 0, -1, heads + offsets)
    inside = np.flatnonzero(heads >= 0)
    arity = np.bincount(heads[inside], minlength=len(heads))
    words = np.concatenate([sentence.ids for sentence in sentences])
    return _Forest(words, heads, _depths(heads), arity, _ranks(heads, inside))


def _depths(heads: np.ndarray) -> np.ndarray:
    """Return the distance of each node from its root, climbing all trees at once."""
    depth = np.zeros(len(heads), dtype=np.int64)
    above = heads.copy()
    climbing = np.flatnonzero(above >= 0)
    while len(climbing):
        depth[climbing] += 1
        above[climbing] = heads[above[climbing]]
        climbing = climbing[above[climbing] >= 0]
    return depth


def _ranks(heads: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """Return the position of each node among its siblings."""
    by_head = inside[np.argsort(heads[inside], kind="stable")]
    places = np.arange(len(by_head))
    opens = np.ones(len(by_head), dtype=bool)
    opens[1:] = heads[by_head[1:]] != heads[by_head[:-1]]
    rank = np.zeros(len(heads), dtype=np.int64)
    rank[by_head] = places - np.maximum.accumulate(np.where(opens, places, 0))
    return rank
