"""From a lazy array to its numbers, its history in MXNet, and memory of its own."""

from __future__ import annotations

from typing import Any

from mxnet.ndarray import NDArray

from gluonjit.engines.mxnet.bridge import bridged
from gluonjit.engines.mxnet.operands import ZERO, Owned, seen_through
from gluonjit.engines.mxnet.refusals import has_history, refuse_recorded
from gluonjit.engines.mxnet.session import as_captured
from gluonjit.engines.mxnet.trace import NeedsValue, Trace
from gluonjit.graph import Value
from gluonjit.hybrid import LOCAL, engine_of

_LINKED = object()


def created(value: Value, zero: bool = False) -> Value:
    """This value for an array whose memory is not its own, and which has no history; `zero` if that is all zeros."""
    return Value(value.rows, value.depth, value.spec, value.graph, False, ZERO if zero else None)


def concrete(array: Any) -> NDArray:
    """The computed array; runs what is pending."""
    return array._c if array._c is not None else compute(array)


def compute(array: Any) -> NDArray:
    """Run what the array waits for, and keep its numbers."""
    value = array._v
    if isinstance(value.graph, Trace):
        raise NeedsValue()
    if seen_through(array):
        return concrete(array)
    computed: NDArray = array._in_kind(engine_of("mxnet").force(value))  # type: ignore[attr-defined]
    array._c = computed
    return computed


def plain(array: Any) -> NDArray:
    """The computed array, under recording with its history: for code that takes NDArrays of no other class."""
    if LOCAL.state.mode >= 2 and not LOCAL.state.paused and unlinked(array):
        return link(array)
    return concrete(array)


def waits(array: Any) -> bool:
    """Whether an operator on this array has to be captured: it is not computed, or its history is its batch's."""
    return array._c is None or (unlinked(array) and LOCAL.state.mode >= 2)


def unlinked(array: Any) -> bool:
    """Whether the history of an array lies in its batch, where MXNet's own recording does not see it."""
    value = array._v
    base = value.base
    return value.taped and base.__class__ is not Owned and base is not _LINKED


def link(array: Any) -> NDArray:
    """Let MXNet's own recording go on from an array: something eager uses it under recording."""
    if array._c is None and seen_through(array):
        return concrete(array)
    concrete(array)
    value = array._v
    computed: NDArray = array._in_kind(engine_of("mxnet").with_history(value))  # type: ignore[attr-defined]
    linked = Value(value.rows, 0, value.spec, value.graph, True, _LINKED)
    linked.result = value.result
    array._c, array._v = computed, linked
    return computed


def own(array: Any, refusing: bool = True) -> NDArray:
    """The computed array as memory of its own, to be written to: others may share the rows of the batch.

    Raises CaptureError where MXNet refuses the write, which it does for operators that write to a result (`refusing`).
    """
    value = array._v
    if value.base.__class__ is Owned:
        viewed = True
    else:
        viewed = seen_through(array, True)
        if viewed:
            LOCAL.state.flush("an array that captured calls use was written to")
        else:
            concrete(array)
    if refusing:
        refuse_recorded(value, value.spec.shape)
    if not viewed:
        computed = _copied(array)
        array._c = computed
        array._v = Value(-1, 0, value.spec, None, value.taped, Owned(computed))
    return concrete(array)


def _copied(array: Any) -> NDArray:
    """A copy of a computed array; where it has a history, that goes on through what is written to it, as in MXNet."""
    state, value = LOCAL.state, array._v
    if state.paused or state.mode >= 2 or not unlinked(array) or not has_history(value):
        return concrete(array).copy()
    with as_captured(2):
        copy: NDArray = array._in_kind(bridged(value).copy())
    return copy
