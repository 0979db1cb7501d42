"""Random trees, and sentences with one.

A tree is (index of its word, children); words are numbered in the order they are read.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import mxnet as mx
from numpy.random import RandomState

Tree = tuple[int, list[Any]]
Binary = Any
"""The index of a word, or a pair of trees."""


def random_tree(random: RandomState, size: int, most: int = 4) -> Tree:
    """A tree of `size` nodes, each with a word and at most `most` children."""
    numbers = count()

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


def random_sentence(
    random: RandomState, sizes: range, words: int, classes: int, grow: Callable[[RandomState, int], Any]
) -> tuple[Any, Any, Any]:
    """Words, a tree over them, and a class."""
    size = int(random.randint(sizes.start, sizes.stop))
    tokens = mx.nd.array(random.randint(0, words, size), dtype="int32")
    return tokens, grow(random, size), mx.nd.array(random.randint(0, classes, 1), dtype="int32")
