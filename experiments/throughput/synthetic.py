"""Pairs of random dependency trees with distinct words: nothing is equal, so nothing can be shared."""

from __future__ import annotations

import numpy as np

from experiments.data.arrays import Make, give
from experiments.data.trees import Pair, Sentence

PAIRS = 1024
MEAN_NODES, SPREAD = 9.7, 3.6  # of a tree, as in SICK
LEAST_NODES = 3
VECTOR_SIZE = 300
NOTE = "SYNTHETIC: random dependency trees of SICK's mean size, a word of its own for every node; scores are random"


def pairs(seed: int, make: Make, limit: int | None = None) -> tuple[list[Pair], np.ndarray, str]:
    """Return the pairs with arrays made by `make`, the vectors of their words, and a description."""
    rng = np.random.default_rng([seed, 6])
    sizes = np.maximum(LEAST_NODES, np.rint(rng.normal(MEAN_NODES, SPREAD, 2 * min(PAIRS, limit or PAIRS)))).astype(int)
    ends = np.cumsum(sizes)
    sentences = [_sentence(rng, int(end - size), int(end)) for size, end in zip(sizes, ends)]
    scores = rng.uniform(1, 5, len(sizes) // 2)
    found = [Pair(left, right, float(score)) for left, right, score in zip(sentences[::2], sentences[1::2], scores)]
    give(found, make)
    vectors = rng.normal(0, 0.3, (int(ends[-1]), VECTOR_SIZE)).astype(np.float32)
    return found, vectors, NOTE


def _sentence(rng: np.random.Generator, first: int, end: int) -> Sentence:
    """Return a sentence of the words from `first` on; each node hangs on one that is drawn from those before it."""
    size = end - first
    places = rng.permutation(size)  # of the nodes, in the order in which they are hung
    heads = np.zeros(size, dtype=np.int32)
    for at in range(1, size):
        heads[places[at]] = places[rng.integers(at)] + 1
    words = np.arange(first, end)
    sentence = Sentence([f"w{word}" for word in words], heads.tolist())
    sentence.number(words.tolist())
    return sentence
