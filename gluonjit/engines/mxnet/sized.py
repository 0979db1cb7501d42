"""Compiled graphs by size.

A CachedOp infers shapes anew whenever they differ from those of its last call, forward and backward. Sizes that occur a
second time get a CachedOp of their own. Their total number is bounded.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import mxnet as mx

Sizes = tuple[int, ...]

_MOST = 256  # about 0.1 MB each
_MOST_SEEN = 256
_own: OrderedDict[tuple[int, Sizes], tuple[Any, Any]] = OrderedDict()


class Sized:
    """A graph as CachedOps, one for any sizes, and those for sizes that come again."""

    def __init__(self, graph: mx.sym.Symbol) -> None:
        self._graph = graph
        self._any: Any = None  # many a program is dropped for one like it before it has run
        self._seen: OrderedDict[Sizes, None] = OrderedDict()

    def of(self, sizes: Sizes) -> Any:
        """The CachedOp to call with arrays of these sizes."""
        key = (id(self), sizes)
        found = _own.get(key)
        if found is not None:
            _own.move_to_end(key)
            return found[1]
        if sizes not in self._seen:
            self._seen[sizes] = None
            if len(self._seen) > _MOST_SEEN:
                self._seen.popitem(last=False)
            if self._any is None:
                self._any = _compiled(self._graph)
            return self._any
        op = _compiled(self._graph)
        _own[key] = (self, op)  # who is in the key must not be another one later
        if len(_own) > _MOST:
            _own.popitem(last=False)
        return op


def _compiled(graph: mx.sym.Symbol) -> Any:
    return mx.nd.CachedOp(graph, [("inline_limit", 0)])


def sized_count() -> int:
    """CachedOps for sizes that came again: 256 at most."""
    return len(_own)


def clear_sized() -> None:
    """Forgets them."""
    _own.clear()
