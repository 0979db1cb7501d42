"""Generated samples with the sizes of the treebank's and ResumeNER's, for use without those files."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from experiments.data.arrays import Make
from experiments.data.phrases import Sentence as Phrases
from experiments.data.tagged import Sentence as Tagged

COUNT = 4096  # of a data set; a limit takes the first of them


class Statistics(NamedTuple):
    """Sentences of a data set: how many words they have, how many different ones there are, and classes or tags."""

    mean: float
    spread: float
    least: int
    most: int
    words: int
    classes: int

    def sizes(self, rng: np.random.Generator, count: int) -> list[int]:
        """Draw the sizes of sentences: a gamma distribution of this mean and spread, cut off at both ends."""
        shape = (self.mean / self.spread) ** 2
        drawn = rng.gamma(shape, self.mean / shape, count)
        return np.clip(np.rint(drawn), self.least, self.most).astype(int).tolist()

    def sentence(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draw words, the k-th most frequent one k times as rarely as the first (Zipf)."""
        # The inverse of the distribution function of 1/k, by its integral.
        drawn = np.exp(rng.uniform(0, np.log(self.words + 1), size)) - 1
        return drawn.astype(np.int32)


SST = Statistics(19.1, 9.3, 2, 52, 18_280, 5)
RESUME = Statistics(32.5, 25.1, 3, 178, 1_792, 28)


def phrases(seed: int, limit: int, make: Make) -> list[Phrases]:
    """Return the first of COUNT sentences with random binary trees and classes."""
    rng = np.random.default_rng([seed, 8])
    samples = []
    for size in SST.sizes(rng, COUNT)[:limit]:
        labels = rng.integers(0, SST.classes, 2 * size - 1).astype(np.int32)
        samples.append(Phrases(make(SST.sentence(rng, size)), _binary(rng, 0, size), make(labels)))
    return samples


def tagged(seed: int, limit: int, make: Make) -> list[Tagged]:
    """Return the first of COUNT sentences with random tags."""
    rng = np.random.default_rng([seed, 9])
    samples = []
    for size in RESUME.sizes(rng, COUNT)[:limit]:
        tags = rng.integers(0, RESUME.classes, size).astype(np.int32)
        samples.append(Tagged(make(RESUME.sentence(rng, size)), make(tags)))
    return samples


def _binary(rng: np.random.Generator, begin: int, end: int) -> Any:
    """Return a random binary tree over some words."""
    if end - begin == 1:
        return begin
    middle = int(rng.integers(begin + 1, end))
    return _binary(rng, begin, middle), _binary(rng, middle, end)
