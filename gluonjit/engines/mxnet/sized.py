"""Compiled graphs by size.

A CachedOp infers shapes anew whenever they differ from those of its last call, forward and backward. Sizes that occur a
second time get a CachedOp of their own. Their total number is bounded, and none that was in use lately makes room: a
program that has more sizes than that would make all of them anew, which takes longer than to infer shapes.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import count
from typing import Any

import mxnet as mx

Sizes = tuple[int, ...]

_MOST = 512  # about 0.1 MB each
_MOST_SEEN = 256
_LATELY = 4096  # calls of such graphs: a few minibatches
_own: OrderedDict[tuple[int, Sizes], _Own] = OrderedDict()
_calls = count()


class _Own:
    """A CachedOp for some sizes, whose it is, and the number of the call that has used it last."""

    __slots__ = ("last", "op", "owner")

    def __init__(self, owner: Sized, op: Any, last: int) -> None:
        self.owner, self.op, self.last = owner, op, last


class Sized:
    """A graph as CachedOps, one for any sizes, and those for sizes that come again."""

    def __init__(self, graph: mx.sym.Symbol) -> None:
        self._graph = graph
        self._any: Any = None  # many a program is dropped for one like it before it has run
        self._seen: OrderedDict[Sizes, None] = OrderedDict()

    def of(self, sizes: Sizes) -> Any:
        """The CachedOp to call with arrays of these sizes."""
        key = (id(self), sizes)
        call = next(_calls)
        found = _own.get(key)
        if found is not None:
            _own.move_to_end(key)
            found.last = call
            return found.op
        if sizes not in self._seen or not _has_room(call):
            self._seen[sizes] = None
            if len(self._seen) > _MOST_SEEN:
                self._seen.popitem(last=False)
            if self._any is None:
                self._any = _compiled(self._graph)
            return self._any
        op = _compiled(self._graph)
        _own[key] = _Own(self, op, call)  # who is in the key must not be another one later
        return op


def _has_room(call: int) -> bool:
    """Makes room for one more, if there is none, where the one that was not used for longest is no longer in use."""
    if len(_own) >= _MOST and call - next(iter(_own.values())).last > _LATELY:
        _own.popitem(last=False)
    return len(_own) < _MOST


def _compiled(graph: mx.sym.Symbol) -> Any:
    return mx.nd.CachedOp(graph, [("inline_limit", 0)])


def sized_count() -> int:
    """CachedOps for sizes that came again: 512 at most."""
    return len(_own)


def clear_sized() -> None:
    """Forgets them."""
    _own.clear()
