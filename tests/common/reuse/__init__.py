"""Models whose calls are reused, the same ones on each engine, and what a test does with them."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator
from typing import Any

WORDS, SIZE = 12, 4
Tree = tuple[Any, ...]  # (word, *children)
SMALL: Tree = (1, (2,), (3, (2,)))
TREES: list[Tree] = [SMALL, (4, (1, (2,), (3, (2,)))), (5,), (4, (5,), (5,)), (6, (3, (2,)), (7,), (8,))]
FIXED = {"granularity": "cell", "scheduler": "depth", "sharing": True}


def load(name: str) -> Any:
    """What a test needs of an engine."""
    return importlib.import_module(f"reuse.on_{name}")


def flatten(tree: Tree) -> Iterator[int]:
    """The words of a tree, a parent before its children."""
    yield tree[0]
    for child in tree[1:]:
        yield from flatten(child)


def itself(root: Any, words: Any) -> Any:
    """Do nothing beside."""
    return root


class Encoding:
    """The part of an encoder that is the same on each engine.

    after: what a test has it do beside; tally: how often it has run.
    """

    def encoded(self, tree: Tree, word: Any) -> Any:
        """The state of a tree's root, by a word's row of the sentence."""
        net: Any = self
        net.tally[0] += 1
        words = net.embed(word(list(flatten(tree))))
        return net.after(self._encode(tree, words, iter(range(len(words)))), words)

    def _encode(self, tree: Tree, words: Any, places: Iterator[int]) -> Any:
        net: Any = self
        place = next(places)
        return net.node(words[place : place + 1], *[self._encode(child, words, places) for child in tree[1:]])
