"""A corpus generated from a seed: pairs of English-like sentences with trees and scores. It is synthetic.

As in SICK, a pool of sentences is paired in many ways: each scene is told in several variants, most pairs are two
variants of one scene, and the same sentence occurs in several pairs. Sizes, depths and numbers of children of the
trees, and the numbers of words and subtrees that a minibatch has in common, follow SICK's.
"""

from __future__ import annotations

import numpy as np

from experiments.data.grammar import Speaker
from experiments.data.lexicon import CLASSES, Concept, concepts, participle, plural, progressive
from experiments.data.scenes import Imagination, Scene, relatedness
from experiments.data.trees import Pair, Sentence

SIZES = {"train": 4500, "dev": 500, "test": 4927}
SCENES = 1000
VARIANTS = 6
UNRELATED = 0.08  # of the pairs are of different scenes
VECTOR_SIZE = 300
NOTE = "a SYNTHETIC corpus, generated from the seed: its scores say nothing about language"

Told = tuple[Scene, Sentence]


def generate(seed: int) -> dict[str, list[Pair]]:
    """Return the three splits."""
    rng = np.random.default_rng([seed, 5])
    pool = _pool(rng)
    pairs = _pairs(rng, pool, sum(SIZES.values()))
    splits, at = {}, 0
    for split, size in SIZES.items():
        splits[split] = pairs[at : at + size]
        at += size
    return splits


def _pool(rng: np.random.Generator) -> list[list[Told]]:
    """Return the variants of each scene: as it is, said again, and changed."""
    imagination, speaker = Imagination(rng), Speaker(rng)
    pool = []
    for _ in range(SCENES):
        scene = imagination.scene()
        variants = [scene, scene]
        while len(variants) < VARIANTS:
            variants.append(imagination.change(variants[rng.integers(len(variants))]))
        pool.append([(variant, speaker.say(variant)) for variant in variants])
    return pool


def _pairs(rng: np.random.Generator, pool: list[list[Told]], count: int) -> list[Pair]:
    """Draw pairs, none of a sentence with itself and none twice."""
    pairs: list[Pair] = []
    drawn = set()
    while len(pairs) < count:
        first, second = rng.integers(len(pool), size=2)
        one, other = rng.integers(VARIANTS, size=2)
        second = second if rng.random() < UNRELATED else first
        key = (first, one, second, other)
        if key in drawn or key[:2] == key[2:]:
            continue
        drawn.add(key)
        (left, told_left), (right, told_right) = pool[first][one], pool[second][other]
        pairs.append(Pair(told_left, told_right, relatedness(left, right)))
    return pairs


def vectors(seed: int) -> tuple[list[str], np.ndarray]:
    """Return every word and a random vector for it; words for one concept lie close together."""
    rng = np.random.default_rng([seed, 6])
    found: dict[str, np.ndarray] = {}
    for concept in (concept for kind in CLASSES for concept in concepts(kind)):
        centre = rng.normal(0, 0.3, VECTOR_SIZE)
        for form in _forms(concept):
            found.setdefault(form, centre + rng.normal(0, 0.1, VECTOR_SIZE))
    for word in "a an the two three some no not is are being by there and".split():
        found.setdefault(word, rng.normal(0, 0.3, VECTOR_SIZE))
    for word in list(found):
        found.setdefault(word[:1].upper() + word[1:], found[word] + rng.normal(0, 0.05, VECTOR_SIZE))
    return list(found), np.array(list(found.values()), dtype=np.float32)


def _forms(concept: Concept) -> list[str]:
    """Return all forms in which a concept's words occur."""
    if concept.kind in ("being", "thing", "place"):
        return [form for word in concept.words for form in (word, plural(word))]
    if concept.kind in ("action", "deed"):
        return [form for word in concept.words for form in (progressive(word), participle(word))]
    return list(concept.words)
