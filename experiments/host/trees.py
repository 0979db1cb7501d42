"""Samples of the README's TreeModel, all different: sentences of random words in trees of random shapes."""

from __future__ import annotations

import numpy as np

from experiments.host.sorts import Tree

WORDS = 1000
LEAST, MOST = 4, 16  # nodes of a tree, a word each


def sentence(draw: np.random.RandomState) -> tuple[np.ndarray, Tree]:
    """Draw the words of a sentence and its tree, in which each node hangs from any of those before it."""
    size = draw.randint(LEAST, MOST + 1)
    nodes: list[Tree] = [(index, []) for index in range(size)]
    for index in range(1, size):
        nodes[draw.randint(index)][1].append(nodes[index])
    return draw.randint(WORDS, size=size), nodes[0]
