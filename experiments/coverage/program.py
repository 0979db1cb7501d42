"""A program of the collection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Step = Callable[[], Any]
"""Runs the next minibatch, and returns its results."""


@dataclass(frozen=True)
class Program:
    """A program of the collection.

    name: where it is from, its engine, its own name, and what it does.
    start: makes the program, batched with these options, or eager without; equal each time.
    minibatches: how many run until counts no longer change, the counted one included.
    """

    name: str
    start: Callable[[Mapping[str, Any] | None], Step]
    minibatches: int = 3

    @property
    def source(self) -> str:
        """The part of the collection that it is from."""
        return self.name.split("/")[0]
