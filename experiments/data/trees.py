"""Dependency trees, sentences and pairs of sentences: the inputs of a model of the experiment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

CLASSES = 5


class TreeError(ValueError):
    """The heads of a sentence do not form one tree."""


class Tree:
    """One node: the position of its token in the sentence, and its children in sentence order."""

    __slots__ = ("children", "index")

    def __init__(self, index: int, children: list[Tree] | None = None) -> None:
        self.index = index
        self.children: list[Tree] = [] if children is None else children

    def __iter__(self) -> Iterator[Tree]:
        """Yield the nodes of the tree, parents first."""
        pending = [self]
        while pending:
            node = pending.pop()
            yield node
            pending.extend(reversed(node.children))

    def depth(self) -> int:
        """Return the number of nodes on the longest way from here to a leaf."""
        level, depth = [self], 0
        while level:
            depth += 1
            level = [child for node in level for child in node.children]
        return depth


def tree_of(parents: Sequence[int]) -> Tree:
    """Build a tree from the 1-based heads of its tokens, 0 for the root; raise `TreeError` if it is none."""
    size = len(parents)
    nodes = [Tree(index) for index in range(size)]
    roots: list[Tree] = []
    for index, head in enumerate(parents):
        if not 0 <= head <= size:
            raise TreeError(f"token {index + 1} has head {head}, but the sentence has {size} tokens")
        (nodes[head - 1].children if head else roots).append(nodes[index])
    if len(roots) != 1:
        places = [root.index + 1 for root in roots]
        raise TreeError(f"a sentence needs one root (head 0), this one has {len(roots)}: tokens {places}")
    reached = {node.index for node in roots[0]}
    if len(reached) != size:
        lost = sorted(set(range(size)) - reached)
        raise TreeError(f"the heads form a cycle: token {lost[0] + 1} is never reached from the root")
    return roots[0]


class Sentence:
    """A parsed sentence; `tokens` are its `ids` as an engine's array, so that a look-up costs no conversion."""

    __slots__ = ("ids", "parents", "root", "tokens", "words")

    def __init__(self, words: Sequence[str], parents: Sequence[int], root: Tree | None = None) -> None:
        self.words = tuple(words)
        self.parents = np.asarray(parents, dtype=np.int32)
        self.root = tree_of(parents) if root is None else root
        self.ids: np.ndarray = np.zeros(0, dtype=np.int32)
        self.tokens: Any = None

    def __len__(self) -> int:
        return len(self.words)

    def number(self, ids: Sequence[int]) -> None:
        """Give the sentence the vocabulary's indices of its words."""
        self.ids = np.asarray(ids, dtype=np.int32)


class Pair:
    """Two sentences and how related they are (1 to 5); `target` is its `distribution` in an engine's array."""

    __slots__ = ("left", "right", "score", "target")

    def __init__(self, left: Sentence, right: Sentence, score: float) -> None:
        self.left = left
        self.right = right
        self.score = score
        self.target: Any = None

    @property
    def distribution(self) -> np.ndarray:
        """The score as probabilities (5,) of the classes."""
        return target_of(self.score)

    @property
    def size(self) -> int:
        """The number of tree nodes in the pair."""
        return len(self.left) + len(self.right)


def target_of(score: float) -> np.ndarray:
    """Spread a score over its two neighbouring classes (Tai et al. 2015), so that its mean is the score."""
    target = np.zeros(CLASSES, dtype=np.float32)
    floor = int(np.floor(score))
    target[floor - 1] = floor + 1 - score
    if floor < CLASSES:
        target[floor] = score - floor
    return target
