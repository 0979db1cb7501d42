"""Samples and weights as plain arrays, passed to the peers in a file: written here, read in the peer's process.

Only numpy is imported: the peers' environments have no MXNet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from experiments.data.arrays import host

WEIGHT = "weight/"  # what the names of weights begin with in the file


class Node:
    """One node of a dependency tree: the number of its word, and its children."""

    __slots__ = ("children", "word")

    def __init__(self, word: int) -> None:
        self.word = word
        self.children: list[Node] = []


class Sentence(NamedTuple):
    """Words (n,), the head of each as a place in the sentence (-1: the root), and the same as a tree."""

    words: np.ndarray
    heads: np.ndarray
    root: Node


class Pair(NamedTuple):
    """Two sentences and how related they are, as a distribution over five classes (5,)."""

    left: Sentence
    right: Sentence
    target: np.ndarray


class Phrases(NamedTuple):
    """A binary tree: words (n,); left and right part of each phrase (2n-1,) in the order in which phrases end.

    For a word `left` is -1 and `right` its place in the sentence. labels: the class of each phrase.
    """

    words: np.ndarray
    left: np.ndarray
    right: np.ndarray
    labels: np.ndarray


class Tagged(NamedTuple):
    """Words (n,) and their tags (n,)."""

    words: np.ndarray
    labels: np.ndarray


Arrays = dict[str, np.ndarray]


class Family(NamedTuple):
    """One kind of samples: how they become arrays, and samples of a peer again."""

    write: Callable[[Sequence[Any]], Arrays]
    read: Callable[[Arrays], list[Any]]


def save(path: Path, family: str, samples: Sequence[Any], weights: Arrays) -> None:
    """Write the samples of a workload and the weights of its model."""
    np.savez(path, **FAMILIES[family].write(samples), **{WEIGHT + name: array for name, array in weights.items()})


def load(path: Path, family: str) -> tuple[list[Any], Arrays]:
    """Return the saved samples, in the peers' form, and weights."""
    with np.load(path, allow_pickle=False) as stored:
        arrays = dict(stored)
    weights = {name[len(WEIGHT) :]: array for name, array in arrays.items() if name.startswith(WEIGHT)}
    return FAMILIES[family].read(arrays), weights


def _write_pairs(samples: Sequence[Any]) -> Arrays:
    sentences = [side for pair in samples for side in (pair.left, pair.right)]
    return {
        "words": np.concatenate([sentence.ids for sentence in sentences]).astype(np.int64),
        "heads": np.concatenate([sentence.parents for sentence in sentences]).astype(np.int64) - 1,
        "sizes": np.array([len(sentence.ids) for sentence in sentences]),
        "targets": np.stack([pair.distribution for pair in samples]).astype(np.float32),
    }


def _read_pairs(arrays: Arrays) -> list[Pair]:
    words, heads = _cut(arrays["words"], arrays["sizes"]), _cut(arrays["heads"], arrays["sizes"])
    sentences = [Sentence(*found, _tree(*found)) for found in zip(words, heads)]
    return [Pair(*found) for found in zip(sentences[::2], sentences[1::2], arrays["targets"])]


def _tree(words: np.ndarray, heads: np.ndarray) -> Node:
    nodes = [Node(word) for word in words.tolist()]
    root = nodes[0]
    for node, head in zip(nodes, heads.tolist()):
        if head < 0:
            root = node
        else:
            nodes[head].children.append(node)
    return root


def _write_phrases(samples: Sequence[Any]) -> Arrays:
    parts = [phrases_of(sample.tree) for sample in samples]
    return {
        "words": np.concatenate([host(sample.tokens) for sample in samples]).astype(np.int64),
        "sizes": np.array([len(sample.tokens) for sample in samples]),
        "left": np.concatenate([left for left, _ in parts]),
        "right": np.concatenate([right for _, right in parts]),
        "labels": np.concatenate([host(sample.target) for sample in samples]).astype(np.int64),
    }


def phrases_of(tree: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return left and right part of each phrase of a binary tree of tuples, as `Phrases` has them."""
    found: list[tuple[int, int]] = []

    def visit(part: Any) -> int:
        ends = (visit(part[0]), visit(part[1])) if isinstance(part, tuple) else (-1, part)
        found.append(ends)
        return len(found) - 1

    visit(tree)
    left, right = np.array(found, dtype=np.int64).T
    return left, right


def heads_of(sample: Phrases) -> np.ndarray:
    """Return the phrase that each phrase is a part of (2n-1,), -1 for the whole."""
    heads = np.full(len(sample.left), -1)
    inner = np.flatnonzero(sample.left >= 0)
    heads[sample.left[inner]] = heads[sample.right[inner]] = inner
    return heads


def _read_phrases(arrays: Arrays) -> list[Phrases]:
    phrases = 2 * arrays["sizes"] - 1
    columns = [_cut(arrays[name], phrases) for name in ("left", "right", "labels")]
    return [Phrases(*found) for found in zip(_cut(arrays["words"], arrays["sizes"]), *columns)]


def _write_tagged(samples: Sequence[Any]) -> Arrays:
    return {
        "words": np.concatenate([host(sample.characters) for sample in samples]).astype(np.int64),
        "labels": np.concatenate([host(sample.target) for sample in samples]).astype(np.int64),
        "sizes": np.array([len(sample.characters) for sample in samples]),
    }


def _read_tagged(arrays: Arrays) -> list[Tagged]:
    return [Tagged(*found) for found in zip(*[_cut(arrays[name], arrays["sizes"]) for name in ("words", "labels")])]


def _cut(array: np.ndarray, sizes: np.ndarray) -> list[np.ndarray]:
    """Cut an array into parts of these lengths."""
    return np.split(array, np.cumsum(sizes)[:-1])


FAMILIES = {
    "pairs": Family(_write_pairs, _read_pairs),
    "phrases": Family(_write_phrases, _read_phrases),
    "tagged": Family(_write_tagged, _read_tagged),
}
