"""Sentences with trees.

A tree is (index of its word, children); words are numbered in the order they are read.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count as numbers_from
from typing import Any

from numpy.random import RandomState

from experiments.zoo.samples import floats, integers

Tree = tuple[int, list[Any]]
Binary = Any
"""The index of a word, or a pair of trees."""

WORDS = 40
CLASSES = 5  # of a sentence, or of each of its phrases
FEW_CLASSES = 3
TAGS = 5  # of words
SHIFT, REDUCE = 0, 1


def random_tree(random: RandomState, size: int, most: int = 4) -> Tree:
    """A tree of `size` nodes, each with a word and at most `most` children."""
    numbers = numbers_from()

    def grow(budget: int) -> Tree:
        index, left = next(numbers), budget - 1
        children: list[Tree] = []
        while left:
            part = left if len(children) == most - 1 else int(random.randint(1, left + 1))
            children.append(grow(part))
            left -= part
        return index, children

    return grow(size)


def random_binary(random: RandomState, size: int) -> Binary:
    """A binary tree over `size` words, which are its leaves."""

    def grow(begin: int, end: int) -> Binary:
        if end - begin == 1:
            return begin
        middle = int(random.randint(begin + 1, end))
        return grow(begin, middle), grow(middle, end)

    return grow(0, size)


def _sentence(
    random: RandomState, sizes: range, classes: int, grow: Callable[[RandomState, int], Any]
) -> tuple[Any, Any, Any]:
    """Words, a tree over them, and a class."""
    size = int(random.randint(sizes.start, sizes.stop))
    tokens = integers(random.randint(0, WORDS, size))
    return tokens, grow(random, size), integers(random.randint(0, classes))


def sentences(count: int, random: RandomState) -> list[Any]:
    """Sentences of 1 to 15 words with a tree and a class."""
    return [_sentence(random, range(1, 16), CLASSES, random_tree) for _ in range(count)]


def rated(count: int, random: RandomState) -> list[Any]:
    """Sentences of 1 to 15 words with a tree and a number, in an array of one."""
    samples = []
    for _ in range(count):
        size = int(random.randint(1, 16))
        tokens = integers(random.randint(0, WORDS, size))
        samples.append((tokens, random_tree(random, size), floats(random.uniform(-1, 1, 1))))
    return samples


def tagged(count: int, random: RandomState) -> list[Any]:
    """Sentences of 1 to 12 words with a tree and a tag for each word."""
    samples = []
    for _ in range(count):
        size = int(random.randint(1, 13))
        tokens = integers(random.randint(0, WORDS, size))
        samples.append((tokens, random_tree(random, size), integers(random.randint(0, TAGS, size))))
    return samples


def binary_sentences(count: int, random: RandomState) -> list[Any]:
    """Sentences of 2 to 10 words with a binary tree and a class, one of three."""
    return [_sentence(random, range(2, 11), FEW_CLASSES, random_binary) for _ in range(count)]


def phrases(count: int, random: RandomState) -> list[Any]:
    """Sentences of 1 to 12 words with a binary tree and a class for each phrase."""
    samples = []
    for _ in range(count):
        size = int(random.randint(1, 13))
        tokens = integers(random.randint(0, WORDS, size))
        labels = integers(random.randint(0, CLASSES, 2 * size - 1))
        samples.append((tokens, random_binary(random, size), labels))
    return samples


def pairs(count: int, random: RandomState) -> list[Any]:
    """Pairs of sentences of 1 to 12 words, with their trees and a score."""
    samples = []
    for _ in range(count):
        sides: list[Any] = []
        for size in random.randint(1, 13, 2).tolist():
            sides += [integers(random.randint(0, WORDS, size)), random_tree(random, size, most=3)]
        samples.append((*sides, floats(random.uniform(1, 5))))
    return samples


def actions_of(tree: Binary) -> list[int]:
    """The actions that build a tree."""
    if isinstance(tree, tuple):
        return [action for part in tree for action in actions_of(part)] + [REDUCE]
    return [SHIFT]


def transitions(count: int, random: RandomState) -> list[Any]:
    """Sentences of 2 to 8 words with the actions that build a tree over them, and a class, one of three."""
    samples = []
    for _ in range(count):
        size = int(random.randint(2, 9))
        actions = actions_of(random_binary(random, size))
        tokens = integers(random.randint(0, WORDS, size))
        samples.append((tokens, actions, integers(actions), integers(random.randint(0, FEW_CLASSES))))
    return samples
