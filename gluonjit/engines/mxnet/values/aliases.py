"""Views of lazy arrays, which share memory with them in MXNet, and the path from an array to a view of it.

A view is a separate lazy array until something is written. Then its base gets memory of its own, unless it had some
before, as inputs do, and the view becomes MXNet's view of that memory.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from mxnet.ndarray import NDArray

from gluonjit.engines.mxnet.framework.arrays import spec_of
from gluonjit.engines.mxnet.framework.indices import basic_index, expanded, is_basic
from gluonjit.engines.mxnet.framework.semantics import as_captured
from gluonjit.engines.mxnet.run.results import has_history
from gluonjit.graph import Spec, Value
from gluonjit.graph.references import follow
from gluonjit.hybrid.run.batch import Batch
from gluonjit.hybrid.run.state import LOCAL, UNCAPTURED


class Owned:
    """A reference to an array with its own memory, of which slices are views."""

    __slots__ = ("array",)

    def __init__(self, array: NDArray) -> None:
        self.array = array


class ViewCall(NamedTuple):
    """A method of arrays that gives a view, and what it was called with."""

    method: str
    args: tuple[Any, ...] = ()

    def of(self, array: NDArray) -> NDArray:
        """The view of an array."""
        return getattr(array, self.method)(*self.args)


DETACHED = ViewCall("detach")
CLASSIC, NUMPY = ViewCall("as_nd_ndarray"), ViewCall("as_np_ndarray")


def noted(view: Any, array: Any, key: Any) -> Any:
    """The view, which knows from now on what it is a view of: this key of `[]`, or this step, of an array.

    `_b` is an array that is no view, `_k` the key or step, or that of another view of `_b` with one of that view. Of an
    array that has views `_k` is True. `gluonjit._fast` does the same.
    """
    if key.__class__ is tuple or not isinstance(key, (int, slice, ViewCall)):
        key = ViewCall("__getitem__", (key,))
    if array._b is None:
        array._k = True
        view._b, view._k = array, key
    else:
        view._b, view._k = array._b, (array._k, key)
    return view


def is_view(key: Any, shape: tuple[int, ...]) -> bool:
    """True if `x[key]` shares an array's memory: the key is basic, and what it picks lies together."""
    kind = key.__class__
    parts = key if kind is tuple else (key,)
    if (kind is slice and key.step is None) or all([part.__class__ is int for part in parts]):
        return True
    if any(isinstance(part, (list, np.ndarray, NDArray)) for part in parts):
        return False
    parts = expanded(parts, len(shape))
    if not is_basic(parts):
        return False
    cuts, _ = basic_index(parts, shape)
    partly = False  # an axis before has more than one of its places
    for (begin, end, step), extent in zip(cuts or (), shape):
        count = len(range(begin, -1 if end is None else end, step))
        if count > 1 and step != 1:
            return False
        if partly and count < extent:
            return False
        partly = partly or count > 1
    return True


def apart(spec: Spec) -> Value:
    """Returns a value of an existing array that has no history in a batch, and shares its memory with others."""
    return Value(-1, 0, spec, None, False, None)


def seen(array: Any, view: NDArray, key: Any, wrapped: Any) -> Any:
    """Finds what was taken of a computed array by a key or a step, where it shares that array's memory.

    wrapped: makes a lazy array of a value.
    """
    if array._v.base.__class__ is Owned or not view.size:
        return view
    lazy = wrapped(apart(spec_of(view)))
    lazy._c = view
    return noted(lazy, array, key)


def is_stale(array: Any) -> bool:
    """True if an array is a view of memory that may have been written to since its value was found."""
    base = array._b
    if base is None or base._v.base.__class__ is not Owned:
        return False
    graph = array._v.graph
    return graph is None or not isinstance(graph.owner, Batch)


def renew(array: Any) -> None:
    """Makes a view one of the memory of what it is a view of; with a history in MXNet if it was recorded."""
    value, found = array._v, array._b._c
    with UNCAPTURED, as_captured(2 if value.taped and has_history(found) else 0):
        found = follow(found, array._k)
    array._c = found = array._in_kind(found)
    array._v = Value(-1, 0, value.spec, None, value.taped, Owned(found))
    array._b = array._k = None


def in_memory(array: Any) -> NDArray | None:
    """Returns a view of an existing array, such as an input, without history; None for other views."""
    base = array._b
    if base is None or base._c is None or LOCAL.state.trace is not None:
        return None
    with UNCAPTURED, as_captured(0):
        return follow(base._c, array._k)
