"""Functions of the package's top level that need whatever engine the arrays belong to."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import add
from typing import Any

from gluonjit.hybrid.functions import cell
from gluonjit.hybrid.state import ENGINES

__all__ = ["add_n", "cache_info", "cell", "clear_caches"]


def add_n(arrays: Iterable[Any]) -> Any:
    """The sum of arrays of one shape, for example of the losses of a minibatch.

    Under dynamic batching this is one node; elsewhere the framework's own sum. Raises ValueError for no arrays.
    """
    listed = list(arrays)
    if not listed:
        raise ValueError("gluonjit.add_n() of no arrays: pass at least one, for example the minibatch's losses")
    for engine in ENGINES:
        if engine.owns(listed[0]):
            return engine.add_n(listed)
    return reduce(add, listed)


def cache_info() -> dict[str, int]:
    """The number of entries in each cache, as `engine.cache`."""
    return {f"{engine.name}.{name}": count for engine in ENGINES for name, count in engine.cache_info().items()}


def clear_caches() -> None:
    """Forget all traced cells and batched graphs; they are made again when needed."""
    for engine in ENGINES:
        engine.clear_caches()
