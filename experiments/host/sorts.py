"""Kinds of calls, and what an engine must provide to time them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

Tree = tuple[int, list[Any]]  # the index of a node's word, and its children
Sample = tuple[Any, Tree]  # the words of a sentence, as the engine's array, and its tree


class Operands(NamedTuple):
    """Operands of calls: as many xs and ys as there are calls, all different, and a sentence of as many words."""

    xs: Sequence[Any]
    ys: Sequence[Any]
    words: Any


@dataclass(frozen=True)
class Sort:
    """One sort of call.

    run: makes the calls, one for each of the operands, with the layers of a net, and returns their results;
    again: the same calls are made before, so that those that are timed are equal to calls that are there already;
    stub: has calls return its object at the door, where they go through Python of the framework's and come to gluonjit.
    """

    name: str
    run: Callable[[Any, Operands], list[Any]]
    again: bool = False
    stub: Callable[[], AbstractContextManager[object]] | None = None


class Engine(Protocol):
    """A framework: its sorts of calls, and two models with equal weights each time, eager and batched.

    `calls` runs what it is given, as one sample, with itself as the argument; `trees` is the README's TreeModel.
    """

    SORTS: Sequence[Sort]
    PLANNED: Sequence[int]
    """Samples of the TreeModel whose nodes are about 1,500 and about 9,800."""

    def calls(self, batched: bool, seed: int) -> Any:
        """Return the model in which calls are made."""

    def trees(self, batched: bool, seed: int, **options: Any) -> Any:
        """Return the TreeModel; `options` are more of how it is batched."""

    def operands(self, net: Any, words: np.ndarray) -> Operands:
        """Make operands of these words, all different, with the layers of `calls`."""

    def words(self, words: np.ndarray) -> Any:
        """Return words as an input array."""

    def gradients(self, on: bool) -> AbstractContextManager[Any]:
        """Return a context with gradients, or without."""

    def wait(self) -> None:
        """Return when all that was begun has been computed."""

    def numbers(self, array: Any) -> np.ndarray:
        """Return an array's numbers."""
