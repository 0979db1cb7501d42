"""Random trees. A tree is (index of its word, children); words are numbered in the order they are read."""

from __future__ import annotations

from itertools import count
from typing import Any

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
